"""Integer normalisations and lengths. They run on ARM only: the accelerator's records lack them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Int16Array = NDArray[np.int16]
Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]

LEAST_POWER = 12
"""Variances begin at 2**LEAST_POWER, so that one or two bits more index the table of roots."""

ROW = 16
"""The thresholds of a length between two that are compared first."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Norm:
    """``name`` = int8[1, c, h, w] of ``source`` of that shape, normalised.

    With ``a = source - zero`` and sums over ``count`` values that share a mean:

        v = (count * sum(a * a) - sum(a) ** 2) * square + epsilon      int64, the variance
        e = how many of ``thresholds`` v reaches                       so v >> 2e has 13 or 14 bits
        r = roots[(v >> 2e) - 2**LEAST_POWER]
        d = ((count * a - sum(a)) * multiplier[e] + half[e]) >> shift[e]
        t = d * r >> quotient_shift                                    rounded
        result = clip((t * factor[c] + bias[c]) >> output_shift[c], low, high)

    The last two lines are in ``dtype``. Without ``is_centred``, sum(a) counts as 0. Values share a
    mean if they are channels of one pixel and ``groups`` is 0, or pixels of one of that many groups
    of channels.
    """

    name: str
    source: str
    shape: tuple[int, int, int, int]
    zero: int
    groups: int
    count: int
    dtype: str
    is_centred: bool
    square: int
    epsilon: int
    thresholds: Int64Array = field(repr=False)
    multiplier: Int32Array = field(repr=False)
    half: Int32Array = field(repr=False)
    shift: Int32Array = field(repr=False)
    roots: Int16Array = field(repr=False)
    quotient_shift: int
    factor: Int32Array = field(repr=False)
    bias: Int32Array = field(repr=False)
    output_shift: Int32Array = field(repr=False)
    low: int
    high: int

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that the operator reads."""
        return (self.source,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Length:
    """``name`` = int8[1, c, 1, 1]: a function of sums over ``source``, int8[1, c, h, w].

    With ``a = source - zero`` and sums over the pixels of each channel:

        s = sum(a * a) if is_squared else sum(abs(a))                  int64
        k = how many of thresholds[1:] s reaches                       so it is rounded once
        result = k + output_zero

    ``thresholds`` are ascending, and as many as a multiple of ``ROW``: k is found in two steps.
    """

    name: str
    source: str
    shape: tuple[int, int, int, int]
    zero: int
    is_squared: bool
    thresholds: Int64Array = field(repr=False)
    output_zero: int

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that the operator reads."""
        return (self.source,)
