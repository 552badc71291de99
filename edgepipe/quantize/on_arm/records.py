"""Operators on int8 that have no layer record: only ARM cores run them, and TVM lowers them.

Tensors are int8 pictures [1, c, h, w], apart from those of attention and of products of matrices.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vta_stages.layers.records import Int8Array, Int32Array, TensorSpec

Int16Array = NDArray[np.int16]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Joined:
    """Channels of pictures, by name, and of constants int8[1, c, h, w], one after the other."""

    name: str
    parts: tuple[str | Int8Array, ...]
    output: TensorSpec

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that the operator reads."""
        return tuple(part for part in self.parts if isinstance(part, str))


@dataclass(frozen=True, slots=True, kw_only=True)
class DilatedPool:
    """The largest value of every window, whose pixels are ``dilation`` apart.

    ``padding`` is (top, left, bottom, right) and counts as -128.
    """

    name: str
    input: TensorSpec
    output: TensorSpec
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensor that the operator reads."""
        return (self.input.name,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Softmax:
    """The share of every value's exponential in the sum along ``axis`` 1, 2 or 3.

        e = table[max(input) - input]        the largest is 2**bits
        t = e * count[c] + (sum(e) >> 1)
        output = clip(t // sum(e) + zero, -128, 127)

    ``table`` is int32[256], ``count: int32[c]`` the steps of the output in 1. The sum and ``t`` are
    in ``dtype``, int32 or int64.
    """

    name: str
    input: TensorSpec
    output: TensorSpec
    axis: int
    table: Int32Array = field(repr=False)
    count: Int32Array = field(repr=False)
    zero: int
    dtype: str

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensor that the operator reads."""
        return (self.input.name,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Attention:
    """Means of int8 values, weighted by exponentials of the products of queries and keys.

        s = ((query @ key) >> rounding) + bias       int32, exact
        e = table[(max(s over m) - s) >> coarser]    beyond the table, its last entry
        total = sum(e over m)                        int32, exact
        output = clip(((e @ value) * (inverse // total) + 2**(shift - 1)) >> shift, -128, 127)

    ``query`` is [..., n, d], ``key`` [..., d, m], ``value`` [..., m, c] and the output
    [..., n, c], all of ``rank`` axes; the last two of values and output change places if it
    ``is_turned``. ``table`` is int16, ``bias`` int32 or None; what follows the inverse is int64.
    Without a key, the query takes the place of the product. Either may be a constant.
    """

    name: str
    query: str | Int8Array
    key: str | Int8Array | None
    value: str
    rank: int
    is_turned: bool
    rounding: int
    bias: Int32Array | None = field(repr=False)
    coarser: int
    table: Int16Array = field(repr=False)
    inverse: int
    shift: int

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that the operator reads."""
        return tuple(m for m in (self.query, self.key, self.value) if isinstance(m, str))


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearAttention:
    """Means of int8 values, weighted by products of queries and keys that may have any sign.

        sums = query @ (key @ value)                                  exact
        total = (query @ sum(key over m)) * 2**shift + epsilon        exact
        sign = 1 where total >= 0, else -1
        size = max(total * sign, 1)
        output = clip((sums * sign * factor + (size >> 1)) // size, -128, 127)

    ``query`` is [..., n, d], ``key`` [..., d, m], ``value`` [..., m, e] and the output
    [..., n, e], all of ``rank`` axes. The first two results are int32 if ``is_narrow``, else int64;
    what follows is int64. Where the total is 0, it counts as the least positive one: a result is
    then the largest or the least, or 0 where the sum is 0, too.
    """

    name: str
    query: str
    key: str
    value: str
    rank: int
    is_narrow: bool
    shift: int
    epsilon: int
    factor: int

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that the operator reads."""
        return (self.query, self.key, self.value)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatrixProduct:
    """Sums of products of two int8 tensors, one of which may be a constant, scaled.

        output = clip(((first @ second) * factor + 2**(shift - 1)) >> shift, -128, 127)

    ``first`` is [..., n, d], ``second`` [..., d, m] and the output [..., n, m], all of ``rank``
    axes. The sums are int32 and exact, what follows is int64.
    """

    name: str
    first: str | Int8Array
    second: str | Int8Array
    rank: int
    factor: int
    shift: int

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that the operator reads."""
        return tuple(m for m in (self.first, self.second) if isinstance(m, str))


PictureOperation = Joined | DilatedPool | Softmax
FreeOperation = Attention | LinearAttention | MatrixProduct
ArmOperation = PictureOperation | FreeOperation
