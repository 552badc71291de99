"""What exporters write between int8 operators is int8, too: nothing is float in between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import small_networks
from adaptive_pools import adaptive_mean
from levels import every
from small_networks import Builder

from edgepipe.frontend.network import load_network
from edgepipe.partition.operators import match_operators
from edgepipe.quantize.quantizer import QuantizeOptions, quantize
from edgepipe.tvm_adapter import CompiledModule

CHANNELS = 8


def features(b: Builder) -> str:
    return b.node("Relu", [b.conv("image", "first", (CHANNELS, 3, 3, 3), pads=[1] * 4)], "features")


def shaped(b: Builder, kind: str, x: str, values: list[int], name: str) -> str:
    """Append a Reshape, Squeeze or Unsqueeze with a constant."""
    return b.node(kind, [x, b.constant(f"{name}.values", np.array(values, np.int64))], name)


def dense_gate(b: Builder) -> str:
    """Squeeze-and-excitation with dense layers, as in SENet and Keras."""
    x = features(b)
    g = shaped(b, "Reshape", b.node("GlobalAveragePool", [x], "mean"), [1, CHANNELS], "flat")
    g = b.node("Gemm", [g, b.constant("w", b.normal(4, CHANNELS))], "less", transB=1)
    g = b.node(
        "Gemm", [b.node("Relu", [g], "some"), b.constant("v", b.normal(8, 4))], "more", transB=1
    )
    g = shaped(b, "Reshape", b.node("Sigmoid", [g], "gate"), [1, CHANNELS, 1, 1], "picture")
    return b.node("Mul", [x, g], "gated")


def unsqueezed_gate(b: Builder) -> str:
    x = features(b)
    g = shaped(b, "Squeeze", b.node("GlobalAveragePool", [x], "mean"), [2, 3], "flat")
    g = b.node("MatMul", [g, b.constant("w", b.normal(CHANNELS, CHANNELS))], "same")
    g = shaped(b, "Unsqueeze", b.node("Sigmoid", [g], "gate"), [2, 3], "picture")
    return b.node("Mul", [x, g], "gated")


def more_channels(b: Builder) -> str:
    """A shortcut that is widened by zeros, as in BlazeFace."""
    x = features(b)
    y = b.conv(x, "wide", (CHANNELS + 4, CHANNELS, 1, 1))
    amounts = b.constant("amounts", np.array([0, 0, 0, 0, 0, 4, 0, 0], np.int64))
    x = b.node("Pad", [b.node("MaxPool", [x], "pooled", kernel_shape=[1, 1]), amounts], "padded")
    b.node("Relu", [b.node("Add", [y, x], "sum")], "wider")
    return b.conv("wider", "narrow", (CHANNELS, CHANNELS + 4, 1, 1))


def border_of_ones(b: Builder) -> str:
    amounts = b.constant("amounts", np.array([0, 0, 1, 0, 0, 0, 0, 2], np.int64))
    x = b.node("Pad", [features(b), amounts, b.constant("one", np.float32(1))], "padded")
    return b.conv(x, "second", (CHANNELS, CHANNELS, 3, 3))


def gate_over_channels(b: Builder) -> str:
    """ECA: a convolution along the channels."""
    x = features(b)
    g = shaped(b, "Squeeze", b.node("GlobalAveragePool", [x], "mean"), [3], "signal")
    g = b.node("Transpose", [g], "turned", perm=[0, 2, 1])
    weight = b.constant("w", np.abs(b.normal(1, 1, 3)))
    g = b.node("Conv", [g, weight], "along", kernel_shape=[3], pads=[1, 1])
    g = b.node("Transpose", [g], "turned_back", perm=[0, 2, 1])
    g = b.node("Sigmoid", [shaped(b, "Unsqueeze", g, [3], "picture")], "gate")
    return b.node("Mul", [x, g], "gated")


def gate_over_pixels(b: Builder) -> str:
    """CBAM's spatial attention: mean and maximum of all channels."""
    x = features(b)
    both = [b.node(kind, [x], kind, axes=[1], keepdims=1) for kind in ("ReduceMean", "ReduceMax")]
    g = b.node("Concat", both, "both", axis=1)
    g = b.node("Sigmoid", [b.conv(g, "wide", (1, 2, 3, 3), pads=[1] * 4)], "gate")
    return b.node("Mul", [x, g], "gated")


def gate_over_rows(b: Builder) -> str:
    """Coordinate attention: rows and columns are pooled, joined and split."""
    x = features(b)
    rows = b.node("AveragePool", [x], "rows", kernel_shape=[1, 16], strides=[1, 16])
    cols = b.node("AveragePool", [x], "cols", kernel_shape=[16, 1], strides=[16, 1])
    cols = b.node("Transpose", [cols], "turned", perm=[0, 1, 3, 2])
    y = b.conv(b.node("Concat", [rows, cols], "joined", axis=2), "same", (8, 8, 1, 1))
    sizes = b.constant("sizes", np.array([16, 16], np.int64))
    b.node("Split", [b.node("Relu", [y], "relu"), sizes], "own_rows", "own_cols", axis=2)
    cols = b.node("Transpose", ["own_cols"], "turned_back", perm=[0, 1, 3, 2])
    gates = [b.conv("own_rows", "down", (8, 8, 1, 1)), b.conv(cols, "across", (8, 8, 1, 1))]
    for name, gate in zip(("first_gated", "gated"), gates, strict=True):
        x = b.node("Mul", [x, b.node("Sigmoid", [gate], f"{name}_by")], name)
    return x


def picture_of_codes(b: Builder) -> str:
    """An autoencoder: a dense layer's results become the pixels of a picture."""
    g = shaped(b, "Reshape", b.node("GlobalAveragePool", [features(b)], "mean"), [1, -1], "code")
    g = b.node("Gemm", [g, b.constant("w", b.normal(CHANNELS * 16, 8))], "dense", transB=1)
    return shaped(b, "Reshape", b.node("Relu", [g], "relu"), [1, CHANNELS, 4, 4], "picture")


def selective(b: Builder, count: int) -> str:
    """SKNet: stacked paths, and a softmax over them for each channel."""
    x, axis = features(b), b.constant("axis", np.array([1], np.int64))
    paths = [b.conv(x, f"path{n}", (CHANNELS, CHANNELS, 1, 1)) for n in range(count)]
    parts = [b.node("Unsqueeze", [b.node("Relu", [p], f"{p}/r"), axis], f"{p}/u") for p in paths]
    stack = b.node("Concat", parts, "stack", axis=1)
    g = b.node("ReduceSum", [stack, axis], "total", keepdims=0)
    g = b.node("ReduceMean", [g], "mean", axes=[2, 3], keepdims=1)
    g = b.conv(g, "select", (count * CHANNELS, CHANNELS, 1, 1))
    g = shaped(b, "Reshape", g, [1, count, CHANNELS, 1, 1], "by_path")
    g = b.node("Mul", [stack, b.node("Softmax", [g], "weights", axis=1)], "weighted")
    return b.node("ReduceSum", [g, axis], "chosen", keepdims=0)


def selective_kernels(b: Builder) -> str:
    return selective(b, 2)


def three_selective_kernels(b: Builder) -> str:
    return selective(b, 3)


def split_attention(b: Builder) -> str:
    """ResNeSt: the paths are channels of one picture."""
    radix, axis = 2, b.constant("axis", np.array([1], np.int64))
    x = b.node("Relu", [b.conv(features(b), "paths", (16, CHANNELS, 1, 1))], "relu")
    paths = shaped(b, "Reshape", x, [1, radix, CHANNELS, 16, 16], "by_path")
    g = b.node("ReduceSum", [paths, axis], "total", keepdims=0)
    g = b.node("ReduceMean", [g], "mean", axes=[2, 3], keepdims=1)
    g = shaped(b, "Reshape", b.conv(g, "select", (16, 8, 1, 1)), [1, 1, radix, -1], "grouped")
    g = b.node("Softmax", [b.node("Transpose", [g], "turned", perm=[0, 2, 1, 3])], "s", axis=1)
    g = shaped(b, "Reshape", shaped(b, "Reshape", g, [1, -1], "flat"), [1, -1, 1, 1], "picture")
    g = shaped(b, "Reshape", g, [1, radix, CHANNELS, 1, 1], "weights")
    return b.node("ReduceSum", [b.node("Mul", [paths, g], "product"), axis], "chosen", keepdims=0)


def dense_choice(b: Builder) -> str:
    """Selective kernels with dense layers, whose rows are stacked."""
    x, axis = features(b), b.constant("axis", np.array([1], np.int64))
    paths = [b.conv(x, f"path{n}", (CHANNELS, CHANNELS, 1, 1)) for n in range(2)]
    g = b.node("GlobalAveragePool", [b.node("Add", paths, "total")], "mean")
    g = shaped(b, "Reshape", g, [1, CHANNELS], "row")
    rows = [b.node("Gemm", [g, b.constant(f"w{n}", b.normal(8, 8))], f"row{n}") for n in range(2)]
    parts = [b.node("Unsqueeze", [row, axis], f"{row}/u") for row in rows]
    weights = b.node("Softmax", [b.node("Concat", parts, "stack", axis=1)], "weights", axis=1)
    made = []
    for n, path in enumerate(paths):
        index = b.constant(f"index{n}", np.array(n, np.int64))
        w = b.node("Gather", [weights, index], f"taken{n}", axis=1)
        made.append(b.node("Mul", [path, shaped(b, "Unsqueeze", w, [2, 3], f"u{n}")], f"m{n}"))
    return b.node("Add", made, "chosen")


def strided_mean(b: Builder) -> str:
    """PyTorch's adaptive mean of one window: its strides become an index of all channels."""
    x = features(b)
    g = shaped(b, "Reshape", b.node("GlobalAveragePool", [x], "mean"), [-1], "flat")
    index = b.constant("index", np.arange(CHANNELS).reshape(1, CHANNELS, 1, 1))
    return b.node("Add", [x, b.node("Gather", [g, index], "strided", axis=0)], "sum")


def pooled_pyramid(b: Builder) -> str:
    """PSPNet: means over 3 x 3 windows, which are alike, and over 6 x 6 windows of two sizes."""
    x, parts = features(b), list[str]()
    parts.append(x)
    for count in (3, 6):
        mean = adaptive_mean(b, x, (16, 16), (count, count), f"mean{count}")
        y = b.node("Relu", [b.conv(mean, f"level{count}", (4, CHANNELS, 1, 1))], f"relu{count}")
        sizes = b.constant(f"sizes{count}", np.array([1, 4, 16, 16], np.int64))
        parts.append(b.node("Resize", [y, "", "", sizes], f"up{count}", mode="linear"))
    return b.conv(b.node("Concat", parts, "pyramid", axis=1), "narrow", (CHANNELS, 16, 1, 1))


CASES: dict[str, Callable[[Builder], str]] = {
    make.__name__: make
    for make in (
        *(dense_gate, unsqueezed_gate, gate_over_channels, gate_over_pixels, gate_over_rows),
        *(more_channels, border_of_ones, picture_of_codes),
        *(selective_kernels, three_selective_kernels, split_attention, dense_choice, strided_mean),
        pooled_pyramid,
    )
}


@pytest.mark.parametrize("case", every(3, CASES))
def test_nothing_between_int8_operators_is_float(case: str, tmp_path: Path) -> None:
    b = Builder(3)
    b.conv(CASES[case](b), "result", (4, CHANNELS, 1, 1))
    onnx.save(b.model([1, 3, 16, 16], {"result": 4}), tmp_path / "net.onnx")
    network = load_network(tmp_path / "net.onnx")
    frames = list(small_networks.frames(4))
    made = quantize(network, frames, small_networks.PREPROCESS, QuantizeOptions(frames=4))
    operators = match_operators(made.module)
    in_float = [o for o in operators if any("float" in b.dtype for b in o.bindings)]
    assert [o.output for o in in_float] == ["result"]
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"))
    compiled = CompiledModule(made.module, runs=len(frames))
    pairs = []
    for frame in frames:
        picture = small_networks.PREPROCESS.normalise(frame)
        found = compiled.run({"image": frame})["result"]
        pairs.append((found.ravel(), session.run(None, {"image": picture})[0].ravel()))
    one, other = map(np.concatenate, zip(*pairs, strict=True))
    assert np.corrcoef(one, other)[0, 1] > 0.995


def test_what_only_a_dense_layer_reads_is_int8(tmp_path: Path) -> None:
    """The last cell of NASNet: no convolution follows its averages, whose divisors vary."""
    b = Builder(3)
    x = features(b)
    means = b.node("AveragePool", [x], "means", kernel_shape=[3, 3], pads=[1] * 4)
    larger = b.node("Max", [b.node("Add", [means, x], "sum"), means], "larger")
    g = shaped(b, "Reshape", b.node("GlobalAveragePool", [larger], "mean"), [1, -1], "code")
    b.node("Gemm", [g, b.constant("w", b.normal(4, CHANNELS))], "result", transB=1)
    onnx.save(b.model([1, 3, 16, 16], {"result": 2}), tmp_path / "net.onnx")
    network = load_network(tmp_path / "net.onnx")
    frames = list(small_networks.frames(4))
    made = quantize(network, frames, small_networks.PREPROCESS, QuantizeOptions(frames=4))
    in_float = [
        operator.output
        for operator in match_operators(made.module)
        if any("float" in binding.dtype for binding in operator.bindings)
    ]
    assert in_float == ["result"]
