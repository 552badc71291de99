"""Small ONNX networks that are quantised already, written like quantisation tools write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import small_networks
from numpy.typing import NDArray
from onnx import TensorProto, helper
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

    def pair(self, x: str, name: str, scale: float, zero: Any = INT8) -> str:
        """Quantise ``x`` and make it float again; the names of both begin with ``name``."""
        meaning = [
            self.constant(f"{name}.scale", np.float32(scale)),
            self.constant(f"{name}.zero", np.asarray(zero)),
        ]
        self._linear("QuantizeLinear", [x, *meaning], f"{name}.q")
        return self._linear("DequantizeLinear", [f"{name}.q", *meaning], f"{name}.dq")

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
        rounding differ.
        """
        weight = 2 * np.clip(self.normal(*shape) * 20, -63, 63).astype(np.int8)
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


def in_domain(model: onnx.ModelProto, *domains: str) -> onnx.ModelProto:
    """Add the operator sets of tools to a model."""
    model.opset_import.extend(helper.make_opsetid(domain, 1) for domain in domains)
    return model
