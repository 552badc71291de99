"""Ordinary operators between two convolutions, as exporters write them: all have an integer form.

Each function reads the pictures ``u`` and ``v``, float[1, 8, 12, 16], and returns the name of a
picture with the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from adaptive_pools import adaptive_mean
from numpy.typing import NDArray
from small_networks import Builder

CHANNELS, HEIGHT, WIDTH = 8, 12, 16
SHAPE = (1, 3, HEIGHT, WIDTH)
Maker = Callable[[Builder, str, str], str]


class Parts:
    """Appends nodes and constants to a builder, whose names begin with one of their own."""

    def __init__(self, builder: Builder, name: str) -> None:
        self._builder = builder
        self._name = name
        self._count = 0

    def __call__(self, op: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        self._count += 1
        names = [f"{self._name}.{self._count}.{index}" for index in range(outputs)]
        return self._builder.node(op, list(inputs), *names, **attributes)

    def integers(self, *values: int) -> str:
        self._count += 1
        return self._builder.constant(f"{self._name}.{self._count}", np.array(values, np.int64))

    def integer(self, value: int) -> str:
        self._count += 1
        return self._builder.constant(f"{self._name}.{self._count}", np.array(value, np.int64))

    def split(self, x: str, axis: int, *sizes: int) -> list[str]:
        first = self("Split", x, self.integers(*sizes), outputs=len(sizes), axis=axis)
        return [f"{first[:-1]}{index}" for index in range(len(sizes))]

    def normal(self, *shape: int) -> NDArray[np.float32]:
        return self._builder.normal(*shape)

    def number(self, value: float) -> str:
        self._count += 1
        return self._builder.constant(f"{self._name}.{self._count}", np.float32(value))

    def weights(self, *shape: int) -> str:
        return self.values(self._builder.normal(*shape) * np.float32(0.3))

    def values(self, array: NDArray[np.floating]) -> str:
        self._count += 1
        return self._builder.constant(f"{self._name}.{self._count}", array.astype(np.float32))


def _last(p: Parts, x: str) -> str:
    return p("Transpose", x, perm=[0, 2, 3, 1])


def _first(p: Parts, x: str) -> str:
    return p("Transpose", x, perm=[0, 3, 1, 2])


def _linear(p: Parts, x: str, before: int, after: int) -> str:
    return p("Add", p("MatMul", x, p.weights(before, after)), p.weights(after))


# Layers on channels last.


def linear_on_the_last_axis(b: Builder, u: str, v: str) -> str:
    p = Parts(b, "linear")
    return _first(p, _linear(p, _last(p, u), CHANNELS, 12))


def two_linear_layers(b: Builder, u: str, v: str) -> str:
    """The block of ConvNeXt without its normalisation."""
    p = Parts(b, "block")
    x = _linear(p, _last(p, u), CHANNELS, 16)
    x = p("Mul", x, p("Sigmoid", x))
    x = p("Mul", _linear(p, x, 16, CHANNELS), p.weights(CHANNELS))
    return p("Add", _first(p, x), v)


def linear_on_tokens(b: Builder, u: str, v: str) -> str:
    p = Parts(b, "tokens")
    x = p("Reshape", u, p.integers(1, CHANNELS, HEIGHT * WIDTH))
    x = p("Relu", _linear(p, p("Transpose", x, perm=[0, 2, 1]), CHANNELS, CHANNELS))
    x = p("Transpose", x, perm=[0, 2, 1])
    return p("Reshape", x, p.integers(1, CHANNELS, HEIGHT, WIDTH))


def linear_on_rows(b: Builder, u: str, v: str) -> str:
    """A dense layer of Keras on [1, h, w, c], written for a matrix."""
    p = Parts(b, "rows")
    x = p("Reshape", _last(p, u), p.integers(HEIGHT * WIDTH, CHANNELS))
    x = p("Gemm", x, p.weights(4, CHANNELS), p.weights(4), transB=1)
    return _first(p, p("Reshape", x, p.integers(1, HEIGHT, WIDTH, 4)))


def function_on_the_last_axis(b: Builder, u: str, v: str) -> str:
    p = Parts(b, "function")
    return _first(p, p("Relu", p("Mul", _last(p, u), p.weights(CHANNELS))))


def flattened_channels_last(b: Builder, u: str, v: str) -> str:
    p = Parts(b, "flat")
    pooled = p("MaxPool", u, kernel_shape=[4, 4], strides=[4, 4])
    x = p("Reshape", _last(p, pooled), p.integers(1, 12 * CHANNELS))
    return p("Relu", p("MatMul", x, p.weights(12 * CHANNELS, 6)))


def joined_features(b: Builder, u: str, v: str) -> str:
    """PFLD: flattened features of several sizes in one row."""
    p = Parts(b, "landmarks")
    x = p("MaxPool", u, kernel_shape=[4, 4], strides=[4, 4])
    parts = [p("Flatten", x), p("Flatten", p("GlobalAveragePool", v))]
    return p("MatMul", p("Concat", *parts, axis=1), p.weights(13 * CHANNELS, 6))


def joined_with_constants(b: Builder, u: str, v: str) -> str:
    """A row with constant features beside computed ones."""
    p = Parts(b, "extended")
    x = p("Concat", p("Flatten", p("GlobalAveragePool", u)), p.weights(1, 3), axis=-1)
    return p("MatMul", x, p.weights(CHANNELS + 3, 6))


def convolution_over_channels(b: Builder, u: str, v: str) -> str:
    """Efficient channel attention."""
    p = Parts(b, "eca")
    x = p("ReduceMean", u, axes=[2, 3], keepdims=0)
    x = p("Reshape", x, p.integers(1, 1, CHANNELS))
    x = p("Conv", x, p.weights(1, 1, 3), kernel_shape=[3], pads=[1, 1])
    x = p("Reshape", p("Sigmoid", x), p.integers(1, CHANNELS, 1, 1))
    return p("Mul", v, x)


TOKENS: dict[Maker, str] = {
    linear_on_the_last_axis: "Conv Add",
    two_linear_layers: "Conv Add Sigmoid Mul Conv Add Mul Add",
    linear_on_tokens: "Conv Add Relu",
    linear_on_rows: "Conv",
    function_on_the_last_axis: "Mul Relu",
    flattened_channels_last: "MaxPool Flatten MatMul Relu",
    joined_features: "MaxPool Flatten GlobalAveragePool Flatten Concat MatMul",
    joined_with_constants: "GlobalAveragePool Flatten Concat MatMul",
    convolution_over_channels: "ReduceMean Conv Sigmoid Mul",
}


# Joins along height and width.


def joined_rows(b: Builder, u: str, v: str) -> str:
    return Parts(b, "joined")("Concat", u, v, axis=2)


def rolled(b: Builder, u: str, v: str) -> str:
    """What PyTorch exports for a roll by (-2, 3)."""
    p = Parts(b, "rolled")
    for axis, cut, size in ((2, 2, HEIGHT), (3, WIDTH - 3, WIDTH)):
        along = p.integers(axis)
        behind = p("Slice", u, p.integers(cut), p.integers(size), along)
        u = p("Concat", behind, p("Slice", u, p.integers(0), p.integers(cut), along), axis=axis)
    return u


def cropped(b: Builder, u: str, v: str) -> str:
    """What tf2onnx writes for a picture moved by a pixel, as in NASNet."""
    p = Parts(b, "cropped")
    x = p("Pad", u, p.integers(0, 0, 0, 0, 0, 0, 1, 1))
    ends = p.integers(*[2**31 - 1] * 4)
    x = p("Slice", x, p.integers(0, 1, 1, 0), ends, p.integers(0, 2, 3, 1))
    return p("AveragePool", x, kernel_shape=[1, 1], strides=[2, 2])


JOINS: dict[Maker, str] = {
    cropped: "MatMul MatMul AveragePool",
    joined_rows: "MatMul MatMul Add",
    rolled: "MatMul MatMul",
}


# Broadcasts, and what compares two tensors.


def expanded_sum(b: Builder, u: str, v: str) -> str:
    p = Parts(b, "expanded")
    x = p("GlobalAveragePool", u)
    return p("Add", p("Expand", x, p.integers(1, CHANNELS, HEIGHT, WIDTH)), v)


def sum_of_a_row(b: Builder, u: str, v: str) -> str:
    p = Parts(b, "row")
    x = p("MaxPool", u, kernel_shape=[HEIGHT, 1], strides=[HEIGHT, 1])
    return p("Relu", p("Sub", v, x))


def sum_of_one_channel(b: Builder, u: str, v: str) -> str:
    p = Parts(b, "channel")
    x = p("Conv", u, p.weights(1, CHANNELS, 1, 1), kernel_shape=[1, 1])
    return p("Add", x, v)


def expanded_gate(b: Builder, u: str, v: str) -> str:
    p = Parts(b, "gate")
    x = p("Sigmoid", p("GlobalAveragePool", u))
    return p("Mul", p("Expand", x, p.integers(1, 1, HEIGHT, WIDTH)), v)


def tiled(b: Builder, u: str, v: str) -> str:
    p = Parts(b, "tiled")
    return p("Tile", u, p.integers(1, 1, 2, 1))


def tiled_channels(b: Builder, u: str, v: str) -> str:
    p = Parts(b, "copies")
    return p("Tile", u, p.integers(1, 3, 1, 2))


def split_columns(b: Builder, u: str, v: str) -> str:
    p = Parts(b, "split")
    first = p("Split", u, p.integers(7, 9), outputs=2, axis=3)
    second = first.removesuffix("0") + "1"
    both = [p("ReduceMean", x, axes=[2, 3]) for x in (first, second)]
    return p("Add", *both)


def larger(b: Builder, u: str, v: str) -> str:
    return Parts(b, "larger")("Max", u, v)


def smaller(b: Builder, u: str, v: str) -> str:
    return Parts(b, "smaller")("Min", u, v)


BROADCASTS: dict[Maker, str] = {
    expanded_sum: "GlobalAveragePool MatMul MatMul Add",
    sum_of_a_row: "MaxPool MatMul Sub Relu",
    sum_of_one_channel: "Conv Gather Add",
    expanded_gate: "GlobalAveragePool Sigmoid Mul",
    tiled: "MatMul",
    tiled_channels: "MatMul Gather",
    split_columns: "MatMul MatMul ReduceMean ReduceMean Add",
    larger: "Sub Relu Add",
    smaller: "Sub Relu Sub",
}


# Reductions.


def sum_over_the_picture(b: Builder, u: str, v: str) -> str:
    p = Parts(b, "sum")
    return p("Mul", p("ReduceSum", u, p.integers(2, 3)), v)


def mean_of_columns(b: Builder, u: str, v: str) -> str:
    p = Parts(b, "columns")
    return p("Mul", p("ReduceMean", u, axes=[2]), v)


def largest_of_rows(b: Builder, u: str, v: str) -> str:
    p = Parts(b, "rowmax")
    return p("Mul", p("ReduceMax", u, axes=[-1]), v)


def spatial_attention(b: Builder, u: str, v: str) -> str:
    """CBAM: mean and maximum over channels, and a gate for each pixel."""
    p = Parts(b, "cbam")
    parts = [p(kind, u, axes=[1], keepdims=1) for kind in ("ReduceMean", "ReduceMax")]
    x = p("Conv", p("Concat", *parts, axis=1), p.weights(1, 2, 3, 3), pads=[1] * 4)
    return p("Mul", v, p("Sigmoid", x))


def sum_over_channels(b: Builder, u: str, v: str) -> str:
    p = Parts(b, "total")
    x = p("ReduceSum", u, p.integers(1), keepdims=0)
    return p("Reshape", x, p.integers(1, 1, HEIGHT, WIDTH))


def largest_of_joined_channels(b: Builder, u: str, v: str) -> str:
    """The parts have steps of their own, and the maximum compares them."""
    p = Parts(b, "joint")
    x = p("Concat", u, p("Sigmoid", v), axis=1)
    return p("ReduceMax", x, axes=[1])


def gate_with_channels_last(b: Builder, u: str, v: str) -> str:
    """Squeeze-and-excitation; exporters of Keras leave it so beside other layers."""
    p = Parts(b, "excite")
    x = p("Relu", _last(p, u))
    mean = p("ReduceMean", x, axes=[1, 2], keepdims=1)
    gate = p("Conv", _first(p, mean), p.weights(CHANNELS, CHANNELS, 1, 1))
    return _first(p, p("Mul", x, _last(p, p("Sigmoid", gate))))


REDUCTIONS: dict[Maker, str] = {
    sum_over_the_picture: "ReduceMean Mul Mul",
    mean_of_columns: "AveragePool Mul",
    largest_of_rows: "MaxPool Mul",
    spatial_attention: "Conv ReduceMax Concat Conv Sigmoid Mul",
    sum_over_channels: "Conv",
    largest_of_joined_channels: "Sigmoid Concat ReduceMax",
    gate_with_channels_last: "ReduceMean Relu Conv Sigmoid Mul",
}

# Quotients.


def quotient_of_tensors(b: Builder, u: str, v: str) -> str:
    """The sum of two magnitudes is a divisor of its own, and a function of no single number."""
    p = Parts(b, "quotient")
    total = p("Add", p("Abs", u), p("Abs", v))
    return p("Relu", p("Div", u, p("Add", total, p.number(0.3))))


def quotient_by_a_function(b: Builder, u: str, v: str) -> str:
    p = Parts(b, "inverse")
    return p("Div", u, p("Add", p("Sigmoid", v), p.number(0.2)))


def quotient_by_a_mean(b: Builder, u: str, v: str) -> str:
    """Global response normalisation divides by a number for each channel."""
    p = Parts(b, "response")
    mean = p("GlobalAveragePool", p("Abs", v))
    return p("Add", p("Div", u, p("Add", mean, p.number(0.1))), v)


QUOTIENTS: dict[Maker, str] = {
    quotient_of_tensors: "Abs Abs Add Add Div Relu",
    quotient_by_a_function: "Sigmoid Add Div",
    quotient_by_a_mean: "Abs GlobalAveragePool Add Div Add",
}

# Constants for each pixel.


def added_positions(b: Builder, u: str, v: str) -> str:
    p = Parts(b, "positions")
    return p("Relu", p("Sub", p.weights(1, CHANNELS, HEIGHT, WIDTH), u))


def window_of_weights(b: Builder, u: str, v: str) -> str:
    """One plane of factors for all channels, as trackers have it."""
    p = Parts(b, "window")
    return p("Mul", u, p.weights(HEIGHT, WIDTH))


def appended_coordinates(b: Builder, u: str, v: str) -> str:
    """CoordConv."""
    p = Parts(b, "coordinates")
    y, x = np.meshgrid(np.linspace(-1, 1, HEIGHT), np.linspace(0, 3, WIDTH), indexing="ij")
    return p("Concat", u, p.values(np.stack([y, x])[None]), axis=1)


def chosen_pixels(b: Builder, u: str, v: str) -> str:
    p = Parts(b, "chosen")
    mask = b.constant("chosen.mask", (np.arange(HEIGHT * WIDTH) % 3 < 1).reshape(1, 1, HEIGHT, -1))
    return p("Where", mask, u, v)


def replaced_pixels(b: Builder, u: str, v: str) -> str:
    """By constants that differ in each channel, too."""
    p = Parts(b, "replaced")
    mask = b.constant("replaced.mask", b.normal(CHANNELS, HEIGHT, WIDTH) > 0)
    return p("Where", mask, p.weights(1, CHANNELS, 1, WIDTH), u)


def chosen_channels(b: Builder, u: str, v: str) -> str:
    p = Parts(b, "sides")
    mask = b.constant("sides.mask", (np.arange(CHANNELS) % 2 < 1).reshape(-1, 1, 1))
    return p("Where", mask, u, v)


def masked_pixels(b: Builder, u: str, v: str) -> str:
    p = Parts(b, "masked")
    mask = b.constant("masked.mask", (np.arange(WIDTH) % 2 < 1))
    return p("Where", mask, u, p.number(0))


def bounds_of_pixels(b: Builder, u: str, v: str) -> str:
    p = Parts(b, "bounds")
    return p("Min", p.weights(1, CHANNELS, HEIGHT, WIDTH), p("Max", u, p.weights(HEIGHT, 1)))


# What becomes several operators.
CHOICES: dict[Maker, str] = {
    chosen_pixels: "Mul Mul Add",
    chosen_channels: "Mul Mul Add",
    replaced_pixels: "Mul Add",
    bounds_of_pixels: "Sub Relu Add Sub Relu Sub",
}

PIXELS: dict[Maker, str] = {
    masked_pixels: "Mul",
    added_positions: "Sub Relu",
    window_of_weights: "Mul",
    appended_coordinates: "Concat",
}

# Windows with gaps.


def sparse_maximum(b: Builder, u: str, v: str) -> str:
    p = Parts(b, "sparse")
    windows = {"kernel_shape": [3, 2], "strides": [1, 2], "dilations": [2, 3]}
    return p("MaxPool", u, pads=[2, 1, 1, 0], **windows)


GAPS: dict[Maker, str] = {
    sparse_maximum: "MaxPool",
}

# Shares of a sum.


def shares_of_channels(b: Builder, u: str, v: str) -> str:
    p = Parts(b, "shares")
    return p("Mul", v, p("Softmax", u, axis=1))


def shares_of_pixels(b: Builder, u: str, v: str) -> str:
    """Spatial softmax: where a heat map is large."""
    p = Parts(b, "spatial")
    x = p("Reshape", u, p.integers(1, CHANNELS, HEIGHT * WIDTH))
    x = p("Reshape", p("Softmax", x, axis=2), p.integers(1, CHANNELS, HEIGHT, WIDTH))
    return p("Mul", v, x)


def shares_of_rows(b: Builder, u: str, v: str) -> str:
    """Written out, as some exporters do."""
    p = Parts(b, "exponentials")
    below = p("Sub", u, p("ReduceMax", u, axes=[2], keepdims=1))
    x = p("Exp", below)
    return p("Div", x, p("ReduceSum", x, p.integers(2), keepdims=1))


def logarithms_of_shares(b: Builder, u: str, v: str) -> str:
    return Parts(b, "logarithms")("LogSoftmax", u, axis=1)


SHARES: dict[Maker, str] = {
    shares_of_channels: "Softmax Mul",
    shares_of_pixels: "Reshape Softmax Reshape Reshape Mul",
    shares_of_rows: "Softmax",
}

LOGARITHMS: dict[Maker, str] = {
    logarithms_of_shares: "ReduceMax Gather Sub Exp Conv Log Gather Sub",
}

# Sums over neighbouring channels.


def local_response(b: Builder, u: str, v: str) -> str:
    return Parts(b, "local")("LRN", u, size=5, alpha=0.5, beta=0.75, bias=1.5)


NEIGHBOURS: dict[Maker, str] = {
    local_response: "Mul Conv Add Pow Mul",
}

# Lengths over pixels.


def global_response(b: Builder, u: str, v: str) -> str:
    """Global response normalisation, as torch writes that of ConvNeXt V2."""
    p = Parts(b, "global")
    length = p("ReduceL2", u, axes=[2, 3])
    mean = p("ReduceMean", length, axes=[1])
    share = p("Div", length, p("Add", mean, p.number(1e-6)))
    scaled = p("Mul", p.weights(1, CHANNELS, 1, 1), p("Mul", u, share))
    return p("Add", u, p("Add", p.weights(1, CHANNELS, 1, 1), scaled))


LENGTHS: dict[Maker, str] = {
    global_response: "ReduceL2 Conv Add Div Mul Mul Add Add",
}

# Adaptive means, in PyTorch's spelling.


def windows_alike(b: Builder, u: str, v: str) -> str:
    return adaptive_mean(b, u, (HEIGHT, WIDTH), (11, 3), "alike")


def windows_of_two_sizes(b: Builder, u: str, v: str) -> str:
    return adaptive_mean(b, u, (HEIGHT, WIDTH), (5, 7), "unlike")


WINDOWS: dict[Maker, str] = {
    windows_alike: "AveragePool",
    windows_of_two_sizes: "MatMul MatMul AveragePool Mul",
}

_GROUPS = (
    *(TOKENS, JOINS, BROADCASTS, REDUCTIONS, QUOTIENTS, PIXELS, GAPS, SHARES, NEIGHBOURS),
    *(LENGTHS, WINDOWS, CHOICES, LOGARITHMS),
)
OPERATORS = {make.__name__: make for makers in _GROUPS for make in makers}
REWRITTEN = {make.__name__: kinds for makers in _GROUPS for make, kinds in makers.items()}


def network(makers: Sequence[Maker], opset: int = 13) -> onnx.ModelProto:
    """Return convolutions, operators on their results, and a layer on each result.

    The outputs are ``y0``, ``y1``, ..., one for each of ``makers``. A layer is a 1x1 convolution,
    or a matrix product if the result is a row.
    """
    b = Builder(3)
    stem = b.node("Relu", [b.conv("image", "stem", (CHANNELS, 3, 3, 3), pads=[1] * 4)], "features")
    u, v = (b.conv(stem, name, (CHANNELS, CHANNELS, 3, 3), pads=[1] * 4) for name in "uv")
    made = [make(b, u, v) for make in makers]
    before = b.model([*SHAPE], dict.fromkeys(made, 4), opset=opset)
    for output in before.graph.output:
        output.type.tensor_type.ClearField("shape")
    inferred = onnx.shape_inference.infer_shapes(before, data_prop=True)
    ranks = {}
    for index, (name, output) in enumerate(zip(made, inferred.graph.output, strict=True)):
        dims = [dim.dim_value for dim in output.type.tensor_type.shape.dim]
        ranks[f"y{index}"] = len(dims)
        if len(dims) == 4:
            b.conv(name, f"y{index}", (4, dims[1], 1, 1))
        else:
            b.node("MatMul", [name, b.constant(f"w{index}", b.normal(dims[1], 4))], f"y{index}")
    return b.model([*SHAPE], ranks, opset=opset)
