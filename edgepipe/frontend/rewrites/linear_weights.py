"""The matrices of layers that are linear in the channels of a pixel."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto

from edgepipe.frontend.onnx_graph import array_of

_MOST_CHANNELS_OF_BAND = 4096
"""The most channels of a one-dimensional convolution over channels: its matrix is a square."""


def dense_weight(
    node: onnx.NodeProto, constants: Mapping[str, TensorProto]
) -> NDArray[np.float32] | None:
    """Return the constant weights float32[in, out] of a linear layer, or None."""
    if node.input[1] not in constants:
        return None
    weight = array_of(constants[node.input[1]])
    given = {a.name: a for a in node.attribute}
    if weight.ndim != 2 or weight.dtype != np.float32:
        return None
    if node.op_type == "Gemm":
        if "transA" in given and given["transA"].i:
            return None
        if any(name in given and given[name].f != 1 for name in ("alpha", "beta")):
            return None
        if "transB" in given and given["transB"].i:
            weight = weight.T
        for value in node.input[2:3]:
            if value not in constants:
                return None
            bias = array_of(constants[value]).shape  # may differ from row to row
            if bias not in ((), (1,), (1, 1), weight.shape[1:], (1, *weight.shape[1:])):
                return None
    return weight.astype(np.float32)


def band_matrix(
    node: onnx.NodeProto,
    constants: Mapping[str, TensorProto],
    shape: tuple[int, ...],
    channels: int,
) -> NDArray[np.float32] | None:
    """Return the matrix float32[out, in] of a convolution along one axis that keeps its length.

    ``shape`` is that of its input, along whose axis are ``channels``. None for another convolution.
    """
    weight = constants.get(node.input[1])
    if weight is None or len(node.input) > 3 or channels > _MOST_CHANNELS_OF_BAND:
        return None
    if len(node.input) > 2 and node.input[2] not in constants:
        return None
    kernel = array_of(weight)
    attributes = {a.name: list(a.ints) for a in node.attribute}
    if kernel.shape[:2] != (1, 1) or kernel.dtype != np.float32 or kernel.ndim not in (3, 4):
        return None
    axes = [axis for axis, size in enumerate(shape[2:]) if size > 1]
    if len(axes) != 1 or kernel.size != kernel.shape[2 + axes[0]]:
        return None
    (axis,), rank = axes, kernel.ndim - 2
    if any(any(v != 1 for v in attributes.get(n, [])) for n in ("strides", "dilations")):
        return None
    if any(a.name == "auto_pad" and a.s not in (b"", b"NOTSET") for a in node.attribute):
        return None
    taps, before = kernel.reshape(-1), attributes.get("pads", [0] * 2 * rank)[axis]
    matrix = np.zeros((channels, channels + len(taps) + 2 * before), np.float32)
    for channel in range(channels):
        matrix[channel, channel : channel + len(taps)] = taps
    return np.ascontiguousarray(matrix[:, before : before + channels])
