"""Write ONNX operators as simpler ones that have an integer form."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from edgepipe.frontend.onnx_graph import set_attribute, set_nodes, stretches
from edgepipe.frontend.rewrites import pools, slices
from edgepipe.frontend.rewrites.composed_moves import axes_of
from edgepipe.frontend.rewrites.rewriting import (
    REDUCE_WITH_INPUTS,
    SLICE_WITH_INPUTS,
    Nodes,
    Rewriting,
)

_SHORTEST = 1e-30  # a length that only keeps zero from being divided by zero


def decompose(model: onnx.ModelProto) -> None:
    """Replace normalisations, activations and moves that the rules below know.

    before   BatchNormalization(x, ...); PRelu(y, slope)
    after    x * factor + constant;      y * slope + Relu(y) * (1 - slope)
    """
    rewriting = Rewriting(model)
    nodes: Nodes = []
    for node in model.graph.node:
        rule = _RULES.get(node.op_type)
        made = rule(rewriting, node) if rule is not None else None
        nodes += [node] if made is None else made
    set_nodes(model.graph, nodes)


def _batch_norm(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return a factor and a constant for each channel; TVM folds them slowly."""
    numbers = [rewriting.array(value) for value in node.input[1:5]]
    attributes = {a.name: a for a in node.attribute}
    training = "training_mode" in attributes and attributes["training_mode"].i
    rank = len(rewriting.shapes.get(node.input[0], ()))
    if len(numbers) != 4 or any(n is None for n in numbers) or training or any(node.output[1:]):
        return None
    if rank < 2:
        return None
    gamma, beta, mean, variance = (n for n in numbers if n is not None)
    epsilon = attributes["epsilon"].f if "epsilon" in attributes else 1e-5
    factor = gamma / np.sqrt(variance + epsilon)
    shape = (1, -1, *(1 for _ in range(rank - 2)))
    return list(
        _affine(rewriting, node, factor.reshape(shape), (beta - mean * factor).reshape(shape))
    )


def _affine(
    rewriting: Rewriting,
    node: onnx.NodeProto,
    factor: NDArray[np.float64],
    constant: NDArray[np.float64],
) -> Iterator[onnx.NodeProto]:
    name = node.output[0]
    scaled = f"{name}/scaled"
    by = rewriting.constant(f"{name}/factor", factor)
    plus = rewriting.constant(f"{name}/constant", constant)
    rewriting.note_shape(scaled, rewriting.shapes[node.input[0]])
    yield helper.make_node("Mul", [node.input[0], by], [scaled])
    yield helper.make_node("Add", [scaled, plus], [name])


def _prelu(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return a leaky Relu for one slope, else a sum of two terms with factors by channel."""
    slope = rewriting.array(node.input[1])
    if slope is None or not slope.size:
        return None
    source, name = node.input[0], node.output[0]
    first = float(slope.flat[0])
    if 0 <= first <= 1 and bool((slope == first).all()):
        return [helper.make_node("LeakyRelu", [source], [name], alpha=first)]
    own = rewriting.constant(f"{name}/slope", slope)
    rest = rewriting.constant(f"{name}/rest", 1 - slope)
    return [
        helper.make_node("Relu", [source], [f"{name}/relu"]),
        helper.make_node("Mul", [source, own], [f"{name}/below"]),
        helper.make_node("Mul", [f"{name}/relu", rest], [f"{name}/above"]),
        helper.make_node("Add", [f"{name}/below", f"{name}/above"], [name]),
    ]


def _celu(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return an Elu of the scaled input, scaled back: alpha * (exp(x / alpha) - 1) below 0."""
    alpha = next((float(a.f) for a in node.attribute if a.name == "alpha"), 1.0)
    source, name = node.input[0], node.output[0]
    if alpha == 1:
        return [helper.make_node("Elu", [source], [name])]
    below = rewriting.constant(f"{name}/below", np.array(1 / alpha))
    above = rewriting.constant(f"{name}/above", np.array(alpha))
    return [
        helper.make_node("Mul", [source, below], [f"{name}/scaled"]),
        helper.make_node("Elu", [f"{name}/scaled"], [f"{name}/elu"]),
        helper.make_node("Mul", [f"{name}/elu", above], [name]),
    ]


def _swish(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return x * sigmoid(alpha x), as exporters write it before opset 24."""
    alpha = next((float(a.f) for a in node.attribute if a.name == "alpha"), 1.0)
    source, name = node.input[0], node.output[0]
    nodes = []
    scaled = source
    if alpha != 1:
        by = rewriting.constant(f"{name}/alpha", np.array(alpha))
        scaled = f"{name}/scaled"
        nodes.append(helper.make_node("Mul", [source, by], [scaled]))
    return [
        *nodes,
        helper.make_node("Sigmoid", [scaled], [f"{name}/sigmoid"]),
        helper.make_node("Mul", [source, f"{name}/sigmoid"], [name]),
    ]


def _norm(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return x divided by its length along an axis; a length of 0 gives 0."""
    given = {a.name: int(a.i) for a in node.attribute}
    axis, order = given.get("axis", -1), given.get("p", 2)
    source, name = node.input[0], node.output[0]
    inputs, attributes = [source], {"axes": [axis]}
    if rewriting.opset >= REDUCE_WITH_INPUTS:
        inputs, attributes = [source, rewriting.integers(f"{name}/axes", [axis])], {}
    length = helper.make_node(f"ReduceL{order}", inputs, [f"{name}/length"], **attributes)
    least = rewriting.constant(f"{name}/least", np.array(_SHORTEST))
    guard = helper.make_node("Max", [f"{name}/length", least], [f"{name}/guarded"])
    return [length, guard, helper.make_node("Div", [source, f"{name}/guarded"], [name])]


def _lrn(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return x times a function of the sum of squares of its neighbours among the channels.

    before   LRN(x, size=5)
    after    x * Pow(bias + alpha / 5 * Conv(x * x, ones for each channel's neighbours), -beta)

    The sum is a 1x1 convolution, which the accelerator computes.
    """
    shape = rewriting.shapes.get(node.input[0], ())
    given = {a.name: a for a in node.attribute}
    if len(shape) != 4 or given["size"].i % 2 == 0:  # onnxruntime refuses an even number
        return None
    alpha, beta, bias = (
        given[name].f if name in given else default
        for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    )
    size, channels = given["size"].i, shape[1]
    source, name = node.input[0], node.output[0]
    offset = np.arange(channels)[None, :] - np.arange(channels)[:, None]
    near = np.abs(offset) <= size // 2
    weight = rewriting.constant(f"{name}/weight", near[:, :, None, None] * (alpha / size))
    least = rewriting.constant(f"{name}/least", np.array(bias))
    power = rewriting.constant(f"{name}/power", np.array(-beta))
    return [
        helper.make_node("Mul", [source, source], [f"{name}/squares"]),
        helper.make_node("Conv", [f"{name}/squares", weight], [f"{name}/sums"]),
        helper.make_node("Add", [f"{name}/sums", least], [f"{name}/base"]),
        helper.make_node("Pow", [f"{name}/base", power], [f"{name}/inverse"]),
        helper.make_node("Mul", [source, f"{name}/inverse"], [name]),
    ]


def _resize(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return a resize by factors for one to a size whose factors are empty, as exporters write.

    ONNX before opset 13 requires the input for factors, and TVM refuses both. It also refuses
    factors or sizes of some axes only, which opset 18 allows.
    """
    _complete_axes(rewriting, node)
    if len(node.input) < 4:
        return None
    factors, sizes = rewriting.array(node.input[2]), rewriting.array(node.input[3])
    shape = rewriting.shapes.get(node.input[0])
    if factors is None or factors.size or sizes is None or shape is None:
        return None
    given = (sizes / np.array(shape)).astype(np.float32)
    # Rounding made it too small for those that multiply in double precision, such as onnx.
    short = np.floor(given.astype(np.float64) * np.array(shape)) < sizes
    given = np.where(short, np.nextafter(given, np.float32(np.inf)), given)
    node.input[2] = rewriting.constant(f"{node.output[0]}/factors", given.astype(np.float64))
    del node.input[3:]
    return None


def _complete_axes(rewriting: Rewriting, node: onnx.NodeProto) -> None:
    """Give a resize its factors or sizes of all axes."""
    axes = [int(axis) for a in node.attribute if a.name == "axes" for axis in a.ints]
    shape = rewriting.shapes.get(node.input[0], ())
    if not axes or not shape or not stretches(node):
        return
    for index, what in ((2, "factors"), (3, "sizes")):
        given = rewriting.array(node.input[index]) if len(node.input) > index else None
        if given is None or given.size != len(axes):
            continue
        name = f"{node.output[0]}/all_{what}"
        whole = np.ones(len(shape)) if what == "factors" else np.array(shape, np.float64)
        whole[axes] = given
        if what == "factors":
            node.input[index] = rewriting.constant(name, whole)
        else:
            node.input[index] = rewriting.integers(name, [int(size) for size in whole])
        set_attribute(node, "axes", None)


def _squeeze(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return a flattening or a reshape, which have an integer form."""
    before = rewriting.shapes.get(node.input[0], ())
    after = rewriting.shapes.get(node.output[0], ())
    if not before or not after:
        return None
    if len(after) == 2 < len(before) and before[0] == after[0]:
        return [helper.make_node("Flatten", [node.input[0]], [node.output[0]], axis=1)]
    return [_reshape(rewriting, node.input[0], node.output[0], after)]


def _gather(rewriting: Rewriting, node: onnx.NodeProto) -> Nodes | None:
    """Return a slice for one element of an axis, or for neighbours, and a reshape if needed.

    before   Gather(x, 2, axis=0)
    after    Reshape(Slice(x, [2], [3], [0]), the shape without that axis)

    before   Gather(x[1, c, 4, w], [[0, 2], [1, 3]], axis=2)
    after    Reshape(x, [1, c, 2, 2, w]) -> Transpose(0 1 3 2 4)

    Exporters write the queries, keys and values of attention so, and patches (``unfold``). TVM's
    kernel for ``Gather`` reads from indices without a check, and prints a warning for each; a slice
    has no indices, and moves whole blocks. All elements are no slice, only a reshape. A table of
    other indices becomes a list. A list stays.
    """
    indices = rewriting.array(node.input[1]) if len(node.input) == 2 else None
    before = rewriting.shapes.get(node.input[0], ())
    after = rewriting.shapes.get(node.output[0], ())
    if indices is None or not indices.size or not before or not after:
        return None
    if rewriting.opset < SLICE_WITH_INPUTS:
        return None
    axis = next((int(a.i) for a in node.attribute if a.name == "axis"), 0) % len(before)
    taken = [int(index) for index in indices.reshape(-1)]
    taken = [index + before[axis] if index < 0 else index for index in taken]
    first, end = taken[0], taken[0] + len(taken)
    name = node.output[0]
    if taken != list(range(first, end)) or first < 0 or end > before[axis]:
        table = np.array(taken, np.int64).reshape(indices.shape)
        return _table(rewriting, node, axis, table) if indices.ndim > 1 else None
    if len(taken) == before[axis]:
        return [_reshape(rewriting, node.input[0], name, after)]
    part = name if indices.ndim == 1 else f"{name}/part"
    bounds = [
        rewriting.integers(f"{name}/{what}", [value])
        for what, value in (("first", first), ("end", end), ("axis", axis))
    ]
    nodes = [helper.make_node("Slice", [node.input[0], *bounds], [part])]
    if part != name:
        shape = (*before[:axis], len(taken), *before[axis + 1 :])
        rewriting.note_shape(part, shape, like=name)
        nodes.append(_reshape(rewriting, part, name, after))
    return nodes


def _table(
    rewriting: Rewriting, node: onnx.NodeProto, axis: int, table: NDArray[np.int64]
) -> Nodes:
    """Return moves for a table that has each element once, otherwise a list and a reshape."""
    (source, name), before = (node.input[0], node.output[0]), rewriting.shapes[node.input[0]]
    after = rewriting.shapes[name]
    found = axes_of(table, before[axis])
    nodes: Nodes = []
    if found is not None:
        split, turned = f"{name}/split", f"{name}/turned"
        shape = (*before[:axis], *found.sizes, *before[axis + 1 :])
        perm = [*range(axis), *(axis + n for n in found.perm)]
        perm += range(len(perm), len(shape))
        nodes.append(_reshape(rewriting, source, split, shape))
        nodes.append(helper.make_node("Transpose", [split], [turned], perm=perm))
        rewriting.note_shape(split, shape, like=name)
        rewriting.note_shape(turned, [shape[n] for n in perm], like=name)
        return [*nodes, _reshape(rewriting, turned, name, after)]
    if len(before) > 4 and before[0] == 1 and axis == len(before) - 1:
        before = (1, before[1], int(np.prod(before[2:-1])), before[-1])
        nodes.append(_reshape(rewriting, source, f"{name}/picture", before))
        rewriting.note_shape(f"{name}/picture", before, like=name)
        source, axis = f"{name}/picture", 3
    part = f"{name}/part"
    index = rewriting.integers(f"{name}/index", table.reshape(-1).tolist())
    nodes.append(helper.make_node("Gather", [source, index], [part], axis=axis))
    shape = (*before[:axis], table.size, *before[axis + 1 :])
    rewriting.note_shape(part, shape, like=name)
    return [*nodes, _reshape(rewriting, part, name, after)]


def _reshape(
    rewriting: Rewriting, source: str, name: str, shape: tuple[int, ...]
) -> onnx.NodeProto:
    wanted = rewriting.integers(f"{name}/shape", shape)
    return helper.make_node("Reshape", [source, wanted], [name])


_RULES: dict[str, Callable[[Rewriting, onnx.NodeProto], Nodes | None]] = {
    "AveragePool": pools.global_pool,
    "BatchNormalization": _batch_norm,
    "Celu": _celu,
    "Gather": _gather,
    "GlobalAveragePool": pools.global_pool,
    "GlobalMaxPool": pools.global_maximum,
    "LRN": _lrn,
    "LpNormalization": _norm,
    "MaxPool": pools.global_maximum,
    "PRelu": _prelu,
    "ReduceMax": pools.global_maximum,
    "ReduceMean": pools.mean,
    "Resize": _resize,
    "Slice": slices.plain_slice,
    "Squeeze": _squeeze,
    "Swish": _swish,
    "Unsqueeze": _squeeze,
}
