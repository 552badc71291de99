"""Operators between transpositions are turned together where that saves transpositions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest
from small_networks import Builder

from edgepipe.frontend.folding import infer_shapes
from edgepipe.frontend.rewrites.channels_last import channels_stay_first

CHANNELS = 8
Maker = Callable[[Builder, str], str]


def last(b: Builder, x: str) -> str:
    return b.node("Transpose", [x], f"{x}.last", perm=[0, 2, 3, 1])


def first(b: Builder, x: str) -> str:
    return b.node("Transpose", [x], f"{x}.first", perm=[0, 3, 1, 2])


def numbers(b: Builder, name: str, *values: int) -> str:
    return b.constant(name, np.array(values, np.int64))


def conv(b: Builder, x: str, name: str) -> str:
    """A convolution of a picture with the channels last, as tf2onnx writes it."""
    y = b.conv(first(b, x), f"{name}.conv", (CHANNELS, CHANNELS, 1, 1))
    return b.node("Add", [last(b, y), b.constant(f"{name}.bias", b.normal(CHANNELS))], name)


def gate_and_shortcut(b: Builder, x: str) -> str:
    """A block of Keras' MobileNetV3: three values have two readers."""
    swish = b.node("Mul", [x, b.node("HardSigmoid", [x], "hard")], "swish")
    mean = b.node("ReduceMean", [swish], "mean", axes=[1, 2], keepdims=1)
    gate = b.node("Sigmoid", [conv(b, mean, "squeezed")], "gate")
    return b.node("Add", [conv(b, b.node("Mul", [swish, gate], "gated"), "project"), x], "sum")


def joined(b: Builder, x: str) -> str:
    both = [b.node("Relu", [x], "relu"), conv(b, x, "other")]
    x = b.node("Concat", both, "joined", axis=-1)
    return b.node("MatMul", [x, b.constant("w", b.normal(2 * CHANNELS, CHANNELS))], "dense")


def squares(b: Builder, x: str) -> str:
    total = b.node("ReduceSum", [b.node("Mul", [x, x], "s"), numbers(b, "axes", -1)], "total")
    return b.node("Div", [x, b.node("Sqrt", [total], "root")], "unit")


TURNED: dict[Maker, str] = {
    gate_and_shortcut: "HardSigmoid Mul ReduceMean Conv Add Sigmoid Mul Conv Add Add",
    joined: "Relu Conv Add Concat Conv",
    squares: "Mul ReduceSum Sqrt Div",
}


@pytest.mark.parametrize("make", TURNED)
def test_operators_with_several_readers_are_turned(make: Maker) -> None:
    """Identities are what is left of transpositions."""
    b = Builder(3)
    x = b.node("Relu", [last(b, b.conv("image", "stem", (CHANNELS, 3, 1, 1)))], "features")
    b.conv(first(b, make(b, x)), "y", (4, CHANNELS, 1, 1))
    kinds = turned(b.model([1, 3, 5, 6], {"y": 4}))
    assert kinds == Counter(["Conv", "Relu", *TURNED[make].split(), "Conv"])


def test_a_mean_that_drops_rows_and_columns_is_turned() -> None:
    b = Builder(3)
    x = b.node("Relu", [last(b, b.conv("image", "stem", (CHANNELS, 3, 1, 1)))], "features")
    x = b.node("ReduceMean", [conv(b, x, "other")], "mean", axes=[1, 2], keepdims=0)
    b.node("MatMul", [x, b.constant("w", b.normal(CHANNELS, 4))], "y")
    kinds = turned(b.model([1, 3, 5, 6], {"y": 2}))
    assert kinds == Counter(["Conv", "Relu", "Conv", "Add", "ReduceMean", "MatMul"])


def test_what_cannot_be_turned_reads_the_channels_last() -> None:
    """The map of a detector leaves a shared value; its layers are turned all the same."""
    b = Builder(3)
    x = b.node("Relu", [last(b, b.conv("image", "stem", (CHANNELS, 3, 1, 1)))], "features")
    b.node("Reshape", [x, numbers(b, "rows", 1, -1, CHANNELS)], "map")
    b.conv(first(b, conv(b, x, "other")), "y", (4, CHANNELS, 1, 1))
    kinds = turned(b.model([1, 3, 5, 6], {"y": 4, "map": 3}))
    assert kinds == Counter(["Conv", "Relu", "Transpose", "Reshape", "Conv", "Add", "Conv"])


@pytest.mark.parametrize("ending", [["Reshape"], ["Sigmoid", "Reshape"], ["Sigmoid"]])
def test_a_transposition_that_would_only_move_stays(ending: list[str]) -> None:
    b = Builder(3)
    x = last(b, b.conv("image", "stem", (CHANNELS, 3, 1, 1)))
    for kind in ending:
        more = [numbers(b, "rows", 1, -1, CHANNELS)] if kind == "Reshape" else []
        x = b.node(kind, [x, *more], f"of_{kind}")
    model = b.model([1, 3, 5, 6], {x: 3 if "Reshape" in ending else 4})
    before = [node.SerializeToString() for node in model.graph.node]
    turned(model)
    assert [node.SerializeToString() for node in model.graph.node] == before


def turned(model: onnx.ModelProto) -> Counter[str]:
    """Turn a network whose values must stay; return how many operators of each kind it has."""
    infer_shapes(model)
    expected = results(model)
    channels_stay_first(model)
    for found, before in zip(results(model), expected, strict=True):
        np.testing.assert_allclose(found, before, rtol=1e-4, atol=1e-5)
    kinds = Counter(node.op_type for node in model.graph.node)
    del kinds["Identity"]
    return kinds


def results(model: onnx.ModelProto) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    picture = np.random.default_rng(0).normal(0, 1, (1, 3, 5, 6)).astype(np.float32)
    return list(session.run(None, {"image": picture}))
