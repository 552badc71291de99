"""Write operators on several tensors of other shapes or numbers as sums of two pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
from onnx import helper

from edgepipe.frontend.onnx_graph import set_nodes, shapes_of
from edgepipe.frontend.rewrites.rewriting import Nodes, Rewriting
from edgepipe.frontend.separable import before_layers

_BROADCASTING = ("Add", "Div", "Mul", "Sub")


def as_sums(model: onnx.ModelProto) -> None:
    """Replace sums, maxima and minima of several tensors, and copies, by what has an integer form.

    before   Sum(x, y, z);  Max(x, 0);       Max(x, y);           x + a [1, c, 1, 1]
    after    x + y + z;     Clip(x, min=0);  Relu(x - y) + y;     x + (ones @ a @ ones)

    A choice by constants is a sum of products with them: x * mask + y * (1 - mask).
    A copy that a product reads (``x * gate.expand_as(x)``) is left out. What no layer reads
    afterwards stays: it decodes results.
    """
    _skip_copies(model)
    rewriting = Rewriting(model)
    needed = before_layers(model.graph)
    nodes: Nodes = []
    for node in model.graph.node:
        rule = _RULES.get(node.op_type)
        made = rule(rewriting, node) if rule is not None and node.output[0] in needed else None
        nodes += [node] if made is None else made
    set_nodes(model.graph, nodes)


def _skip_copies(model: onnx.ModelProto) -> None:
    """Let operators read what an Expand copies, where the other tensor has the size already."""
    shapes = shapes_of(model)
    copied = {n.output[0]: n.input[0] for n in model.graph.node if n.op_type == "Expand"}
    for node in model.graph.node:
        if node.op_type not in _BROADCASTING or not copied.keys() & set(node.input):
            continue
        for index, other in ((0, node.input[1]), (1, node.input[0])):
            source = copied.get(node.input[index])
            shape = shapes.get(node.input[index])
            if source is None or shape is None or shapes.get(other) != shape:
                continue
            if len(shapes.get(source, ())) == len(shape):
                node.input[index] = source


def _sum(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return a chain of sums of two tensors, and a factor for their mean."""
    if len({rewriting.shapes.get(value) for value in node.input}) != 1:
        return None
    name, last = node.output[0], len(node.input) - 1
    is_mean = node.op_type == "Mean"
    total, nodes = node.input[0], []
    for index, value in enumerate(node.input[1:], 1):
        target = name if index == last and not is_mean else f"{name}/sum{index}"
        nodes.append(helper.make_node("Add", [total, value], [target]))
        total = target
    if is_mean:
        share = rewriting.constant(f"{name}/share", np.array(1 / len(node.input)))
        nodes.append(helper.make_node("Mul", [total, share], [name]))
    return nodes or [helper.make_node("Identity", [total], [name])]


def _bound(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return a clip for one number beside a tensor, else a sum for two tensors of one shape.

    One of the two may be constants for each pixel.
    """
    name = node.output[0]
    if len(node.input) != 2:
        return None
    arrays = [rewriting.array(value) for value in node.input]
    is_largest = node.op_type == "Max"
    for tensor, bound in ((0, arrays[1]), (1, arrays[0])):
        shape = rewriting.shapes.get(node.input[tensor])
        same = shape == rewriting.shapes.get(name)
        if bound is not None and bound.size == 1 and arrays[tensor] is None and same:
            value = rewriting.constant(f"{name}/bound", bound.reshape(()))
            bounds = [value] if is_largest else ["", value]
            return [helper.make_node("Clip", [node.input[tensor], *bounds], [name])]
    constants = [value for value in node.input if rewriting.array(value) is not None]
    first, second = node.input
    if len(constants) == 1:
        first, second = (first, second) if second in constants else (second, first)
        if not _differs_by_pixel(rewriting, second, rewriting.shapes.get(name, ())):
            return None  # a table
    shapes = [rewriting.shapes.get(value) for value in (first, second)]
    same = shapes[0] == (rewriting.shapes.get(name) if constants else shapes[1])
    if not same or not shapes[0] or len(constants) == 2:
        return None
    difference = [first, second] if is_largest else [second, first]
    kind = "Add" if is_largest else "Sub"
    return [
        helper.make_node("Sub", difference, [f"{name}/difference"]),
        helper.make_node("Relu", [f"{name}/difference"], [f"{name}/above"]),
        helper.make_node(kind, [second, f"{name}/above"], [name]),
    ]


def _differs_by_pixel(rewriting: Rewriting, constant: str, shape: tuple[int, ...]) -> bool:
    """Return whether a constant has several finite values in a channel of a picture."""
    values = rewriting.array(constant)
    if values is None or len(shape) != 4 or shape[0] != 1 or values.ndim > len(shape):
        return False
    over = np.broadcast_to(values, shape)
    return bool(np.isfinite(values).all() and (over != over[:, :, :1, :1]).any())


def _choice(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return a product for each tensor and a sum where constants say which is chosen.

    Between a tensor and constants, constants for each channel are left to a table.
    """
    name = node.output[0]
    shape = rewriting.shapes.get(name, ())
    mask = rewriting.array(node.input[0])
    computed = [value for value in node.input[1:] if rewriting.array(value) is None]
    by_pixel = _differs_by_pixel(rewriting, node.input[0], shape)
    if mask is None or len(shape) != 4 or not computed or (len(computed) < 2 and not by_pixel):
        return None
    shares = [mask != 0, mask == 0]
    nodes: Nodes = []
    terms = []
    for index, (value, share) in enumerate(zip(node.input[1:], shares, strict=True)):
        constant = rewriting.array(value)
        if constant is None:
            if rewriting.shapes.get(value) != shape:
                return None
            factor = rewriting.constant(f"{name}/share{index}", share.astype(np.float64))
            terms.append(f"{name}/part{index}")
            nodes.append(helper.make_node("Mul", [value, factor], [terms[-1]]))
        elif not np.isfinite(constant).all():
            return None
        elif constant.any():
            terms.append(rewriting.constant(f"{name}/part{index}", constant * share))
    if len(terms) == 1:
        nodes[0].output[0] = name
        return nodes
    return [*nodes, helper.make_node("Add", terms, [name])]


def _broadcast(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return a sum of two tensors of one shape, the smaller one copied."""
    shape = rewriting.shapes.get(node.output[0], ())
    copies: Nodes = []
    inputs = list(node.input)
    for index, value in enumerate(node.input):
        own = rewriting.shapes.get(value, ())
        if own == shape or rewriting.array(value) is not None:
            continue
        made = _copied(rewriting, value, f"{node.output[0]}/copy{index}", own, shape)
        if made is None:
            return None
        copies += made
        inputs[index] = f"{node.output[0]}/copy{index}"
    node.input[:] = inputs
    return [*copies, node] if copies else None


def _copy(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return products with ones, and a selection of channels, for copies of one pixel."""
    source, name = node.input[0], node.output[0]
    before, after = (rewriting.shapes.get(value, ()) for value in (source, name))
    return _copied(rewriting, source, name, before, after)


def _tile(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return copies of height and width, then a selection of channels for copies of them."""
    before = rewriting.shapes.get(node.input[0], ())
    given = rewriting.array(node.input[1])
    if len(before) != 4 or before[1] == 1 or given is None or given.size != 4:
        return _copy(rewriting, node)
    batch, channels, *others = (int(count) for count in given.reshape(-1))
    if batch != 1 or channels < 2:
        return _copy(rewriting, node)
    source, name, nodes = node.input[0], node.output[0], []
    if others != [1, 1]:  # first, because the shape of what it reads is known
        counts = rewriting.integers(f"{name}/counts", [1, 1, *others])
        nodes.append(helper.make_node("Tile", [source, counts], [f"{name}/larger"]))
        source = f"{name}/larger"
    index = rewriting.integers(f"{name}/channels", [*range(before[1])] * channels)
    return [*nodes, helper.make_node("Gather", [source, index], [name], axis=1)]


def _copied(
    rewriting: Rewriting, source: str, name: str, before: tuple[int, ...], after: tuple[int, ...]
) -> Nodes | None:
    if len(before) != 4 or len(after) != 4 or before[0] != 1 or after[0] != 1:
        return None
    grown = [axis for axis in (1, 2, 3) if before[axis] != after[axis]]
    if not grown or any(before[axis] != 1 for axis in grown):
        return None
    nodes: Nodes = []
    for axis in grown:
        target = name if axis == grown[-1] else f"{name}/axis{axis}"
        if axis == 1:
            index = rewriting.integers(f"{name}/channels", [0] * after[1])
            nodes.append(helper.make_node("Gather", [source, index], [target], axis=1))
        else:
            ones = np.ones((after[axis], 1))
            weight = rewriting.constant(f"{name}/ones{axis}", ones if axis == 2 else ones.T)
            factors = [weight, source] if axis == 2 else [source, weight]
            nodes.append(helper.make_node("MatMul", factors, [target]))
        source = target
    return nodes


_RULES: Mapping[str, Callable[[Rewriting, onnx.NodeProto], Nodes | None]] = {
    "Add": _broadcast,
    "Expand": _copy,
    "Max": _bound,
    "Mean": _sum,
    "Min": _bound,
    "Sub": _broadcast,
    "Sum": _sum,
    "Tile": _tile,
    "Where": _choice,
}
