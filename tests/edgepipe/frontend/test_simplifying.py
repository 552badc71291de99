"""The rewrites before the import: the same values, in operators that have an integer form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from small_networks import Builder

from edgepipe.frontend.network import load_network
from edgepipe.frontend.onnx_passes import simplify
from edgepipe.tvm_adapter import run_module

SHAPE = (1, 3, 9, 12)


def conv_last(b: Builder, x: str, channels: int = 3) -> onnx.ModelProto:
    """End a network by the convolution that makes what is before it part of the features."""
    b.conv(x, "y", (4, channels, 1, 1))
    return b.model([*SHAPE], {"y": 4})


def relu_first(b: Builder) -> str:
    return b.node("Relu", [b.conv("image", "first", (3, 3, 1, 1))], "relu")


def padded_by_a_rule(kind: str, rule: str, stride: int) -> onnx.ModelProto:
    b = Builder()
    shape = {"kernel_shape": [3, 3], "strides": [stride, stride], "auto_pad": rule}
    if kind == "Conv":
        weight = b.constant("w", b.normal(3, 3, 3, 3))
        b.node("Conv", ["image", weight], "x", **shape)
    else:
        b.node(kind, ["image"], "x", **shape)
    return conv_last(b, "x")


def border(mode: str, amounts: list[int], reader: str = "Conv", **more: object) -> onnx.ModelProto:
    b = Builder()
    inputs = [relu_first(b), b.constant("amounts", np.array(amounts, np.int64))]
    if "value" in more:
        inputs.append(b.constant("value", np.float32(more.pop("value"))))
    b.node("Pad", inputs, "padded", mode=mode)
    if reader == "Conv":
        b.conv("padded", "x", (3, 3, 3, 3))
    else:
        b.node(reader, ["padded"], "x", kernel_shape=[3, 3], strides=[2, 2], **more)
    return conv_last(b, "x")


def border_of_axes(
    axes: list[int], amounts: list[int], value: float = 0.0, mode: str = "constant"
) -> onnx.ModelProto:
    """What opset 18 allows: amounts for some axes only."""
    b = Builder()
    inputs = [relu_first(b), b.constant("amounts", np.array(amounts, np.int64))]
    inputs += [b.constant("value", np.float32(value)), b.constant("axes", np.array(axes, np.int64))]
    b.node("Pad", inputs, "x", mode=mode)
    channels = 3 + sum(
        amount for amount, axis in zip(amounts, axes * 2, strict=True) if axis in (1, -3)
    )
    model = conv_last(b, "x", channels)
    model.opset_import[0].version = 18
    return model


def resized(*, sizes: list[int] | None = None, **attributes: object) -> onnx.ModelProto:
    b = Builder()
    wanted = b.constant("sizes", np.array(sizes or [1, 3, 13, 12], np.int64))
    b.node("Resize", [relu_first(b), "", "", wanted], "x", **attributes)
    return conv_last(b, "x")


def resized_by_two_for_the_corners() -> onnx.ModelProto:
    """What PyTorch's exporter with dynamo writes: it names the default of opset 18."""
    b = Builder()
    scales = b.constant("scales", np.float32([1, 1, 2, 2]))
    attributes = {
        "mode": "linear",
        "coordinate_transformation_mode": "align_corners",
        "keep_aspect_ratio_policy": "stretch",
    }
    b.node("Resize", [relu_first(b), "", scales], "x", **attributes)
    b.conv("x", "y", (4, 3, 1, 1))
    return b.model([*SHAPE], {"y": 4}, opset=18)


def resized_as_opset_11_requires(height: int = 18, width: int = 24) -> onnx.ModelProto:
    b = Builder()
    empty = b.constant("empty", np.zeros(0, np.float32))
    wanted = b.constant("sizes", np.array([1, 3, height, width], np.int64))
    x = b.node("Resize", [relu_first(b), empty, empty, wanted], "x", mode="linear")
    b.conv(x, "y", (4, 3, 1, 1))
    return b.model([*SHAPE], {"y": 4}, opset=11)


def channels_taken(begin: int, end: int, step: int, channels: int) -> onnx.ModelProto:
    b = Builder()
    bounds = [b.constant(f"c{n}", np.array([v])) for n, v in enumerate((begin, end, 1, step))]
    b.node("Slice", [relu_first(b), *bounds], "x")
    return conv_last(b, "x", channels)


def sliced() -> onnx.ModelProto:
    b = Builder()
    bounds = [[1, 0], [100, -2], [2, 3], [2, 3]]
    names = [b.constant(f"c{n}", np.array(v, np.int64)) for n, v in enumerate(bounds)]
    b.node("Slice", [relu_first(b), *names], "x")
    return conv_last(b, "x")


def focus(*, channels: int = 5, kernel: int = 3) -> onnx.ModelProto:
    """The four slices of YOLOv5 and YOLOX, on a picture of even size."""
    b = Builder()
    x = b.conv("image", "first", (channels, 3, 1, 1), pads=[0, 0, 1, 0])
    step, many = (b.constant(n, np.array([v], np.int64)) for n, v in (("step", 2), ("many", 99)))
    starts = [b.constant(f"start{n}", np.array([n], np.int64)) for n in (0, 1)]
    axes = [b.constant(f"axis{n}", np.array([n], np.int64)) for n in (2, 3)]
    parts = []
    for dx in (0, 1):
        for dy in (0, 1):
            rows = b.node("Slice", [x, starts[dy], many, axes[0], step], f"rows{dy}{dx}")
            inputs = [rows, starts[dx], many, axes[1], step]
            parts.append(b.node("Slice", inputs, f"part{dy}{dx}"))
    b.node("Concat", parts, "blocks", axis=1)
    pads = [kernel // 2] * 4
    b.conv("blocks", "x", (3, 4 * channels, kernel, kernel), pads=pads, strides=[2, 1])
    return conv_last(b, "x")


def unshuffled(kind: str) -> onnx.ModelProto:
    """Blocks of three rows and three columns, as a node or as PyTorch's PixelUnshuffle."""
    b = Builder()
    x = b.node("Relu", [b.conv("image", "first", (6, 3, 1, 1))], "relu")
    if kind == "SpaceToDepth":
        b.node(kind, [x], "blocks", blocksize=3)
    else:
        shapes = ([1, 6, 3, 3, 4, 3], [1, 54, 3, 4])
        names = [b.constant(f"shape{n}", np.array(s, np.int64)) for n, s in enumerate(shapes)]
        y = b.node("Reshape", [x, names[0]], "apart")
        y = b.node("Transpose", [y], "turned", perm=[0, 1, 3, 5, 2, 4])
        b.node("Reshape", [y, names[1]], "blocks")
    b.conv("blocks", "x", (3, 54, 2, 2))
    return conv_last(b, "x")


def averaged(**attributes: object) -> onnx.ModelProto:
    b = Builder()
    b.node("AveragePool", [relu_first(b)], "x", kernel_shape=[3, 2], **attributes)
    return conv_last(b, "x")


def normalised() -> onnx.ModelProto:
    b = Builder()
    values = (b.normal(3), b.normal(3), b.normal(3), np.abs(b.normal(3)))
    names = [b.constant(f"n{n}", v) for n, v in enumerate(values)]
    b.node("BatchNormalization", ["image", *names], "x", epsilon=0.01)
    return conv_last(b, "x")


def prelu(*slope: float) -> onnx.ModelProto:
    b = Builder()
    values = np.array(slope, np.float32).reshape(-1, 1, 1)
    b.node("PRelu", ["image", b.constant("slope", values)], "x")
    return conv_last(b, "x")


def shuffled() -> onnx.ModelProto:
    b = Builder()
    x = b.conv("image", "wide", (12, 3, 1, 1))
    apart = b.constant("apart", np.array([1, 3, 4, 9, 12], np.int64))
    together = b.constant("together", np.array([1, 12, 9, 12], np.int64))
    b.node("Reshape", [x, apart], "five")
    b.node("Transpose", ["five"], "swapped", perm=[0, 2, 1, 3, 4])
    b.node("Reshape", ["swapped", together], "x")
    return conv_last(b, "x", 12)


def pooled_over_a_large_picture(kind: str, **attributes: object) -> onnx.ModelProto:
    b = Builder()
    sizes = b.constant("sizes", np.array([1, 3, 97, 64], np.int64))
    b.node("Resize", [relu_first(b), "", "", sizes], "large", mode="nearest")
    b.node(kind, ["large"], "x", **attributes)
    if attributes.get("keepdims") == 0:
        b.node("MatMul", ["x", b.constant("w", b.normal(3, 4))], "y")
        return b.model([*SHAPE], {"y": 2})
    b.conv("x", "y", (4, 3, 1, 1))
    return b.model([*SHAPE], {"y": 4})


def dropped() -> onnx.ModelProto:
    b = Builder()
    b.node("Dropout", [b.node("Identity", [relu_first(b)], "same")], "x")
    return conv_last(b, "x")


def padded_by_nothing() -> onnx.ModelProto:
    """What torch writes of ``F.pad`` whose amounts turn out to be zero, also on tokens."""
    b = Builder()
    x = b.node("Reshape", [relu_first(b), b.constant("rows", np.array([1, 3, 108]))], "tokens")
    x = b.node("Pad", [x, b.constant("none", np.zeros(6, np.int64)), ""], "padded")
    x = b.node("Reshape", [x, b.constant("picture", np.array(SHAPE))], "x")
    return conv_last(b, x)


def tokens_of(b: Builder) -> str:
    """Return tokens [1, 108, 3] that a linear layer makes."""
    x = b.node("Reshape", [relu_first(b), b.constant("rows", np.array([1, 3, 108]))], "channels")
    x = b.node("Transpose", [x], "tokens", perm=[0, 2, 1])
    return b.node("MatMul", [x, b.constant("linear", b.normal(3, 3))], "made")


def mean_of_tokens(kind: str) -> onnx.ModelProto:
    b = Builder()
    x = b.node(kind, [tokens_of(b)], "reduced", axes=[1], keepdims=0)
    b.node("Gemm", [x, b.constant("classes", b.normal(3, 4))], "y")
    return b.model([*SHAPE], {"y": 2})


def result_of_tokens(*, biased: bool) -> onnx.ModelProto:
    """A layer of tokens that is a result itself, as the places of RTMPose's joints are."""
    b = Builder()
    name = "layer" if biased else "y"
    b.node("MatMul", [tokens_of(b), b.constant("places", b.normal(3, 8))], name)
    if biased:
        b.node("Add", [b.constant("bias", b.normal(8)), name], "y")
    return b.model([*SHAPE], {"y": 3})


def some_tokens(begin: int, end: int, step: int) -> onnx.ModelProto:
    """A constant token on each side, then a slice of all."""
    b = Builder()
    sides = [b.constant(name, b.normal(1, n, 3)) for name, n in (("left", 2), ("right", 1))]
    x = b.node("Concat", [sides[0], tokens_of(b), sides[1]], "all", axis=1)
    bounds = [b.constant(f"b{i}", np.array([v])) for i, v in enumerate((begin, end, 1, step))]
    x = b.node("Slice", [x, *bounds], "some")
    b.node("MatMul", [x, b.constant("classes", b.normal(3, 4))], "y")
    return b.model([*SHAPE], {"y": 3})


def some_tokens_of_each_window() -> onnx.ModelProto:
    """Tokens [4, 27, 3] of four windows, of which a slice takes the first two each."""
    b = Builder()
    x = b.node("Reshape", [tokens_of(b), b.constant("cut", np.array([4, 27, 3]))], "windows")
    x = b.node("MatMul", [x, b.constant("in", b.normal(3, 3))], "layer")
    bounds = [b.constant(f"b{i}", np.array([v])) for i, v in enumerate((0, 2, 1))]
    x = b.node("Slice", [x, *bounds], "some")
    x = b.node("MatMul", [x, b.constant("out", b.normal(3, 4))], "classes")
    b.node("Reshape", [x, b.constant("flat", np.array([1, 32]))], "y")
    return b.model([*SHAPE], {"y": 2})


def joined(axis: int) -> onnx.ModelProto:
    """Two pictures joined along an axis, and split at another place."""
    b = Builder()
    b.node("Concat", ["image", relu_first(b)], "both", axis=axis)
    sizes = b.constant("sizes", np.array([5, 2 * SHAPE[axis] - 5], np.int64))
    b.node("Split", ["both", sizes], "part", "x", axis=axis)
    return conv_last(b, "x")


def over_channels(kind: str) -> onnx.ModelProto:
    b = Builder()
    return conv_last(b, b.node(kind, [relu_first(b)], "x", axes=[1], keepdims=1), 1)


def signal() -> onnx.ModelProto:
    """A convolution along the rows of a picture, as one of a signal."""
    b = Builder()
    x = b.node("Reshape", [relu_first(b), b.constant("flat", np.array([1, 3, 108]))], "flattened")
    weight = b.constant("w", b.normal(3, 1, 5))
    x = b.node("Conv", [x, weight], "moved", strides=[2], pads=[3, 0], dilations=[2], group=3)
    shape = b.constant("shape", np.array([1, 3, -1, 2]))
    return conv_last(b, b.node("Reshape", [x, shape], "x"))


def pooled_signal(kind: str, **attributes: object) -> onnx.ModelProto:
    """A pool along the rows of a picture, as one of a signal."""
    b = Builder()
    x = b.node("Reshape", [relu_first(b), b.constant("flat", np.array([1, 3, 108]))], "flattened")
    x = b.node(kind, [x], "pooled", kernel_shape=[4], strides=[2], **attributes)
    shape = b.constant("shape", np.array([1, 3, -1, 1]))
    return conv_last(b, b.node("Reshape", [x, shape], "x"))


def reduced_neighbours(kind: str, axes: list[int]) -> onnx.ModelProto:
    """A reduction of axes of a picture that is cut in parts: windows, or a pixel's own."""
    b = Builder()
    shape = (3, 3, 3, 3, 4)
    x = b.node("Reshape", [relu_first(b), b.constant("cut", np.array(shape))], "parts")
    x = b.node(kind, [x], "reduced", axes=axes, keepdims=0)
    return conv_last(b, b.node("Reshape", [x, b.constant("rows", np.array([1, 3, -1, 4]))], "x"))


def squeezed() -> onnx.ModelProto:
    b = Builder()
    mean = b.node("GlobalAveragePool", [relu_first(b)], "mean")
    flat = b.node("Squeeze", [mean, b.constant("axes", np.array([2, 3]))], "flat")
    b.node("MatMul", [flat, b.constant("w", b.normal(3, 4))], "y")
    return b.model([*SHAPE], {"y": 2})


def gathered(index: object, axis: int, shape: list[int], *, opset: int = 13) -> onnx.ModelProto:
    """Take parts of a picture along an axis, and read what is left as channels of a picture."""
    b = Builder()
    wanted = b.constant("wanted", np.array(index, np.int64))
    b.node("Gather", [relu_first(b), wanted], "part", axis=axis)
    b.node("Reshape", ["part", b.constant("shape", np.array(shape, np.int64))], "x")
    b.conv("x", "y", (4, shape[1], 1, 1))
    return b.model([*SHAPE], {"y": 4}, opset=opset)


def unfolded(kernel: int, stride: int) -> onnx.ModelProto:
    """The columns of all windows, as torch exports ``unfold``, before a layer on each of them."""
    b = Builder()
    x, size = relu_first(b), []
    for name, axis in (("rows", 2), ("columns", 3)):
        count = (SHAPE[axis] - kernel) // stride + 1
        index = np.arange(kernel)[:, None] + stride * np.arange(count)
        x = b.node("Gather", [x, b.constant(f"{name}.index", index)], name, axis=2 * axis - 2)
        size.append(count)
    x = b.node("Transpose", [x], "turned", perm=[0, 1, 2, 4, 3, 5])
    pixels = 3 * kernel * kernel
    shape = b.constant("shape", np.array([1, pixels, size[0] * size[1]], np.int64))
    x = b.node("Transpose", [b.node("Reshape", [x, shape], "flat")], "tokens", perm=[0, 2, 1])
    b.node("MatMul", [x, b.constant("w", b.normal(pixels, 4))], "y")
    return b.model([*SHAPE], {"y": 3})


def activated(kind: str, opset: int = 13, **attributes: float) -> onnx.ModelProto:
    b = Builder()
    b.node(kind, [b.conv("image", "first", (3, 3, 1, 1))], "made", **attributes)
    model = conv_last(b, "made")
    model.opset_import[0].version = opset
    return model


def sliced_in_opset_9() -> onnx.ModelProto:
    """Bounds as attributes, as TensorFlow and older versions of PyTorch wrote them."""
    b = Builder()
    b.node("Slice", [relu_first(b)], "cut", axes=[2], starts=[1], ends=[7])
    model = conv_last(b, "cut")
    model.opset_import[0].version = 9
    return model


CASES: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "upper": (lambda: padded_by_a_rule("Conv", "SAME_UPPER", 2), "Conv Conv"),
    "lower": (lambda: padded_by_a_rule("Conv", "SAME_LOWER", 2), "Conv Conv"),
    "valid": (lambda: padded_by_a_rule("Conv", "VALID", 1), "Conv Conv"),
    "pooled": (lambda: padded_by_a_rule("MaxPool", "SAME_UPPER", 2), "MaxPool Conv"),
    "zeros": (lambda: border("constant", [0, 0, 1, 0, 0, 0, 2, 1]), "Conv Relu Conv Conv"),
    "counted zeros": (
        lambda: border("constant", [0, 0, 1, 1, 0, 0, 1, 1], "AveragePool"),
        "Conv Relu AveragePool Conv",
    ),
    "zeros before a maximum": (
        lambda: border("constant", [0, 0, 1, 1, 0, 0, 1, 1], "MaxPool"),
        "Conv Relu MaxPool Conv",
    ),
    "a low border": (
        lambda: border("constant", [0, 0, 0, 0, 0, 0, 1, 1], "MaxPool", value=-3e38),
        "Conv Relu MaxPool Conv",
    ),
    "a border of ones": (
        lambda: border("constant", [0, 0, 1, 1, 0, 0, 1, 1], value=1.0),
        "Conv Relu Add MatMul MatMul Add Conv Conv",
    ),
    "a border of twos from opset 18 on": (
        lambda: border_of_axes([2, 3], [1, 0, 2, 1], value=2.0),
        "Conv Relu Add MatMul MatMul Add Conv",
    ),
    "a reflected border from opset 18 on": (
        lambda: border_of_axes([2, 3], [1, 1, 1, 1], mode="reflect"),
        "Conv Relu MatMul MatMul Conv",
    ),
    "fewer rows": (
        lambda: border("constant", [0, 0, -1, 0, 0, 0, -2, 0], value=3.0),
        "Conv Relu Add MatMul Add Conv Conv",
    ),
    "more channels": (lambda: border_of_axes([1], [0, 2]), "Conv Relu Gather Mul Conv"),
    "more channels of ones": (
        lambda: border_of_axes([1], [1, 2], value=1.0),
        "Conv Relu Gather Mul Add Conv",
    ),
    "more channels and rows": (
        lambda: border_of_axes([-2, -3], [1, 2, 0, 1]),
        "Conv Relu Gather Mul Conv",
    ),
    "channels reflected": (
        lambda: border_of_axes([1], [2, 1], mode="reflect"),
        "Conv Relu Gather Conv",
    ),
    "fewer channels": (lambda: border_of_axes([1], [-1, 0]), "Conv Relu Slice Conv"),
    "reflected": (
        lambda: border("reflect", [0, 0, 1, 2, 0, 0, 2, 0]),
        "Conv Relu MatMul MatMul Conv Conv",
    ),
    "repeated": (lambda: border("edge", [0, 0, 0, 2, 0, 0, 0, 1]), "Conv Relu MatMul Conv Conv"),
    "by odd factors": (lambda: resized(mode="linear"), "Conv Relu MatMul Conv"),
    "with aligned corners": (
        lambda: resized(
            sizes=[1, 3, 17, 7], mode="linear", coordinate_transformation_mode="align_corners"
        ),
        "Conv Relu MatMul MatMul Conv",
    ),
    "cubic": (lambda: resized(sizes=[1, 3, 18, 24], mode="cubic"), "Conv Relu MatMul MatMul Conv"),
    "by two": (lambda: resized(sizes=[1, 3, 18, 24], mode="linear"), "Conv Relu Resize Conv"),
    "with aligned corners in opset 18": (
        resized_by_two_for_the_corners,
        "Conv Relu MatMul MatMul Conv",
    ),
    "in opset 11": (resized_as_opset_11_requires, "Conv Relu Resize Conv"),
    "by factors that float32 rounds down": (
        lambda: resized_as_opset_11_requires(11, 14),
        "Conv Relu MatMul MatMul Conv",
    ),
    "channels backwards": (
        lambda: channels_taken(-1, -(2**31), -1, 3),
        "Conv Relu Gather Conv",
    ),
    "every second channel": (lambda: channels_taken(0, 9, 2, 2), "Conv Relu Gather Conv"),
    "the last channels backwards": (
        lambda: channels_taken(2, 0, -1, 2),
        "Conv Relu Gather Conv",
    ),
    "sliced": (sliced, "Conv Relu MatMul MatMul Conv"),
    "a focus": (focus, "Conv Conv Conv"),
    "a focus of pixels": (lambda: focus(kernel=1), "Conv Conv Conv"),
    "a focus of colours": (
        lambda: focus(channels=3),
        "Conv SpaceToDepth Conv Conv",
    ),
    "space to depth": (lambda: unshuffled("SpaceToDepth"), "Conv Relu Conv Conv"),
    "unshuffled": (lambda: unshuffled("Reshape"), "Conv Relu Conv Conv"),
    "averaged": (lambda: averaged(pads=[1, 1, 1, 0]), "Conv Relu MatMul MatMul Conv"),
    "averaged to the end": (
        lambda: averaged(strides=[2, 3], ceil_mode=1),
        "Conv Relu MatMul MatMul Conv",
    ),
    "averaged with a plain window": (averaged, "Conv Relu AveragePool Conv"),
    "averaged over a large picture": (
        lambda: pooled_over_a_large_picture("GlobalAveragePool"),
        "Conv Relu Resize AveragePool GlobalAveragePool Mul Conv",
    ),
    "reduced to a mean": (
        lambda: pooled_over_a_large_picture("ReduceMean", axes=[-1, 2], keepdims=1),
        "Conv Relu Resize AveragePool GlobalAveragePool Mul Conv",
    ),
    "averaged by a window as large": (
        lambda: pooled_over_a_large_picture("AveragePool", kernel_shape=[97, 64]),
        "Conv Relu Resize AveragePool GlobalAveragePool Mul Conv",
    ),
    "reduced to a flat mean": (
        lambda: pooled_over_a_large_picture("ReduceMean", axes=[2, 3], keepdims=0),
        "Conv Relu Resize AveragePool GlobalAveragePool Mul Flatten MatMul",
    ),
    "the largest of a large picture": (
        lambda: pooled_over_a_large_picture("GlobalMaxPool"),
        "Conv Relu Resize MaxPool GlobalMaxPool Conv",
    ),
    "reduced to a flat maximum": (
        lambda: pooled_over_a_large_picture("ReduceMax", axes=[2, 3], keepdims=0),
        "Conv Relu Resize MaxPool GlobalMaxPool Flatten MatMul",
    ),
    "normalised": (normalised, "Mul Add Conv"),
    "one slope": (lambda: prelu(0.25), "LeakyRelu Conv"),
    "slopes": (lambda: prelu(0.25, -0.5, 2), "Relu Mul Mul Add Conv"),
    "shuffled": (shuffled, "Conv Gather Conv"),
    "one taken": (lambda: gathered(2, 1, [1, 9, 12, 1]), "Conv Relu Slice Reshape Reshape Conv"),
    "the last taken": (
        lambda: gathered(-1, -3, [1, 9, 12, 1]),
        "Conv Relu Slice Reshape Reshape Conv",
    ),
    "the batch taken": (
        lambda: gathered(0, 0, [1, 3, 9, 12]),
        "Conv Relu Conv",
    ),
    "all taken": (lambda: gathered([0, 1, -1], 1, [1, 3, 9, 12]), "Conv Relu Conv"),
    "one taken as a list": (
        lambda: gathered([1], 1, [1, 1, 9, 12]),
        "Conv Relu Slice Reshape Conv",
    ),
    "neighbours taken": (
        lambda: gathered([1, -1], 1, [1, 2, 9, 12]),
        "Conv Relu Slice Reshape Conv",
    ),
    "a table of neighbours taken": (
        lambda: gathered([[0, 1], [2, 3]], 3, [1, 12, 9, 1]),
        "Conv Relu MatMul Reshape Reshape Conv",
    ),
    "rows taken": (lambda: gathered([3, 4, 5], 2, [1, 3, 3, 12]), "Conv Relu MatMul Reshape Conv"),
    "other rows taken": (
        lambda: gathered([3, 3, 0, -1], 2, [1, 3, 4, 12]),
        "Conv Relu MatMul Reshape Conv",
    ),
    "a table of all rows taken": (
        lambda: gathered([[0, 3, 6], [1, 4, 7], [2, 5, 8]], 2, [1, 9, 3, 12]),
        "Conv Relu Reshape Transpose Reshape Reshape Conv",
    ),
    "patches": (
        lambda: unfolded(3, 3),
        "Conv Relu Reshape Transpose Reshape Reshape Transpose Reshape Transpose Reshape Transpose "
        "Reshape Transpose Conv Transpose Reshape",
    ),
    "patches that overlap": (
        lambda: unfolded(3, 2),
        "Conv Relu MatMul MatMul Reshape Transpose Reshape Transpose Reshape Transpose Conv "
        "Transpose Reshape",
    ),
    "others taken": (lambda: gathered([2, 0], 1, [1, 2, 9, 12]), "Conv Relu Gather Reshape Conv"),
    "neighbours taken backwards": (
        lambda: gathered([2, 1], 1, [1, 2, 9, 12]),
        "Conv Relu Gather Reshape Conv",
    ),
    "taken in opset 9": (
        lambda: gathered(2, 1, [1, 9, 12, 1], opset=9),
        "Conv Relu Slice Reshape Reshape Conv",
    ),
    "sliced in opset 9": (sliced_in_opset_9, "Conv Relu MatMul Conv"),
    "celu": (lambda: activated("Celu", alpha=2.0), "Conv Mul Elu Mul Conv"),
    "celu of one": (lambda: activated("Celu"), "Conv Elu Conv"),
    "swish": (lambda: activated("Swish", opset=24), "Conv Sigmoid Mul Conv"),
    "swish with a factor": (
        lambda: activated("Swish", opset=24, alpha=1.5),
        "Conv Mul Sigmoid Mul Conv",
    ),
    "of length one": (
        lambda: activated("LpNormalization", axis=1, p=2),
        "Conv Mul ReduceMean Add Sqrt Div Mul Conv",
    ),
    "of length one in opset 22": (
        lambda: activated("LpNormalization", opset=22, axis=1, p=1),
        "Conv ReduceL1 Clip Div Conv",
    ),
    "joined rows": (lambda: joined(2), "Conv Relu MatMul MatMul Add MatMul Conv"),
    "joined columns": (lambda: joined(3), "Conv Relu MatMul MatMul Add MatMul Conv"),
    "a mean of channels": (
        lambda: over_channels("ReduceMean"),
        "Conv Relu Conv Conv",
    ),
    "the largest channel": (lambda: over_channels("ReduceMax"), "Conv Relu ReduceMax Conv"),
    "a signal": (signal, "Conv Relu Reshape Reshape Conv Reshape Reshape Conv"),
    "the means of a signal": (
        lambda: pooled_signal("AveragePool", pads=[2, 2], count_include_pad=1),
        "Conv Relu Reshape Reshape AveragePool Reshape Reshape Conv",
    ),
    "the largest of a signal": (
        lambda: pooled_signal("MaxPool", pads=[1, 0]),
        "Conv Relu Reshape Reshape MaxPool Reshape Reshape Conv",
    ),
    "the largest of each part": (
        lambda: reduced_neighbours("ReduceMax", [3]),
        "Conv Relu Reshape Reshape MaxPool Reshape Reshape Conv",
    ),
    "the mean of each part": (
        lambda: reduced_neighbours("ReduceMean", [2, 3]),
        "Conv Relu Reshape Reshape AveragePool Reshape Reshape Conv",
    ),
    "the sum of axes that are apart": (
        lambda: reduced_neighbours("ReduceMean", [1, 3]),
        "Conv Relu Reshape ReduceMean Reshape Conv",
    ),
    "squeezed": (squeezed, "Conv Relu GlobalAveragePool Flatten MatMul"),
    "dropped": (dropped, "Conv Relu Conv"),
    "padded by nothing": (padded_by_nothing, "Conv Relu Conv"),
    "the mean of tokens": (
        lambda: mean_of_tokens("ReduceMean"),
        "Conv Relu Conv Reshape ReduceMean Flatten Gemm",
    ),
    "the largest of tokens": (
        lambda: mean_of_tokens("ReduceMax"),
        "Conv Relu Conv Reshape ReduceMax Flatten Gemm",
    ),
    "a result of tokens": (
        lambda: result_of_tokens(biased=False),
        "Conv Relu Conv Conv Transpose Reshape",
    ),
    "a result of tokens with a bias": (
        lambda: result_of_tokens(biased=True),
        "Conv Relu Conv Conv Add Transpose Reshape",
    ),
    "the first token": (
        lambda: some_tokens(0, 1, 1),
        "Conv Relu Conv Reshape MatMul Add MatMul Conv Reshape",
    ),
    "the last tokens": (
        lambda: some_tokens(-2, 1 << 60, 1),
        "Conv Relu Conv Reshape MatMul Add MatMul Conv Transpose Reshape",
    ),
    "some tokens of each window": (
        some_tokens_of_each_window,
        "Conv Relu Conv Conv Conv Reshape Reshape Reshape Reshape Transpose Transpose "
        "Transpose Slice",
    ),
    "every third token": (
        lambda: some_tokens(1, 100, 3),
        "Conv Relu Conv Reshape MatMul Add MatMul Conv Transpose Reshape",
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
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    (result,) = session.run(None, {"image": picture})
    return np.asarray(result)


def test_attention_is_imported_and_run_without_a_word_of_tvm(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Exporters write queries, keys and values as ``Gather(x, 0)``, ``Gather(x, 1)``, ..."""
    b = Builder()
    tokens = b.constant("tokens", np.array([3, 1, 9, 12], np.int64))
    b.node("Reshape", [b.conv("image", "wide", (3, 3, 1, 1)), tokens], "three")
    parts = [
        b.node("Gather", ["three", b.constant(f"i{n}", np.array(n, np.int64))], f"part{n}", axis=0)
        for n in range(3)
    ]
    turned = b.node("Transpose", [parts[1]], "turned", perm=[0, 2, 1])
    b.node("Softmax", [b.node("MatMul", [parts[0], turned], "scores")], "weights", axis=-1)
    b.node("MatMul", ["weights", parts[2]], "y")
    onnx.save(b.model([*SHAPE], {"y": 3}), tmp_path / "net.onnx")
    network = load_network(tmp_path / "net.onnx")
    picture = np.random.default_rng(0).normal(0, 1, SHAPE).astype(np.float32)
    found = run_module(network.module, {network.input_name: picture})
    np.testing.assert_allclose(found["y"], run(network.onnx_model, picture), rtol=1e-4, atol=1e-5)
    assert capfd.readouterr() == ("", "")


def test_what_decodes_results_stays() -> None:
    b = Builder()
    x = b.conv("image", "boxes", (4, 3, 1, 1))
    bounds = [b.constant(f"c{n}", np.array([v], np.int64)) for n, v in enumerate((0, 5, 2))]
    b.node("Slice", [x, *bounds], "y")
    model = b.model([*SHAPE], {"y": 4})
    simplify(model)
    assert [node.op_type for node in model.graph.node] == ["Conv", "Slice"]


def test_a_training_network_keeps_its_normalisation() -> None:
    names = [f"n{n}" for n in range(4)]
    node = helper.make_node("BatchNormalization", ["image", *names], ["y"], training_mode=1)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor(name, TensorProto.FLOAT, [3], [1.0, 2.0, 3.0]) for name in names],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    simplify(model)
    assert [node.op_type for node in model.graph.node] == ["BatchNormalization"]
