"""Write operators on rows, columns, all channels or signals as operators on pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from edgepipe.frontend.onnx_graph import set_attribute, set_nodes
from edgepipe.frontend.rewrites.rewriting import SLICE_WITH_INPUTS, Nodes, Rewriting
from edgepipe.frontend.separable import before_layers


def as_pictures(model: onnx.ModelProto) -> None:
    """Replace what a convolution depends on by operators that have an integer form.

    before   Concat(x, y, axis=2); Concat(x[2:], x[:2], axis=2); Conv(a signal [1, c, n])
    after    rows @ x + rows @ y;  rows @ x;                     Conv(a picture [1, c, 1, n])

    Parts of a split along rows or columns become slices. What no layer reads afterwards
    stays: it decodes results.
    """
    rewriting = Rewriting(model)
    needed = before_layers(model.graph)
    nodes: Nodes = []
    for node in model.graph.node:
        rule = _RULES.get(node.op_type)
        read = node.op_type == "Conv" or any(value in needed for value in node.output)
        made = rule(rewriting, node) if rule is not None and read else None
        nodes += [node] if made is None else made
    set_nodes(model.graph, nodes)


def _axis(node: onnx.NodeProto, default: int) -> int:
    return next((int(a.i) for a in node.attribute if a.name == "axis"), default)


def _is_picture(shape: tuple[int, ...]) -> bool:
    return len(shape) == 4 and shape[0] == 1


def _concat(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return the sum of pictures that have rows or columns of zeros where the other parts are.

    Slices of one picture share a product: a roll is one.
    """
    name, axis = node.output[0], _axis(node, 1) % 4
    shapes = [rewriting.shapes.get(value, ()) for value in node.input]
    if axis < 2 or len(shapes) < 2 or not all(map(_is_picture, shapes)):
        return None
    if any(rewriting.array(value) is not None for value in node.input):
        return None
    whole, begin = np.eye(sum(shape[axis] for shape in shapes)), 0
    placed: dict[str, NDArray[np.float64]] = {}
    for value, shape in zip(node.input, shapes, strict=True):
        source, taken = _sliced(rewriting, value, axis)
        matrix = whole[:, begin : begin + shape[axis]] @ taken
        placed[source] = placed[source] + matrix if source in placed else matrix
        begin += shape[axis]
    nodes: Nodes = []
    total, last = "", len(placed) - 1
    for index, (source, matrix) in enumerate(placed.items()):
        weight = rewriting.constant(f"{name}/place{index}", matrix if axis == 2 else matrix.T)
        product = f"{name}/placed{index}" if last else name
        factors = [weight, source] if axis == 2 else [source, weight]
        nodes.append(helper.make_node("MatMul", factors, [product]))
        if total:
            joined = name if index == last else f"{name}/joined{index}"
            nodes.append(helper.make_node("Add", [total, product], [joined]))
            product = joined
        total = product
    return nodes


def _sliced(rewriting: Rewriting, value: str, axis: int) -> tuple[str, NDArray[np.float64]]:
    """Return what a part is sliced from, and the matrix of its rows or columns in that."""
    matrix = np.eye(rewriting.shapes[value][axis])
    maker = rewriting.makers.get(value)
    if maker is None or maker.op_type != "Slice" or len(maker.input) < 4 or not maker.input[3]:
        return value, matrix
    bounds = [rewriting.array(given) for given in maker.input[1:] if given]
    before = rewriting.shapes.get(maker.input[0], ())
    if any(found is None or found.size != 1 for found in bounds) or not _is_picture(before):
        return value, matrix
    first, end, along, *steps = (int(found.flat[0]) for found in bounds if found is not None)
    taken = np.eye(before[axis])[slice(first, end, *(steps or [1]))]
    fits = along % 4 == axis and len(taken) == len(matrix)
    return (maker.input[0], taken) if fits else (value, matrix)


def _split(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return slices for parts along rows or columns, or of what is no picture."""
    shapes = [rewriting.shapes.get(value, ()) for value in node.output]
    rank = len(shapes[0])
    if rank < 3 or rewriting.opset < SLICE_WITH_INPUTS or not all(shapes):
        return None
    axis = _axis(node, 0) % rank
    if axis == 1 and all(map(_is_picture, shapes)):
        return None
    nodes, begin = [], 0
    for value, shape in zip(node.output, shapes, strict=True):
        end = begin + shape[axis]
        bounds = [
            rewriting.integers(f"{value}/{what}", [number])
            for what, number in (("begin", begin), ("end", end), ("axis", axis))
        ]
        nodes.append(helper.make_node("Slice", [node.input[0], *bounds], [value]))
        begin = end
    return nodes


def _of_signal(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return a layer or pool of one row for one of a signal [1, c, n], as ECA's gate is."""
    name = node.output[0]
    before, after = (rewriting.shapes.get(v, ()) for v in (node.input[0], name))
    if len(before) != 3 or len(after) != 3 or before[0] != 1 or len(node.output) != 1:
        return None
    if any(a.name == "auto_pad" and a.s != b"NOTSET" for a in node.attribute):
        return None
    picture, row = f"{name}/picture", f"{name}/row"
    made = onnx.NodeProto.FromString(node.SerializeToString())
    made.input[0], made.output[0] = picture, row
    if node.op_type == "Conv":
        weight = rewriting.array(node.input[1])
        if weight is None:
            return None
        made.input[1] = rewriting.constant(f"{name}/weight", weight[:, :, None, :])
        set_attribute(made, "kernel_shape", [1, weight.shape[2]])
    for attribute in node.attribute:
        found = list(attribute.ints)
        if attribute.name == "pads":
            set_attribute(made, "pads", [0, found[0], 0, found[1]])
        elif attribute.name in ("dilations", "kernel_shape", "strides"):
            set_attribute(made, attribute.name, [1, *found])
    shapes = [
        rewriting.integers(f"{name}/{what}_shape", shape)
        for what, shape in (("picture", (1, before[1], 1, before[2])), ("signal", after))
    ]
    return [
        helper.make_node("Reshape", [node.input[0], shapes[0]], [picture]),
        made,
        helper.make_node("Reshape", [row, shapes[1]], [name]),
    ]


_RULES: Mapping[str, Callable[[Rewriting, onnx.NodeProto], Nodes | None]] = {
    "AveragePool": _of_signal,
    "Concat": _concat,
    "Conv": _of_signal,
    "MaxPool": _of_signal,
    "Split": _split,
}
