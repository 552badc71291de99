"""Write reshapes and transpositions that only move channels as a selection of channels."""

from __future__ import annotations

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from edgepipe.frontend.onnx_graph import set_nodes, shapes_of

_MOVES = ("Reshape", "Squeeze", "Transpose", "Unsqueeze")
_LONGEST = 6


def select_channels(model: onnx.ModelProto) -> None:
    """Replace a chain of moves from a picture to a picture of its size by a ``Gather``.

    before   Reshape(x, [1, 2, 8, h, w]) -> Transpose(0, 2, 1, 3, 4) -> Reshape([1, 16, h, w])
    after    Gather(x, [0, 8, 1, 9, ...], axis=1)

    That is how exporters write a channel shuffle. Moves that something else reads stay for it.
    """
    shapes = shapes_of(model)
    makers = {value: node for node in model.graph.node for value in node.output}
    nodes = []
    for node in model.graph.node:
        found = _selection(node, makers, shapes) if node.op_type in _MOVES else None
        if found is None:
            nodes.append(node)
            continue
        source, channels = found
        name = f"{node.output[0]}/channels"
        model.graph.initializer.append(numpy_helper.from_array(channels, name))
        nodes.append(helper.make_node("Gather", [source, name], [node.output[0]], axis=1))
    set_nodes(model.graph, nodes)


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
