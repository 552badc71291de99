"""Where the elements of a chain of moves come from."""

from __future__ import annotations

import numpy as np
import onnx
from small_networks import Builder

from edgepipe.frontend.folding import infer_shapes
from edgepipe.frontend.rewrites.moved_elements import MovedElements


def numbers(b: Builder, *values: int) -> str:
    return b.constant(f"n{len(b.constants)}", np.array(values, np.int64))


def chain(rows: int) -> onnx.ModelProto:
    """A picture [1, 1, rows, 3], turned, with a border, and two copies that a function reads."""
    b = Builder()
    x = b.node("Relu", ["image"], "x")
    x = b.node("Transpose", [x], "turned", perm=[0, 1, 3, 2])
    x = b.node("Pad", [x, numbers(b, 0, 0, 0, 0, 0, 0, 0, 1)], "wider")
    x = b.node("Expand", [x, numbers(b, 1, 2, 3, rows + 1)], "copied")
    b.node("Sin", [x], "y")
    model = b.model([1, 1, rows, 3], {"y": 4})
    infer_shapes(model)
    return model


def test_elements_have_their_places_and_borders_have_none() -> None:
    moved = MovedElements(chain(rows=4))
    source, moves = moved.before_moves("copied")
    assert source == "x"
    assert [move.op_type for move in moves] == ["Transpose", "Pad", "Expand"]
    places = moved.elements(source, moves)
    assert places is not None
    once = np.pad(np.arange(12).reshape(4, 3).T, ((0, 0), (0, 1)), constant_values=-1)
    np.testing.assert_array_equal(places, np.stack([once, once])[None])


def test_moves_behind_a_value_end_where_something_computes() -> None:
    moved = MovedElements(chain(rows=4))
    names = [move.output[0] for move in moved.moves_behind("x")]
    assert names == ["turned", "wider", "copied"]


def test_large_tensors_are_not_followed() -> None:
    moved = MovedElements(chain(rows=1 << 20))
    source, moves = moved.before_moves("copied")
    assert moved.elements(source, moves) is None
