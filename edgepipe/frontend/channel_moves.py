"""Write moves and slices that only select channels as a selection of channels."""

from __future__ import annotations

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edgepipe.frontend.onnx_graph import array_of, constants_of, set_nodes, shapes_of

_MOVES = ("Reshape", "Squeeze", "Transpose", "Unsqueeze")
_LONGEST = 6


def select_channels(model: onnx.ModelProto) -> None:
    """Replace a chain of moves from a picture to a picture of its size by a ``Gather``.

    before   Reshape(x, [1, 2, 8, h, w]) -> Transpose(0, 2, 1, 3, 4) -> Reshape([1, 16, h, w])
    after    Gather(x, [0, 8, 1, 9, ...], axis=1)

    before   Slice(x, axis 1, from -1 to the front in steps of -1)
    after    Gather(x, [2, 1, 0], axis=1)

    That is how exporters write a channel shuffle, and a change from RGB to BGR. Moves that
    something else reads stay for it.
    """
    shapes, constants = shapes_of(model), constants_of(model.graph)
    makers = {value: node for node in model.graph.node for value in node.output}
    nodes = []
    for node in model.graph.node:
        found = _selection(node, makers, shapes) if node.op_type in _MOVES else None
        if node.op_type == "Slice":
            found = _steps(node, constants, shapes)
        if found is None:
            nodes.append(node)
            continue
        source, channels = found
        if np.array_equal(channels, np.arange(shapes[source][1])):
            nodes.append(helper.make_node("Identity", [source], [node.output[0]]))
            continue
        name = f"{node.output[0]}/channels"
        model.graph.initializer.append(numpy_helper.from_array(channels, name))
        nodes.append(helper.make_node("Gather", [source, name], [node.output[0]], axis=1))
    set_nodes(model.graph, nodes)


def _steps(
    node: onnx.NodeProto, constants: dict[str, TensorProto], shapes: dict[str, tuple[int, ...]]
) -> tuple[str, NDArray[np.int64]] | None:
    """Return the picture and the channels of a slice that is not of neighbours, or None."""
    shape = shapes.get(node.input[0], ())
    if len(shape) != 4 or not 5 == len(node.input) == len([*filter(constants.get, node.input)]) + 1:
        return None
    bounds = [array_of(constants[name]).reshape(-1) for name in node.input[1:]]
    if any(values.size != 1 for values in bounds):
        return None
    begin, end, axis, step = (int(values[0]) for values in bounds)
    if axis % 4 != 1 or step in (0, 1):
        return None
    begin, end = (bound + shape[1] if bound < 0 else bound for bound in (begin, end))
    least, most = (0, shape[1]) if step > 0 else (-1, shape[1] - 1)
    begin, end = (min(max(bound, least), most) for bound in (begin, end))
    return node.input[0], np.arange(begin, end, step, dtype=np.int64)


def _selection(
    node: onnx.NodeProto,
    makers: dict[str, onnx.NodeProto],
    shapes: dict[str, tuple[int, ...]],
) -> tuple[str, NDArray[np.int64]] | None:
    """Return the picture and its channels in the order of the last result, or None."""
    shape = shapes.get(node.output[0], ())
    if len(shape) != 4 or shape[0] != 1:
        return None
    chain = [node]
    while len(chain) <= _LONGEST:
        source = chain[-1].input[0]
        before = makers.get(source)
        if len(chain) > 1 and shapes.get(source) == shape:
            break
        if before is None or before.op_type not in _MOVES:
            return None
        chain.append(before)
    else:
        return None
    _, channels, height, width = shape
    moved = np.arange(channels * height * width, dtype=np.int64).reshape(shape)
    for move in reversed(chain):
        wanted = shapes.get(move.output[0])
        if wanted is None:
            return None
        if move.op_type == "Transpose":
            perms = [list(a.ints) for a in move.attribute if a.name == "perm"]
            moved = moved.transpose(perms[0] if perms else None)
        moved = moved.reshape(wanted)
    order = moved[0, :, 0, 0] // (height * width)
    expected = order[None, :, None, None] * (height * width)
    expected = expected + np.arange(height * width).reshape(1, 1, height, width)
    return (source, order) if np.array_equal(moved, expected) else None
