"""Slices of pictures are written as moves of pixels and selections of channels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
from small_networks import Builder

from edgepipe.frontend.onnx_passes import simplify

MOST = 2**31 - 1
LEAST = -(2**31)
CASES: dict[str, tuple[Sequence[Sequence[int]], str]] = {
    "rows": (([1], [5], [2]), "MatMul"),
    "all_axes": (([0, 0, 1, 0], [MOST] * 4, [0, 1, 2, 3]), "MatMul"),
    "without_axes": (([0, 0, 1, 2], [MOST] * 4), "MatMul MatMul"),
    "nothing": (([0, 0], [MOST, 8], [1, 0]), ""),
    "backwards": (([-1, 0], [LEAST, 7], [-1, -2], [-1, 2]), "MatMul MatMul"),
    "channels": (([2], [-2], [1]), "Slice"),
    "channels_and_all_rows": (([2, 0], [-2, 12], [-3, 2], [1, 1]), "Slice"),
    "channels_and_columns": (([2, 3], [6, MOST], [1, 3]), "MatMul Slice"),
    "steps_of_channels_and_columns": (([3, -1], [MOST, LEAST], [3, 1], [2, -2]), "MatMul Gather"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_slice_moves_pixels_and_picks_channels(case: str) -> None:
    bounds, kinds = CASES[case]
    b = Builder(3)
    x = b.conv("image", "features", (8, 3, 1, 1))
    inputs = [b.constant(f"i{i}", np.array(v, np.int64)) for i, v in enumerate(bounds)]
    b.node("Slice", [x, *inputs], "part")
    channels = 4 if "channels" in case else 8
    b.conv("part", "y", (4, channels, 1, 1))
    model = b.model([1, 3, 12, 16], {"y": 4})
    (before,) = _results(model)
    simplify(model)
    assert sorted(node.op_type for node in model.graph.node) == sorted(
        ["Conv", "Conv", *kinds.split()]
    )
    np.testing.assert_array_equal(_results(model)[0], before)


def test_a_slice_of_a_border_is_one_move() -> None:
    """The border stays for what else reads it."""
    b = Builder(3)
    x = b.conv("image", "features", (8, 3, 1, 1))
    amounts = b.constant("amounts", np.array([0, 0, 2, 0, 0, 0, 0, 0], np.int64))
    b.node("Pad", [x, amounts], "padded", mode="reflect")
    bounds = [b.constant(n, np.array([v], np.int64)) for n, v in (("b", 1), ("e", 9), ("a", 2))]
    b.node("Slice", ["padded", *bounds], "part")
    b.conv("part", "y", (4, 8, 1, 1))
    b.conv("padded", "z", (4, 8, 1, 1))
    model = b.model([1, 3, 12, 16], {"y": 4, "z": 4})
    before = _results(model)
    simplify(model)
    products = [node for node in model.graph.node if node.op_type == "MatMul"]
    assert [node.input[1] for node in products] == ["features", "features"]
    for found, expected in zip(_results(model), before, strict=True):
        np.testing.assert_array_equal(found, expected)


def _results(model: onnx.ModelProto) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    picture = np.random.default_rng(0).normal(0, 1, (1, 3, 12, 16)).astype(np.float32)
    return list(session.run(None, {"image": picture}))
