"""Strided convolutions of few channels, as convolutions of folded pixels without a stride.

The accelerator multiplies whole blocks of channels, so a first layer that reads three of them
wastes most of its multipliers, once for each tap. If every ``n`` x ``n`` pixels become one with
``n * n`` times the channels ("space to depth"), a convolution of stride ``n`` has stride 1, and
about ``n * n`` times fewer taps: 7x7 of stride 2 becomes 4x4, 3x3 becomes 2x2, 4x4 of stride 4
becomes 1x1. Its sums are those of the original, with products of zero weights in between.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vta_stages.layers.records import Conv, Int8Array, TensorSpec

FACTORS = (2, 4)
"""The factors by which pictures can be folded."""


def fold_factor(layer: Conv, block: int) -> int:
    """Return the factor by which the input of ``layer`` should be folded, or 1.

    ``block`` is the number of channels that the accelerator multiplies at once.
    """
    factor = layer.stride[0]
    picture = layer.input
    others = [term.tensor for term in layer.terms] + [p.tensor for p in layer.projections]
    if (
        factor not in FACTORS
        or layer.stride != (factor, factor)
        or layer.dilation != (1, 1)
        or layer.groups != 1
        or any(other.name == picture.name for other in others)
        or picture.height % factor
        or picture.width % factor
    ):
        return 1
    kernel = layer.weight.shape[2:]
    rows, columns = (_taps(kernel[i], layer.padding[i], factor) for i in range(2))
    if any(padding < 0 for padding in _padding(layer, factor)):
        return 1
    blocks = -(-picture.channels // block)
    folded_blocks = -(-picture.channels * factor**2 // block)
    is_less = len(rows) * len(columns) * folded_blocks < kernel[0] * kernel[1] * blocks
    return factor if is_less else 1


def folded_spec(tensor: TensorSpec, factor: int) -> TensorSpec:
    """Return a picture's size after folding; channel c of pixel (y, x) is then channel
    ``(y % factor * factor + x % factor) * channels + c`` of pixel (y // factor, x // factor).
    """
    return replace(
        tensor,
        channels=tensor.channels * factor**2,
        height=tensor.height // factor,
        width=tensor.width // factor,
    )


def unfolded(picture: Int8Array, factor: int) -> Int8Array:
    """Return int8[1, c, h, w] from the folded int8[1, c * factor**2, h / factor, w / factor]."""
    batch, channels, height, width = picture.shape
    pixels = picture.reshape(batch, factor, factor, channels // factor**2, height, width)
    return pixels.transpose(0, 3, 4, 1, 5, 2).reshape(batch, -1, height * factor, width * factor)


def folded(layer: Conv, factor: int) -> Conv:
    """Return the convolution of the folded picture with the same sums; see ``fold_factor``."""
    weight = layer.weight
    outputs, inputs, height, width = weight.shape
    top, left = layer.padding[:2]
    rows, columns = _taps(height, top, factor), _taps(width, left, factor)
    taps: Int8Array = np.zeros((outputs, factor, factor, inputs, len(rows), len(columns)), np.int8)
    for dy, dx in np.ndindex(height, width):
        y, phase_y = divmod(dy - top, factor)
        x, phase_x = divmod(dx - left, factor)
        taps[:, phase_y, phase_x, :, y - rows[0], x - columns[0]] = weight[:, :, dy, dx]
    return replace(
        layer,
        input=folded_spec(layer.input, factor),
        weight=taps.reshape(outputs, factor**2 * inputs, len(rows), len(columns)),
        stride=(1, 1),
        padding=_padding(layer, factor),
    )


def _taps(kernel: int, padding: int, factor: int) -> range:
    """Return the folded pixels that one output reads on an axis, relative to its own."""
    return range(-padding // factor, (kernel - 1 - padding) // factor + 1)


def _padding(layer: Conv, factor: int) -> tuple[int, int, int, int]:
    """Return the padding of the folded picture, negative where it would have to be cut."""
    before, after = [], []
    inputs = (layer.input.height, layer.input.width)
    outputs = (layer.output.height, layer.output.width)
    for axis, (size, made) in enumerate(zip(inputs, outputs, strict=True)):
        taps = _taps(layer.weight.shape[2 + axis], layer.padding[axis], factor)
        before.append(-taps[0])
        after.append(made - 1 + taps[-1] - (size // factor - 1))
    return (before[0], before[1], after[0], after[1])
