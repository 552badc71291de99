"""The axis maps of each kind of layer: which products an output coordinate consists of."""

from __future__ import annotations

import numpy as np

from vta_stages.layers.records import Conv, MaxPool
from vta_stages.lowering.kernel import AxisMap


def identity_axis(extent: int) -> AxisMap:
    """Return the map that copies ``extent`` coordinates."""
    index = np.arange(extent)
    return AxisMap.of(index, index, np.zeros(extent, np.int64), 1)


def broadcast_axis(extent_out: int, extent_in: int) -> AxisMap:
    """Return the map that copies ``extent_out`` coordinates, or repeats the only one."""
    if extent_in == extent_out:
        return identity_axis(extent_out)
    zeros = np.zeros(extent_out, np.int64)
    return AxisMap.of(np.arange(extent_out), zeros, zeros, 1)


def conv_axis(
    extent_out: int, extent_in: int, kernel: int, stride: int, pad: int, dilation: int
) -> AxisMap:
    """Return the products of a convolution along one axis, without those that read padding.

    All arguments are in pixels; ``pad`` is the padding before the first pixel.
    """
    out, tap = (grid.ravel() for grid in np.mgrid[:extent_out, :kernel])
    src = out * stride - pad + tap * dilation
    inside = (src >= 0) & (src < extent_in)
    return AxisMap.of(out[inside], src[inside], tap[inside], kernel)


def transposed_axis(extent_out: int, extent_in: int, kernel: int, stride: int, pad: int) -> AxisMap:
    """Return the products of a transposed convolution along one axis."""
    src, tap = (grid.ravel() for grid in np.mgrid[:extent_in, :kernel])
    out = src * stride - pad + tap
    inside = (out >= 0) & (out < extent_out)
    return AxisMap.of(out[inside], src[inside], tap[inside], kernel)


def clamped_axis(extent_out: int, extent_in: int, kernel: int, stride: int, pad: int) -> AxisMap:
    """Return the windows of a pooling along one axis; taps outside repeat the nearest pixel inside.

    A window that touches the picture contains the pixel that its outside taps are clamped to. So
    the maximum over the clamped window is the maximum over the part inside.
    """
    out, tap = (grid.ravel() for grid in np.mgrid[:extent_out, :kernel])
    src = np.clip(out * stride - pad + tap, 0, extent_in - 1)
    return AxisMap.of(out, src, tap, kernel, part=tap)


def pooled_axis(pool: AxisMap, conv: AxisMap) -> AxisMap:
    """Return the products of a convolution for each tap of the pooling that reads its output."""
    taps, outputs = np.nonzero(pool.src[:, None] == conv.out)
    return AxisMap.of(
        pool.out[taps], conv.src[outputs], conv.tap[outputs], conv.taps, part=pool.part[taps]
    )


def conv_axes(layer: Conv) -> tuple[AxisMap, AxisMap]:
    """Return the products of a convolution along its rows and columns."""
    top, left, _, _ = layer.padding
    kernel_h, kernel_w = layer.weight.shape[2:]
    (sy, sx), (dy, dx) = layer.stride, layer.dilation
    rows = conv_axis(layer.output.height, layer.input.height, kernel_h, sy, top, dy)
    cols = conv_axis(layer.output.width, layer.input.width, kernel_w, sx, left, dx)
    return rows, cols


def pool_axes(layer: MaxPool) -> tuple[AxisMap, AxisMap]:
    """Return the windows of a pooling along its rows and columns."""
    (top, left, _, _), (sy, sx) = layer.padding, layer.stride
    rows = clamped_axis(layer.output.height, layer.input.height, layer.kernel[0], sy, top)
    cols = clamped_axis(layer.output.width, layer.input.width, layer.kernel[1], sx, left)
    return rows, cols
