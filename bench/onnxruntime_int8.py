"""The int8 networks that edgepipe is compared with: onnxruntime's, and one with coarser steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import numpy_helper
from onnx.version_converter import convert_version
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quant_pre_process,
    quantize_static,
)

from bench.models import BUILD
from edgepipe.frontend.preprocess import Frame, Preprocess

Float = NDArray[np.float32]
Outputs = tuple[Float, ...]

PER_CHANNEL_OPSET = 13  # the first whose DequantizeLinear has an axis


def run(network: bytes, frames: Sequence[Frame], pre: Preprocess) -> Iterator[Outputs]:
    """Yield the outputs of an ONNX network for every frame, uint8[1, h, w, c]."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
    (entry,) = session.get_inputs()
    for frame in frames:
        yield tuple(session.run(None, {entry.name: pre.normalise(frame)}))


def quantised(
    network: onnx.ModelProto, frames: Sequence[Frame], pre: Preprocess, activations: QuantType
) -> bytes:
    """Return a network that onnxruntime has quantised, with steps of weights for each channel.

    It is prepared as onnxruntime advises, so batch normalisations are part of convolutions.
    """
    return _quantised(network, frames, pre, activation_type=activations, per_channel=True)


def with_powers_of_two(network: onnx.ModelProto, frames: Sequence[Frame], pre: Preprocess) -> bytes:
    """Return a network with one step for each tensor, a power of two, as TVM's VTA stack has them.

    The steps are those of onnxruntime's symmetric int8, rounded up, so nothing clips; biases stay
    as fine as they are. (``relay.quantize`` with ``power2`` scales, TVM 0.8 to 0.16, does the same
    with the steps of weights.)
    """
    symmetric = {"ActivationSymmetric": True, "WeightSymmetric": True}
    content = _quantised(
        network, frames, pre, activation_type=QuantType.QInt8, extra_options=symmetric
    )
    found = onnx.load_from_string(content)
    constants = {constant.name: constant for constant in found.graph.initializer}
    for node in found.graph.node:
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
            continue
        value, scale = constants.get(node.input[0]), constants[node.input[1]]
        step = numpy_helper.to_array(scale).astype(np.float64)
        if value is not None and value.data_type != onnx.TensorProto.INT8:
            continue  # a bias
        coarser = np.exp2(np.ceil(np.log2(step) - 1e-6))
        if value is not None:
            weight = numpy_helper.to_array(value) * step
            rounded = np.clip(np.rint(weight / coarser), -128, 127).astype(np.int8)
            value.CopyFrom(numpy_helper.from_array(rounded, value.name))
        scale.CopyFrom(numpy_helper.from_array(coarser.astype(np.float32), scale.name))
    return found.SerializeToString()


class _Calibration(CalibrationDataReader):
    """Gives onnxruntime's quantiser the same frames."""

    def __init__(self, entry: str, frames: Sequence[Frame], pre: Preprocess) -> None:
        self._left = ({entry: pre.normalise(frame)} for frame in frames)

    def get_next(self) -> dict[str, Float] | None:
        """Return the next input, or None after the last."""
        return next(self._left, None)


def _quantised(
    network: onnx.ModelProto, frames: Sequence[Frame], pre: Preprocess, **options: Any
) -> bytes:
    opset = max(PER_CHANNEL_OPSET, network.opset_import[0].version)
    given, before, after = (BUILD / name for name in ("given.onnx", "float.onnx", "int8.onnx"))
    onnx.save(convert_version(network, opset), given)
    quant_pre_process(given, before, skip_symbolic_shape=True)
    quantize_static(
        before,
        after,
        _Calibration(network.graph.input[0].name, frames, pre),
        quant_format=QuantFormat.QDQ,
        weight_type=QuantType.QInt8,
        **options,
    )
    return after.read_bytes()
