"""Operators on stacked pictures become operators on the pictures, with the same values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest
from small_networks import Builder

from edgepipe.frontend.onnx_passes import simplify

CHANNELS = 4
SHAPE = (1, 3, 6, 8)
MOVES = ("Reshape", "Transpose")


def convs(b: Builder, count: int, channels: int = CHANNELS) -> list[str]:
    return [b.conv("image", f"conv{n}", (channels, 3, 1, 1)) for n in range(count)]


def numbers(b: Builder, values: list[int]) -> str:
    return b.constant(f"numbers{len(b.constants)}", np.array(values, np.int64))


def shaped(b: Builder, kind: str, x: str, values: list[int], name: str) -> str:
    return b.node(kind, [x, numbers(b, values)], name)


def stack(b: Builder, names: list[str], axis: int) -> str:
    parts = [shaped(b, "Unsqueeze", name, [axis], f"{name}/u") for name in names]
    return b.node("Concat", parts, "stack", axis=axis)


def merged(b: Builder, kind: str = "ReduceSum", count: int = 3, axis: int = 0) -> str:
    """A pyramid's levels: ``torch.stack(levels, axis).sum(axis)``."""
    x = stack(b, convs(b, count), axis)
    if kind == "ReduceSum":
        return b.node(kind, [x, numbers(b, [axis])], "x", keepdims=0)
    return b.node(kind, [x], "x", axes=[axis], keepdims=0)


def kept(b: Builder) -> str:
    """The axis stays with one element, and a function follows."""
    x = b.node("Relu", [stack(b, convs(b, 2), 2)], "relu")
    x = b.node("ReduceMean", [x], "mean", axes=[2], keepdims=1)
    return shaped(b, "Squeeze", b.node("Sigmoid", [x], "sigmoid"), [2], "x")


def selective(b: Builder, count: int = 2) -> str:
    """SKNet: paths are summed, and weights for their channels chosen by a softmax."""
    paths = stack(b, convs(b, count), 1)
    x = b.node("ReduceSum", [paths, numbers(b, [1])], "total", keepdims=0)
    x = b.node("ReduceMean", [x], "mean", axes=[2, 3], keepdims=1)
    x = b.conv(x, "select", (count * CHANNELS, CHANNELS, 1, 1))
    x = shaped(b, "Reshape", x, [1, count, CHANNELS, 1, 1], "by_path")
    x = b.node("Mul", [paths, b.node("Softmax", [x], "weights", axis=1)], "weighted")
    return b.node("ReduceSum", [x, numbers(b, [1])], "x", keepdims=0)


def split_attention(b: Builder, radix: int = 2, groups: int = 1) -> str:
    """ResNeSt: the paths are channels of one picture, the softmax is between two moves."""
    (x,) = convs(b, 1, radix * CHANNELS)
    paths = shaped(b, "Reshape", x, [1, radix, CHANNELS, 6, 8], "paths")
    x = b.node("ReduceSum", [paths, numbers(b, [1])], "total", keepdims=0)
    x = b.node("ReduceMean", [x], "mean", axes=[2, 3], keepdims=1)
    x = b.conv(x, "select", (radix * CHANNELS, CHANNELS, 1, 1))
    x = shaped(b, "Reshape", x, [1, groups, radix, -1], "grouped")
    x = b.node("Transpose", [x], "turned", perm=[0, 2, 1, 3])
    x = b.node("Softmax", [x], "softmax", axis=1)
    x = shaped(b, "Reshape", x, [1, -1], "flat")
    x = shaped(b, "Reshape", x, [1, -1, 1, 1], "weights")
    x = shaped(b, "Reshape", x, [1, radix, CHANNELS, 1, 1], "by_path")
    x = b.node("Mul", [x, paths], "weighted")
    return b.node("ReduceSum", [x, numbers(b, [1])], "x", keepdims=0)


def dense_choice(b: Builder) -> str:
    """SKNet with dense layers: their rows are stacked, and the weights taken one by one."""
    paths = convs(b, 2)
    mean = b.node("GlobalAveragePool", [b.node("Add", paths, "total")], "mean")
    mean = shaped(b, "Reshape", mean, [1, CHANNELS], "row")
    rows = [
        b.node("Gemm", [mean, b.constant(f"w{n}", b.normal(CHANNELS, CHANNELS))], f"row{n}")
        for n in range(2)
    ]
    weights = b.node("Softmax", [stack(b, rows, 1)], "weights", axis=1)
    made = []
    for n, path in enumerate(paths):
        index = b.constant(f"index{n}", np.array(n, np.int64))
        weight = b.node("Gather", [weights, index], f"weight{n}", axis=1)
        weight = shaped(b, "Unsqueeze", weight, [2, 3], f"picture{n}")
        made.append(b.node("Mul", [path, weight], f"weighted{n}"))
    return b.node("Add", made, "x")


def scaled_levels(b: Builder) -> str:
    """BiFPN: a constant weight for each level, whose axis is the last."""
    x = stack(b, convs(b, 3), 4)
    x = b.node("Mul", [x, b.constant("weights", np.array([0.2, 0.3, 0.5], np.float32))], "scaled")
    return b.node("ReduceSum", [x, numbers(b, [-1])], "x", keepdims=0)


_TWO = "Conv Conv Add ReduceMean Conv Softmax Slice Slice Mul Mul Add Conv"
CASES: dict[str, tuple[Callable[[Builder], str], str]] = {
    "sum": (merged, "Conv Conv Conv Add Add Conv"),
    "sum along a middle axis": (lambda b: merged(b, axis=2), "Conv Conv Conv Add Add Conv"),
    "mean": (lambda b: merged(b, "ReduceMean", 2, 1), "Conv Conv Add Mul Conv"),
    "maximum": (lambda b: merged(b, "ReduceMax", 2, 1), "Conv Conv Sub Relu Add Conv"),
    "kept axis": (kept, "Conv Conv Relu Relu Add Mul Sigmoid Conv"),
    "selective kernels": (selective, _TWO),
    "three selective kernels": (
        lambda b: selective(b, 3),
        "Conv Conv Conv Add Add ReduceMean Conv Softmax Slice Slice Slice Mul Mul Mul Add Add Conv",
    ),
    "split attention": (
        split_attention,
        "Conv Slice Slice Add ReduceMean Conv Softmax Slice Slice Mul Mul Add Conv",
    ),
    "split attention in groups": (
        lambda b: split_attention(b, 2, 2),
        "Conv Slice Slice Add ReduceMean Conv Softmax Slice Slice Mul Mul Add Conv",
    ),
    "dense choice": (
        dense_choice,
        "Conv Conv Add GlobalAveragePool Gemm Gemm Concat Softmax Slice Slice Mul Mul Add Conv",
    ),
    "scaled levels": (scaled_levels, "Conv Conv Conv Mul Mul Mul Add Add Conv"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_stack_becomes_its_pictures(case: str) -> None:
    make, expected = CASES[case]
    b = Builder()
    b.conv(make(b), "y", (4, CHANNELS, 1, 1))
    model = b.model([*SHAPE], {"y": 4})
    picture = np.random.default_rng(0).normal(0, 1, SHAPE).astype(np.float32)
    before = run(model, picture)
    simplify(model)
    np.testing.assert_allclose(run(model, picture), before, rtol=1e-4, atol=1e-5)
    kinds = [node.op_type for node in model.graph.node]
    assert Counter(kind for kind in kinds if kind not in MOVES) == Counter(expected.split()), kinds


def run(model: onnx.ModelProto, picture: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (result,) = session.run(None, {"image": picture})
    return np.asarray(result)
