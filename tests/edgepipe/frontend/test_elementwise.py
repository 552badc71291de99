"""Sums, maxima and copies of several tensors become sums of two pictures, with the same values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from small_networks import Builder

from edgepipe.frontend.network import load_network
from edgepipe.frontend.onnx_passes import simplify
from edgepipe.tvm_adapter import read_main

SHAPE = (1, 3, 9, 12)


def convs(b: Builder, count: int) -> list[str]:
    return [b.conv("image", f"conv{n}", (3, 3, 1, 1)) for n in range(count)]


def of_several(kind: str, count: int) -> onnx.ModelProto:
    b = Builder()
    return _ended(b, b.node(kind, convs(b, count), "x"))


def bounded() -> onnx.ModelProto:
    b = Builder()
    numbers = [b.constant(n, np.float32(v)) for n, v in (("zero", 0), ("six", 6))]
    x = b.node("Max", [numbers[0], *convs(b, 1)], "above")
    return _ended(b, b.node("Min", [x, numbers[1]], "x"))


def broadcast(kind: str, shape: list[int]) -> onnx.ModelProto:
    """A picture and one of fewer channels, rows or columns."""
    b = Builder()
    (x,) = convs(b, 1)
    axes = [axis for axis in (1, 2, 3) if shape[axis] < SHAPE[axis]]
    bounds = (("begin", [0] * len(axes)), ("end", [shape[a] for a in axes]), ("axes", axes))
    inputs = [b.constant(name, np.array(values, np.int64)) for name, values in bounds]
    part = b.node("Slice", [x, *inputs], "part")
    if kind == "expand_as":
        size = b.constant("size", np.array(SHAPE, np.int64))
        return _ended(b, b.node("Mul", [x, b.node("Expand", [part, size], "copies")], "x"))
    if kind == "Tile":
        counts = np.array(SHAPE, np.int64) // np.array(shape, np.int64)
        return _ended(b, b.node("Tile", [part, b.constant("counts", counts)], "x"))
    return _ended(b, b.node(kind, [part, x], "x"))


def reduced(kind: str, axes: list[int]) -> onnx.ModelProto:
    """A reduction that keeps its axes."""
    b = Builder()
    inputs = convs(b, 1)
    if kind == "ReduceSum":
        inputs.append(b.constant("axes", np.array(axes, np.int64)))
    attributes = {} if kind == "ReduceSum" else {"axes": axes}
    return _ended(b, b.node(kind, inputs, "x", keepdims=1, **attributes), 1 if axes == [1] else 3)


def reduced_twice() -> onnx.ModelProto:
    """``x.mean(3).mean(2)``, which drops an axis each time."""
    b = Builder()
    x = b.node("ReduceMean", convs(b, 1), "rows", axes=[3], keepdims=0)
    x = b.node("ReduceMean", [x], "x", axes=[2], keepdims=0)
    b.node("MatMul", [x, b.constant("w", b.normal(3, 4))], "y")
    return b.model([*SHAPE], {"y": 2})


def sliced(axis: int, begin: int, end: int, step: int) -> onnx.ModelProto:
    b = Builder()
    numbers = (("begin", begin), ("end", end), ("axis", axis), ("step", step))
    names = [b.constant(name, np.array([value], np.int64)) for name, value in numbers]
    b.node("Slice", [*convs(b, 1), *names], "x")
    channels = len(range(3)[begin : None if end < -3 else end : step]) if axis == 1 else 3
    return _ended(b, "x", channels)


def resized_axes(index: int, values: list[float]) -> onnx.ModelProto:
    """Factors or sizes of height and width only, as opset 18 allows."""
    b = Builder()
    wanted = b.constant("wanted", np.array(values, np.float32 if index == 2 else np.int64))
    inputs = [*convs(b, 1), *[""] * (index - 1), wanted]
    model = _ended(b, b.node("Resize", inputs, "x", mode="linear", axes=[3, 2]))
    model.opset_import[0].version = 18
    return model


def channels_last(*kinds: str, channels: int = 3) -> onnx.ModelProto:
    """A chain of operators on [1, h, w, c] between two transpositions."""
    b = Builder()
    x = b.node("Transpose", convs(b, 1), "last", perm=[0, 2, 3, 1])
    for kind in kinds:
        inputs: dict[str, list[np.ndarray]] = {
            "Add": [b.normal(3)],
            "Div": [np.array([1, 2, 3], np.float32).reshape(1, 1, 1, 3)],
            "MatMul": [b.normal(3, 3)],
            "Mul": [np.array(0.5, np.float32)],
            "Pad": [np.array([0, 1, 2, 0, 0, 3, 0, 0], np.int64)],
            "map": [b.normal(9, 12, 3)],
            "more": [np.array([0, 0, 0, 0, 0, 0, 0, 2], np.int64)],
        }
        names = [b.constant(f"{kind}/{n}", v) for n, v in enumerate(inputs.get(kind, []))]
        ordered = [*names, x] if kind == "Mul" else [x, *names]
        operator = {"map": "Add", "more": "Pad"}.get(kind, kind)
        x = b.node(operator, ordered, f"of_{kind}")
    return _ended(b, b.node("Transpose", [x], "x", perm=[0, 3, 1, 2]), channels)


def _ended(b: Builder, x: str, channels: int = 3) -> onnx.ModelProto:
    b.conv(x, "y", (4, channels, 1, 1))
    return b.model([*SHAPE], {"y": 4})


CASES: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "sum": (lambda: of_several("Sum", 3), "Conv Conv Conv Add Add Conv"),
    "sum of one": (lambda: of_several("Sum", 1), "Conv Conv"),
    "mean": (lambda: of_several("Mean", 2), "Conv Conv Add Mul Conv"),
    "maximum": (lambda: of_several("Max", 2), "Conv Conv Sub Relu Add Conv"),
    "minimum": (lambda: of_several("Min", 2), "Conv Conv Sub Relu Sub Conv"),
    "bounds": (bounded, "Conv Clip Clip Conv"),
    "plus one pixel": (
        lambda: broadcast("Add", [1, 3, 1, 1]),
        "Conv MatMul MatMul MatMul MatMul Add Conv",
    ),
    "one row minus all": (
        lambda: broadcast("Sub", [1, 3, 1, 12]),
        "Conv MatMul MatMul Sub Conv",
    ),
    "copies of a channel": (lambda: broadcast("Tile", [1, 1, 9, 12]), "Conv Slice Gather Conv"),
    "plus one channel": (lambda: broadcast("Add", [1, 1, 9, 12]), "Conv Slice Gather Add Conv"),
    "tiles": (lambda: broadcast("Tile", [1, 3, 9, 1]), "Conv MatMul MatMul Conv"),
    "channels last": (
        lambda: channels_last("MatMul", "Add", "Relu", "Mul", "Div", "Pad"),
        "Conv Conv Add Relu Mul Div Conv",
    ),
    "more channels last": (
        lambda: channels_last("Relu", "more", "Sigmoid", channels=5),
        "Conv Relu Gather Mul Sigmoid Conv",
    ),
    "nothing with channels last": (channels_last, "Conv Conv"),
    "a constant for each pixel": (
        lambda: channels_last("Relu", "map"),
        "Conv Relu Add Conv",
    ),
    "sum of pixels": (
        lambda: reduced("ReduceSum", [2, 3]),
        "Conv ReduceMean Mul Conv",
    ),
    "sum of channels": (lambda: reduced("ReduceSum", [1]), "Conv Conv Conv"),
    "mean of rows": (lambda: reduced("ReduceMean", [-2]), "Conv AveragePool Conv"),
    "mean of means": (reduced_twice, "Conv GlobalAveragePool Flatten MatMul"),
    "channels backwards": (lambda: sliced(1, -1, -99, -1), "Conv Gather Conv"),
    "every second channel": (lambda: sliced(1, 0, 99, 2), "Conv Gather Conv"),
    "columns backwards": (lambda: sliced(3, -1, -99, -1), "Conv MatMul Conv"),
    "rows backwards in steps": (lambda: sliced(2, 7, 1, -2), "Conv MatMul Conv"),
    "factors of some axes": (lambda: resized_axes(2, [2, 2]), "Conv Resize Conv"),
    "sizes of some axes": (lambda: resized_axes(3, [24, 18]), "Conv Resize Conv"),
    "a gate expanded": (
        lambda: broadcast("expand_as", [1, 3, 1, 1]),
        "Conv MatMul MatMul Mul Conv",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_rewrite_keeps_the_values(case: str) -> None:
    make, expected = CASES[case]
    model = make()
    picture = np.random.default_rng(0).normal(0, 1, SHAPE).astype(np.float32)
    before = run(model, picture)
    simplify(model)
    assert Counter(node.op_type for node in model.graph.node) == Counter(expected.split())
    np.testing.assert_allclose(run(model, picture), before, rtol=1e-4, atol=1e-5)


def run(model: onnx.ModelProto, picture: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (result,) = session.run(None, {"image": picture})
    return np.asarray(result)


def test_what_decodes_results_stays() -> None:
    b = Builder()
    b.node("Sum", convs(b, 3), "y")
    model = b.model([*SHAPE], {"y": 4})
    simplify(model)
    assert [node.op_type for node in model.graph.node][-1] == "Sum"


@pytest.mark.parametrize("trains", [False, True])
def test_a_dropout_that_does_not_train_is_nothing(trains: bool) -> None:
    b = Builder()
    inputs = [
        *convs(b, 1),
        b.constant("ratio", np.float32(0.5)),
        b.constant("train", np.bool_(trains)),
    ]
    model = _ended(b, b.node("Dropout", inputs, "x"))
    simplify(model)
    assert ("Dropout" in {node.op_type for node in model.graph.node}) == trains


def test_old_resizes_keep_their_pixels(tmp_path: Path) -> None:
    """onnx's converter leaves the default of newer resizes, which reads other pixels."""
    b = Builder()
    (x,) = convs(b, 1)
    factors = b.constant("factors", np.array([1, 1, 2, 2], np.float32))
    model = _ended(b, b.node("Upsample", [x, factors], "x", mode="linear"))
    model.opset_import[0].version = 9
    onnx.save(model, tmp_path / "net.onnx")
    network = load_network(tmp_path / "net.onnx")  # compares the values with the original's
    modes = {
        binding.attributes["coordinate_transformation_mode"]
        for binding in read_main(network.module).bindings
        if binding.op == "image.resize2d"
    }
    assert modes == {"asymmetric"}


def test_a_dilated_convolution_takes_the_rule_for_its_padding(tmp_path: Path) -> None:
    """onnxruntime, which every network is compared with, does not run ``SAME`` with dilations."""
    b = Builder()
    weight = b.constant("w", b.normal(3, 3, 3, 3))
    x = b.node("Conv", [*convs(b, 1), weight], "x", dilations=[2, 2], auto_pad="SAME_UPPER")
    onnx.save(_ended(b, x), tmp_path / "net.onnx")
    main = read_main(load_network(tmp_path / "net.onnx").module)
    found = [b.attributes for b in main.bindings if b.op == "nn.conv2d"]
    assert [each["padding"] for each in found] == [(0,) * 4, (2, 2, 2, 2), (0,) * 4]
