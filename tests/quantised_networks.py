"""Small ONNX networks that are quantised already, written like quantisation tools write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import small_networks
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)

INT8 = np.int8(0)


class Builder(small_networks.Builder):
    """Adds pairs of QuantizeLinear and DequantizeLinear, and integer weights behind the latter."""

    domain = ""
    """The domain of pairs; a tool's own domain has a prefix before the names of operators."""
    prefix = ""

    def pair(self, x: str, name: str, scale: float, zero: Any = INT8, result: str = "") -> str:
        """Quantise ``x`` and make it float again as ``result``; names begin with ``name``."""
        meaning = [
            self.constant(f"{name}.scale", np.float32(scale)),
            self.constant(f"{name}.zero", np.asarray(zero)),
        ]
        self._linear("QuantizeLinear", [x, *meaning], f"{name}.q")
        return self._linear("DequantizeLinear", [f"{name}.q", *meaning], result or f"{name}.dq")

    def integers(
        self, name: str, values: NDArray[Any], scale: NDArray[Any] | float, axis: int = 0
    ) -> str:
        """Add a constant of integers behind a DequantizeLinear."""
        scales = np.asarray(scale, np.float32)
        inputs = [
            self.constant(f"{name}.i", values),
            self.constant(f"{name}.scale", scales),
            self.constant(f"{name}.zero", np.zeros(scales.shape, values.dtype)),
        ]
        more = {"axis": axis} if scales.ndim else {}
        return self._linear("DequantizeLinear", inputs, name, **more)

    def int8_conv(
        self,
        x: str,
        name: str,
        shape: tuple[int, int, int, int],
        *,
        scale: NDArray[Any] | float,
        input_scale: float,
        **attributes: object,
    ) -> str:
        """Add a convolution with random int8 weights and an int32 bias.

        Weights are even and biases are odd, so no sum is halfway between two steps, where rules of
        rounding differ. One weight is -128.
        """
        weight = 2 * np.clip(self.normal(*shape) * 20, -63, 63).astype(np.int8)
        weight.flat[-1] = -128
        bias = (self.normal(shape[0]) * 500).astype(np.int32) | 1
        scales = np.asarray(scale, np.float32)
        inputs = [
            x,
            self.integers(f"{name}.w", weight, scales),
            self.integers(f"{name}.b", bias, scales * np.float32(input_scale)),
        ]
        return self.node("Conv", inputs, name, kernel_shape=shape[2:], **attributes)

    def _linear(self, kind: str, inputs: list[str], name: str, **attributes: object) -> str:
        kind = self.prefix + kind
        return self.node(kind, inputs, name, domain=self.domain, **attributes)


def powers_of_two(*, residual: bool = True) -> onnx.ModelProto:
    """A network whose scales are powers of two, as AMD Quark makes them."""
    b = Builder(3)
    same = {"pads": [1, 1, 1, 1]}
    x = b.pair("image", "in", 2.0**-5)
    x = b.int8_conv(x, "first", (16, 3, 3, 3), scale=2.0**-7, input_scale=2.0**-5, **same)
    x = b.pair(b.node("Relu", [x], "first/relu"), "a", 2.0**-4)
    scales = np.where(np.arange(16) % 2, 2.0**-9, 2.0**-10)
    y = b.int8_conv(x, "second", (16, 16, 3, 3), scale=scales, input_scale=2.0**-4, **same)
    if residual:
        y = b.node("Add", [b.pair(y, "b", 2.0**-4), x], "sum")
    y = b.pair(b.node("Relu", [y], "second/relu"), "c", 2.0**-3)
    y = b.node("MaxPool", [y], "pool", kernel_shape=[2, 2], strides=[2, 2])
    y = b.pair(y, "d", 2.0**-3)
    y = b.int8_conv(y, "third", (8, 16, 1, 1), scale=2.0**-8, input_scale=2.0**-3)
    y = b.pair(y, "e", 2.0**-3)
    b.node("Identity", [y], "result")
    return b.model([1, 3, 16, 16], {"result": 4})


class _Pictures(CalibrationDataReader):  # type: ignore[misc]
    """The calibration pictures of small networks."""

    def __init__(self) -> None:
        self._frames = iter(small_networks.frames(8))

    def get_next(self) -> dict[str, NDArray[np.float32]] | None:
        frame = next(self._frames, None)
        return None if frame is None else {"image": small_networks.PREPROCESS.normalise(frame)}


def by_onnxruntime(
    folder: Path,
    model: onnx.ModelProto,
    quant_format: QuantFormat,
    activations: QuantType,
    *,
    per_channel: bool,
) -> Path:
    """Quantise ``model`` with onnxruntime; return the path of the quantised network."""
    onnx.save(model, folder / "float.onnx")
    path = folder / "quantised.onnx"
    quantize_static(
        folder / "float.onnx",
        path,
        _Pictures(),
        quant_format=quant_format,
        activation_type=activations,
        weight_type=QuantType.QInt8,
        per_channel=per_channel,
    )
    return path


def like_tflite(kind: Any = np.int8) -> onnx.ModelProto:
    """A network as tf2onnx converts it: int8 or uint8 [1, h, w, c] in, the same type out."""
    b = Builder(4)
    zero = kind(0 if kind is np.int8 else 128)
    meaning = [
        b.constant("in.scale", np.float32(1 / 128)),
        b.constant("in.zero", np.asarray(zero)),
    ]
    x = b.node("DequantizeLinear", ["image", *meaning], "in.dq")
    x = b.node("Transpose", [x], "moved", perm=[0, 3, 1, 2])
    x = b.int8_conv(x, "first", (8, 3, 3, 3), scale=0.004, input_scale=1 / 128)
    x = b.pair(b.node("Relu", [x], "first/relu"), "a", 0.02, kind(np.iinfo(kind).min))
    x = b.int8_conv(x, "second", (4, 8, 1, 1), scale=np.linspace(0.002, 0.005, 4), input_scale=0.02)
    x = b.node("Transpose", [x], "back", perm=[0, 2, 3, 1])
    meaning = [
        b.constant("out.scale", np.float32(0.05)),
        b.constant("out.zero", np.asarray(kind(zero + 5))),
    ]
    b.node("QuantizeLinear", [x, *meaning], "result")
    model = b.model([1, 16, 16, 3], {"result": 4})
    number = TensorProto.INT8 if kind is np.int8 else TensorProto.UINT8
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = number
    return model


def like_quark() -> onnx.ModelProto:
    """A network as AMD Quark 0.13 writes it with XINT8.

    All scales are powers of two, activations are uint8 around 128, biases are int8, and the factor
    of the global mean is behind all other operators.
    """
    b = Builder(5)
    zero = np.uint8(128)

    def layer(x: str, name: str, shape: tuple[int, ...], steps: tuple[int, int]) -> list[str]:
        weight = np.clip(b.normal(*shape) * 25, -128, 127).astype(np.int8)
        weight.flat[0] = -128
        bias = (b.normal(shape[0]) * 30).astype(np.int8)
        scales = [2.0**-step for step in steps]
        return [
            x,
            b.integers(f"{name}.w", weight, scales[0]),
            b.integers(f"{name}.b", bias, scales[1]),
        ]

    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    x = b.pair("image", "in", 2.0**-6, zero)
    x = b.node("Conv", layer(x, "first", (16, 3, 3, 3), (7, 9)), "first", **same)
    x = b.pair(b.node("Relu", [x], "first/relu"), "a", 2.0**-5, zero)
    y = b.node("Conv", layer(x, "second", (16, 16, 3, 3), (8, 8)), "second", **same)
    y = b.node("Add", [b.pair(y, "b", 2.0**-5, zero), x], "sum")
    y = b.pair(b.node("Relu", [y], "second/relu"), "c", 2.0**-4, zero)
    y = b.pair(b.node("MaxPool", [y], "pool", kernel_shape=[2, 2]), "d", 2.0**-4, zero)
    y = b.node("Conv", layer(y, "depthwise", (16, 1, 3, 3), (7, 9)), "deep", group=16, **same)
    y = b.pair(b.node("Relu", [y], "deep/relu"), "e", 2.0**-4, zero)
    y = b.node("Conv", layer(y, "third", (8, 16, 1, 1), (7, 9)), "third")
    b.node("GlobalAveragePool", [b.pair(y, "f", 2.0**-5, zero)], "mean_Mul")
    y = b.node("Flatten", [b.pair("mean", "g", 2.0**-5, zero)], "flat")
    y = b.pair(y, "h", 2.0**-6, zero)
    y = b.node("Gemm", layer(y, "dense", (5, 8), (7, 9)), "dense", transB=1)
    b.pair(y, "i", 2.0**-5, zero, "result")
    b.node("Constant", [], "mean_Scale", value=numpy_helper.from_array(np.float32(1)))
    b.node("Mul", ["mean_Mul", "mean_Scale"], "mean")
    return b.model([1, 3, 16, 16], {"result": 2})


def like_brevitas(scales: NDArray[Any]) -> onnx.ModelProto:
    """A network as Brevitas 0.13 writes it with ``export_onnx_qcdq``.

    Weights are int8 behind a Clip to -127 to 127, biases int32, and uint8 follows a ReLU. Both
    terms of the sum get the same scale. ``scales`` is float32[2]: those of activations and weights,
    the latter per channel if ``scales`` is float32[2, 16].
    """
    b = Builder(6)
    own, weights = float(scales[0].max()), scales[1]
    bounds = [b.constant("low", np.int8(-127)), b.constant("high", np.int8(127))]

    def conv(x: str, name: str, kernel: int, channels: int = 16) -> str:
        shape = (16, channels, kernel, kernel)
        weight = np.clip(b.normal(*shape) * 40, -127, 127).astype(np.int8)
        clipped = b.node("Clip", [b.constant(f"{name}.i", weight), *bounds], f"{name}.clip")
        zero = np.zeros(weights.shape, np.int8)
        meaning = [b.constant(f"{name}.s", weights), b.constant(f"{name}.z", zero)]
        axis = {"axis": 0} if weights.ndim else {}
        real = b.node("DequantizeLinear", [clipped, *meaning], f"{name}.w", **axis)
        bias = b.integers(f"{name}.b", (b.normal(16) * 900).astype(np.int32), weights * own)
        return b.node("Conv", [x, real, bias], name, pads=[kernel // 2] * 4)

    x = b.pair("image", "in", own)
    x = b.node("Relu", [conv(x, "first", 3, 3)], "first/relu")
    x = b.pair(x, "a", own, np.uint8(0))
    terms = [b.pair(conv(x, "second", 3), "b", 2 * own), b.pair(x, "c", 2 * own)]
    x = b.node("Relu", [b.node("Add", terms, "sum")], "second/relu")
    x = b.pair(x, "d", own, np.uint8(0))
    x = b.node("MaxPool", [x], "pool", kernel_shape=[2, 2], strides=[2, 2])
    b.pair(conv(x, "third", 1), "e", own, INT8, "result")
    return b.model([1, 3, 16, 16], {"result": 4}, opset=13)


def like_tf2onnx(kind: Any) -> onnx.ModelProto:
    """A classifier of TensorFlow Lite as tf2onnx 1.17 converts it.

    int8 or uint8 [1, h, w, c] in and the same type out, int8 between: per channel weights, int32
    biases, arbitrary scales and zero points, and moves of integers.
    """
    b = Builder(7)

    def meaning(name: str, scale: float, zero: Any) -> list[str]:
        return [b.constant(f"{name}.s", np.float32(scale)), b.constant(f"{name}.z", zero)]

    lowest, step = np.int8(-128), 2 / 255
    scales = np.linspace(0.002, 0.004, 16)
    inner = meaning("inner", step, np.int8(-1))
    x = "image"
    if kind is np.uint8:
        x = b.node("DequantizeLinear", [x, *meaning("in", step, np.uint8(127))], "in.dq")
        x = b.node("QuantizeLinear", [x, *inner], "tfl.quantize")
    x = b.node("Transpose", [x], "moved", perm=[0, 3, 1, 2])
    x = b.node("DequantizeLinear", [x, *inner], "moved.dq")
    more: dict[str, object] = {"strides": [2, 2], "pads": [0, 0, 1, 1]}
    x = b.int8_conv(x, "first", (16, 3, 3, 3), scale=scales, input_scale=step, **more)
    ends = [b.constant("zero", np.float32(0)), b.constant("six", np.float32(6))]
    x = b.pair(b.node("Clip", [x, *ends], "relu6"), "a", 0.006, lowest)
    more = {"group": 16, "pads": [1, 1, 1, 1]}
    y = b.int8_conv(x, "deep", (16, 1, 3, 3), scale=scales, input_scale=0.006, **more)
    y = b.pair(b.node("Relu", [y], "deep/relu"), "b", 0.003, lowest)
    y = b.int8_conv(y, "project", (16, 16, 1, 1), scale=scales, input_scale=0.003)
    x = b.node("Add", [x, b.pair(y, "c", 0.004, np.int8(-40))], "sum")
    x = b.pair(x, "d", 0.0075, np.int8(-60))
    x = b.node("MaxPool", [x], "pool", kernel_shape=[2, 2], strides=[2, 2])
    x = b.pair(x, "e", 0.0075, np.int8(-60))
    x = b.int8_conv(x, "last", (16, 16, 3, 3), scale=scales, input_scale=0.0075)
    x = b.pair(b.node("Relu", [x], "last/relu"), "f", 0.012, lowest)
    mean = meaning("mean", 0.006, lowest)
    x = b.node("QuantizeLinear", [b.node("GlobalAveragePool", [x], "mean"), *mean], "mean.q")
    x = b.node("Squeeze", [x, b.constant("axes", np.array([2, 3]))], "flat")
    x = b.node("DequantizeLinear", [x, *mean], "flat.dq")
    dense = (b.normal(16, 10) * 40).astype(np.int8)
    x = b.node("MatMul", [x, b.integers("dense.w", dense, scales[:10] * 2, axis=1)], "dense")
    x = b.node("Softmax", [b.pair(x, "g", 0.02, np.int8(3))], "shares")
    last = meaning("last", 1 / 256, lowest)
    if kind is np.uint8:
        b.node("QuantizeLinear", [x, *last], "shares.q")
        x = b.node("DequantizeLinear", ["shares.q", *last], "shares.dq")
        last = meaning("out", 1 / 256, np.uint8(0))
    b.node("QuantizeLinear", [x, *last], "result")
    model = b.model([1, 16, 16, 3], {"result": 2}, opset=13)
    number = TensorProto.INT8 if kind is np.int8 else TensorProto.UINT8
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = number
    return model


def in_domain(model: onnx.ModelProto, *domains: str) -> onnx.ModelProto:
    """Add the operator sets of tools to a model."""
    model.opset_import.extend(helper.make_opsetid(domain, 1) for domain in domains)
    return model
