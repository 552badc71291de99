"""The operators of int16 layers. They run on ARM only, so the accelerator's records lack them.

Tensors are int8 or int16 pictures [1, c, h, w]; sums are int64.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]
SLOPE_BITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """A tensor that an operator reads, with its dtype: int8 or int16."""

    name: str
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Weighted:
    """A convolution of ``tensor`` with ``weight``, int16 as that of a ``ConvNode``.

    ``output_padding`` belongs to a transposed one: the rows and columns that its result has beyond
    the least ones that its stride gives.
    """

    tensor: Operand
    weight: NDArray[np.int16] = field(repr=False)
    stride: tuple[int, int]
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    transposed: bool = False
    output_padding: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scaled:
    """One tensor, or the product of two, times ``factor: int64[c]``."""

    tensors: tuple[Operand, ...]
    factor: Int64Array = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WideLayer:
    """``clip((leaky(sum(weighted) + sum(scaled) + bias) + half) >> shift, low, high)`` in int64.

    ``half`` rounds, and a ``slope`` other than None is that of values below 0, times 2**16.
    ``bias`` and ``shift`` are int64[c]. The result is of ``dtype``: int16, or int8 for a tensor
    that leaves its region.
    """

    name: str
    weighted: tuple[Weighted, ...] = ()
    scaled: tuple[Scaled, ...] = ()
    bias: Int64Array = field(repr=False)
    shift: Int64Array = field(repr=False)
    low: int
    high: int
    slope: int | None = None
    dtype: str = "int16"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that the operator reads."""
        read = [part.tensor.name for part in self.weighted]
        read += [tensor.name for part in self.scaled for tensor in part.tensors]
        return tuple(dict.fromkeys(read))


@dataclass(frozen=True, slots=True, kw_only=True)
class WideUnary:
    """An operator ``name`` on one tensor, with an int16 result."""

    name: str
    source: Operand

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that the operator reads."""
        return (self.source.name,)


@dataclass(frozen=True, slots=True, kw_only=True)
class WideMaxPool(WideUnary):
    """The largest value of every window; ``kernel`` and so on are those of a ``MaxPoolNode``."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WideResize(WideUnary):
    """``rows @ x @ cols.T * 2**-shift`` in int64, rounded and clipped; a shift may be negative."""

    rows: Int64Array = field(repr=False)
    cols: Int64Array = field(repr=False)
    shift: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WideTable(WideUnary):
    """``table`` at every value: [rows, 256] of int8, or [1, 65536] of int16 values.

    ``table`` is int16 or float32 and begins with the least value. Values of int16 are brought to
    one step before, if ``factor: int64[c]`` says by which factor, times 2**15, from 0 to 1.
    """

    table: NDArray[np.int16] | NDArray[np.float32] = field(repr=False)
    factor: Int64Array | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WideConcat:
    """Channels of several tensors, one after the other; int8 values are multiplied by 256."""

    name: str
    parts: tuple[Operand, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that the operator reads."""
        return tuple(part.name for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToInt16:
    """int16[1, c, h, w] = ``tensor / step``, rounded; ``shape`` is that picture's if it differs."""

    name: str
    tensor: str
    step: NDArray[np.float32]
    shape: tuple[int, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that the operator reads."""
        return (self.tensor,)


WideOperation = WideLayer | WideMaxPool | WideResize | WideTable | WideConcat | ToInt16
