"""Count the products that layers need, the measure of ideal cycles."""

from __future__ import annotations

import numpy as np

from vta_stages.layers.records import Conv, Layer, TransposedConv


def real_products(layer: Layer) -> int:
    """Return the number of products of a layer's weights with elements of its inputs.

    Products with the zeros of padding, and products that fall outside the result, do not count.
    Only convolutions have products: a pooling, a sum or a table has none.
    """
    if isinstance(layer, Conv):
        rows, columns = (
            _taps(size, out, kernel, stride, dilation, before)
            for size, out, kernel, stride, dilation, before in zip(
                (layer.input.height, layer.input.width),
                (layer.output.height, layer.output.width),
                layer.weight.shape[2:],
                layer.stride,
                layer.dilation,
                layer.padding[:2],
                strict=True,
            )
        )
        pixels = layer.output.height * layer.output.width
        projected = sum(projection.weight.size for projection in layer.projections)
        return rows * columns * layer.weight[:, :, 0, 0].size + pixels * projected
    if isinstance(layer, TransposedConv):
        # Each element of the input adds to the results that its forward convolution would read.
        rows, columns = (
            _taps(out, size, kernel, stride, 1, before)
            for out, size, kernel, stride, before in zip(
                (layer.output.height, layer.output.width),
                (layer.input.height, layer.input.width),
                layer.weight.shape[2:],
                layer.stride,
                layer.padding[:2],
                strict=True,
            )
        )
        return rows * columns * layer.weight[:, :, 0, 0].size
    return 0


def _taps(size: int, count: int, kernel: int, stride: int, dilation: int, before: int) -> int:
    """Return the pairs of window and tap along an axis whose tap is one of ``size`` elements."""
    at = np.arange(count)[:, None] * stride + np.arange(kernel)[None, :] * dilation - before
    return int(((at >= 0) & (at < size)).sum())
