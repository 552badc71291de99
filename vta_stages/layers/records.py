"""Quantised layers as plain values: the input of the VTA compiler, numpy only.

The ARM code generator starts from the same records, so both devices compute the same definition.
All tensors are int8 with batch 1; arithmetic is int32 with wrap-around.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Int8Array = NDArray[np.int8]
Int32Array = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """An int8 tensor ``[1, channels, height, width]`` between layers."""

    name: str
    channels: int
    height: int
    width: int


class LeakySum(IntEnum):
    """The addition after a shift in a leaky ReLU with value ``v`` and branch ``t``."""

    NOTHING = 0
    TO_BRANCH = 1
    """``t += v``"""
    TO_VALUE = 2
    """``v += t``"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaky:
    """Leaky ReLU in the resolution of the accumulator, made of shifts and additions.

    ``t = v + offset``; for each ``(shift, sum)`` of ``steps``, ``t >>= shift``, then the sum. The
    result is ``max(v, t)``. ``((1, TO_BRANCH), (4, NOTHING))`` gives v and 3/32 v, a slope of 3/32.
    ``((2, TO_VALUE), (1, NOTHING))`` gives 5/4 v and v/8, a slope of 1/10. ``offset`` is
    int32[channels]; it restores the rounding constant, which the slope scales down.
    """

    offset: Int32Array
    steps: tuple[tuple[int, LeakySum], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Epilogue:
    """From int32 accumulator to int8 output, per channel.

    ``v = acc + bias``; ``v = leaky(v)`` if given; ``v >>= shift`` (arithmetic); clip to
    ``[low, high]``. ``bias`` and ``shift`` are int32[channels]; ``bias`` already holds the rounding
    constant ``2**(shift-1)``. 0 <= shift <= 30 and -128 <= low <= high <= 127.
    """

    bias: Int32Array
    shift: Int32Array
    low: int
    high: int
    leaky: Leaky | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A residual: ``tensor * factor`` added to the accumulator; ``factor`` is int32[channels].

    Every factor is ``f * 2**k`` with ``|f| <= 127`` and ``0 <= k <= 16``.
    """

    tensor: TensorSpec
    factor: Int32Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """A residual through a 1x1 convolution that adds into the same accumulator.

    ``weight`` is int8[out_channels, in_channels]; ``stride`` is (y, x); there is no padding.
    """

    tensor: TensorSpec
    weight: Int8Array
    stride: tuple[int, int] = (1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """What convolutions of both directions have: weights, residual terms and an epilogue.

    ``padding`` is (top, left, bottom, right) of zeros; ``stride`` is (y, x).
    """

    name: str
    input: TensorSpec
    output: TensorSpec
    weight: Int8Array
    epilogue: Epilogue
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    groups: int = 1
    terms: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv(Convolution):
    """Convolution with fused residual terms, projections and epilogue.

    ``weight`` is int8[out_channels, in_channels / groups, kernel_h, kernel_w]; ``dilation`` is
    (y, x).
    A dense layer is a 1x1 Conv on a 1x1 picture; average pooling is a depthwise Conv of constants.
    """

    dilation: tuple[int, int] = (1, 1)
    projections: tuple[Projection, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TransposedConv(Convolution):
    """Transposed convolution; ``weight`` is int8[in_channels, out_channels / groups, kh, kw].

    ``out[co, y*sy - pad_top + dy, x*sx - pad_left + dx] += in[ci, y, x] * weight[ci, co, dy, dx]``.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """The element-wise sum of one or more terms, then the epilogue."""

    name: str
    output: TensorSpec
    terms: tuple[Term, ...]
    epilogue: Epilogue


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxPool:
    """Maximum over windows; padding counts as -128, so it never exceeds a pixel."""

    name: str
    input: TensorSpec
    output: TensorSpec
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """Separable linear resampling with integer weights, channel by channel.

    ``out[y, x] = clip((sum_u sum_v rows[y, u] * cols[x, v] * in[u, v] + 2**(shift-1)) >> shift)``;
    without the rounding constant if shift is 0. ``rows`` is int32[out_height, in_height] and
    ``cols`` int32[out_width, in_width]; every product of a row and a column weight fits int8.
    """

    name: str
    input: TensorSpec
    output: TensorSpec
    rows: Int32Array
    cols: Int32Array
    shift: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Concat:
    """The channels of the inputs, one input after the other."""

    name: str
    inputs: tuple[TensorSpec, ...]
    output: TensorSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """``table[c, x + 128]`` at every int8 value ``x`` of channel ``c``.

    ``table`` is int8[channels, 256], or int8[1, 256] for all channels. Only ARM cores run it, and
    accelerators with an extension, if it is one for all channels.
    """

    name: str
    input: TensorSpec
    output: TensorSpec
    table: Int8Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """``first * second * factor``, element by element, plus the terms; then the epilogue.

    The two tensors are broadcast: each of their extents is the output's or 1. ``factor`` is
    int32[channels]. Only ARM cores run it, and accelerators with an extension.
    """

    name: str
    first: TensorSpec
    second: TensorSpec
    output: TensorSpec
    factor: Int32Array
    epilogue: Epilogue
    terms: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Quotient:
    """``first * table[c, second + 128]``, element by element, plus the terms; then the epilogue.

    ``table`` holds the inverse of every int8 value: int32[channels, 256], or int32[1, 256] for all
    channels. The two tensors are broadcast: each of their extents is the output's or 1. Only ARM
    cores run it.
    """

    name: str
    first: TensorSpec
    second: TensorSpec
    output: TensorSpec
    table: Int32Array = field(repr=False)
    epilogue: Epilogue
    terms: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PixelAffine:
    """``input * factor + bias`` with constants for each pixel; then the epilogue.

    ``factor`` and ``bias`` are int32[1, channels, height, width]; each extent may be 1, and so may
    those of ``input``. Only ARM cores run it.
    """

    name: str
    input: TensorSpec
    output: TensorSpec
    factor: Int32Array = field(repr=False)
    bias: Int32Array = field(repr=False)
    epilogue: Epilogue


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """Channel ``channels[c]`` of the input as channel c, for each of the output."""

    name: str
    input: TensorSpec
    output: TensorSpec
    channels: tuple[int, ...]


Layer = (
    Conv
    | TransposedConv
    | Sum
    | MaxPool
    | Resize
    | Concat
    | Table
    | Product
    | Quotient
    | PixelAffine
    | Pick
)
