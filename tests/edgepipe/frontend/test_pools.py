"""Means over windows become pools, with the values of onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from adaptive_pools import adaptive_mean, windows
from small_networks import Builder

from edgepipe.frontend.onnx_passes import simplify

Size = tuple[int, int]
CHANNELS = 4


def network(size: Size, out: Size) -> onnx.ModelProto:
    b = Builder(2)
    x = b.conv("image", "first", (CHANNELS, 3, 1, 1))
    x = adaptive_mean(b, x, size, out, "mean")
    b.conv(x, "result", (2, CHANNELS, 1, 1))
    return b.model([1, 3, *size], {"result": 4})


def run(model: onnx.ModelProto, size: Size) -> np.ndarray:
    picture = np.random.default_rng(1).normal(0, 1, (1, 3, *size)).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (result,) = session.run(None, {"image": picture})
    return result


def between(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node if node.op_type != "Conv"]


@pytest.mark.parametrize(
    ("size", "out", "kinds"),
    [
        ((16, 16), (3, 3), ["AveragePool"]),
        ((15, 15), (2, 2), ["AveragePool"]),
        ((16, 15), (3, 2), ["AveragePool"]),
        ((7, 7), (6, 6), ["AveragePool"]),
        ((131, 133), (2, 2), ["AveragePool", "AveragePool"]),
        ((32, 32), (6, 6), ["MatMul", "MatMul", "AveragePool"]),
        ((32, 15), (6, 2), ["MatMul", "AveragePool"]),
        ((15, 31), (2, 9), ["MatMul", "AveragePool", "Mul"]),
        ((2, 3), (7, 7), ["MatMul", "MatMul", "AveragePool", "Mul"]),
    ],
)
def test_adaptive_means_become_pools(size: Size, out: Size, kinds: list[str]) -> None:
    model = network(size, out)
    expected = run(model, size)
    simplify(model)
    assert between(model) == kinds
    np.testing.assert_allclose(run(model, size), expected, rtol=1e-4, atol=1e-5)


def test_the_exporters_spelling_computes_adaptive_means() -> None:
    b = Builder(2)
    b.node("Identity", ["image"], "picture")
    adaptive_mean(b, "picture", (9, 14), (4, 3), "mean")
    model = b.model([1, 3, 9, 14], {"mean": 4})
    picture = np.random.default_rng(1).normal(0, 1, (1, 3, 9, 14)).astype(np.float32)
    rows, cols = windows(9, 4), windows(14, 3)
    assert rows == [range(3), range(2, 5), range(4, 7), range(6, 9)]
    expected = [
        [picture[..., r.start : r.stop, c.start : c.stop].mean(axis=(2, 3)) for c in cols]
        for r in rows
    ]
    found = run(model, (9, 14))
    np.testing.assert_allclose(found, np.array(expected).transpose(2, 3, 0, 1), atol=1e-5)


def test_rows_that_are_gathered_in_another_order_are_a_product() -> None:
    b = Builder(2)
    x = b.conv("image", "first", (CHANNELS, 3, 1, 1))
    x = b.node("Transpose", [x], "rows_first", perm=[2, 0, 1, 3])
    x = b.node("GatherND", [x, b.constant("order", np.array([[4], [3], [1]]))], "gathered")
    b.conv(b.node("Transpose", [x], "x", perm=[1, 2, 0, 3]), "result", (2, CHANNELS, 1, 1))
    model = b.model([1, 3, 5, 5], {"result": 4})
    expected = run(model, (5, 5))
    simplify(model)
    assert between(model) == ["MatMul"]
    np.testing.assert_allclose(run(model, (5, 5)), expected, rtol=1e-4, atol=1e-5)


def greatest(b: Builder, x: str) -> str:
    """Windows of which the largest pixel is taken."""
    mean = adaptive_mean(b, x, (16, 16), (3, 3), "mean")
    b.nodes[-1].op_type = "ReduceMax"
    return mean


def other_channels(b: Builder, x: str) -> str:
    """The gathered pixels are of the neighbouring channel."""
    index = b.constant("index", np.array([[1], [2], [3], [0]], np.int64))
    x = b.node("Transpose", [x], "first_channel", perm=[1, 0, 2, 3])
    x = b.node("GatherND", [x, index], "gathered")
    return b.node("Transpose", [x], "mean", perm=[1, 0, 2, 3])


def triangle(b: Builder, x: str) -> str:
    """A mask that is no product of one for rows and one for columns."""
    mask = b.constant("mask", np.tril(np.ones((16, 16), np.bool_)))
    return b.node("Where", [mask, x, b.constant("zero", np.float32(0))], "mean")


def far_windows(b: Builder, x: str) -> str:
    """Means of one row and of nine rows: their weights have no common scale in eight bits."""
    index = b.constant("index", np.array([[0], [1]], np.int64))
    x = b.node("Transpose", [x], "rows_first", perm=[2, 0, 1, 3])
    one = b.node("GatherND", [x, index], "gathered")
    first, last = (b.constant(name, np.array([v])) for name, v in (("begin", 1), ("end", 10)))
    nine = b.node("Slice", [x, first, last], "nine")
    nine = b.node("ReduceMean", [nine], "nine_mean", axes=[0], keepdims=1)
    x = b.node("Concat", [one, nine], "joined", axis=0)
    return b.node("Transpose", [x], "mean", perm=[1, 2, 0, 3])


def test_windows_without_common_weights_stay_gathered() -> None:
    """The nine rows alone are a pool, what is joined with them is none."""
    b = Builder(2)
    b.conv(far_windows(b, b.conv("image", "first", (CHANNELS, 3, 1, 1))), "y", (2, CHANNELS, 1, 1))
    model = b.model([1, 3, 16, 16], {"y": 4})
    expected = run(model, (16, 16))
    simplify(model)
    assert "GatherND" in between(model)
    np.testing.assert_allclose(run(model, (16, 16)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [greatest, other_channels, triangle])
def test_other_gathered_pixels_are_no_pool(make: object) -> None:
    b = Builder(2)
    x = make(b, b.conv("image", "first", (CHANNELS, 3, 1, 1)))  # type: ignore[operator]
    b.conv(x, "result", (2, CHANNELS, 1, 1))
    model = b.model([1, 3, 16, 16], {"result": 4})
    expected = run(model, (16, 16))
    simplify(model)
    assert "AveragePool" not in between(model)
    np.testing.assert_allclose(run(model, (16, 16)), expected, rtol=1e-4, atol=1e-5)


def test_results_are_left_as_they_are() -> None:
    b = Builder(2)
    x = b.conv("image", "first", (CHANNELS, 3, 1, 1))
    adaptive_mean(b, x, (16, 16), (3, 3), "mean")
    model = b.model([1, 3, 16, 16], {"mean": 4})
    simplify(model)
    assert "GatherND" in between(model)
