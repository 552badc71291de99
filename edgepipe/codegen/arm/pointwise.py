"""Kernels that compute each element from elements at its place: sums, products, quotients, tables.

A chain of such operators is one kernel, a single pass over memory: what an operator inside the
chain computes stays in registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgepipe.codegen.arm.epilogue import Tail, padded
from edgepipe.codegen.arm.intrinsics import InstructionSet
from edgepipe.codegen.arm.layouts import View
from edgepipe.codegen.arm.sources import Source
from edgepipe.codegen.arm.tensor_ir import (
    TABLE_ENTRIES,
    Expr,
    PrimFunc,
    Tensor,
    result,
    schedule,
    te,
    tirx,
)
from edgepipe.codegen.arm.vectors import vectorise
from vta_stages.layers.records import Int32Array

Size = tuple[int, int, int]  # channels, height, width


@dataclass(frozen=True, slots=True)
class Added:
    """A sum of scaled pictures, which are the terms of ``tail``."""

    tail: Tail

    stem = "sum"

    def memory(self) -> list[View]:
        """Return the pictures in memory that the terms read."""
        return self.tail.memory()

    def placeholders(self, name: str) -> list[Tensor]:
        """Return the tail's parameters."""
        return self.tail.placeholders(f"{name}_")

    def read(self, params: Iterator[Tensor], c: Expr, y: Expr, x: Expr, *, lanes: int) -> Expr:
        """Compute an element."""
        return self.tail.apply(tirx.const(0, "int32"), params, c, y, x)


@dataclass(frozen=True, slots=True, kw_only=True)
class Multiplied:
    """Products of two pictures in int16 (exact for int8), times a factor in int32, then the tail.

    Either picture may have extents of one, which are broadcast: ``sizes`` are (channels, height,
    width) of both. A factor that is loaded as int16, ``factor_dtype``, needs no widening of the
    products.
    """

    first: Source
    second: Source
    sizes: tuple[Size, Size]
    tail: Tail
    factor_dtype: str

    stem = "product"

    def memory(self) -> list[View]:
        """Return the pictures in memory that both factors and the tail's terms read."""
        return [*self.first.memory(), *self.second.memory(), *self.tail.memory()]

    def placeholders(self, name: str) -> list[Tensor]:
        """Return the parameters: those of both pictures, factor[lanes], the tail's."""
        return [
            *self.first.placeholders(f"{name}_first"),
            *self.second.placeholders(f"{name}_second"),
            te.placeholder((self.tail.output.lanes,), self.factor_dtype, f"{name}_factor"),
            *self.tail.placeholders(f"{name}_"),
        ]

    def read(self, params: Iterator[Tensor], c: Expr, y: Expr, x: Expr, *, lanes: int) -> Expr:
        """Compute an element."""
        output = self.tail.output
        first = _broadcast(self.first, self.sizes[0], output, params, c, y, x)
        second = _broadcast(self.second, self.sizes[1], output, params, c, y, x)
        product = (first.astype("int16") * second.astype("int16")).astype("int32")
        return self.tail.apply(product * next(params)[c].astype("int32"), params, c, y, x)


@dataclass(frozen=True, slots=True, kw_only=True)
class Divided:
    """Products of one picture and the inverses of another, from a table in int32; then the tail.

    Either picture may have extents of one, which are broadcast: ``sizes`` are (channels, height,
    width) of both.
    """

    first: Source
    second: Source
    sizes: tuple[Size, Size]
    is_by_channel: bool
    tail: Tail

    stem = "quotient"

    def memory(self) -> list[View]:
        """Return the pictures in memory that both parts and the tail's terms read."""
        return [*self.first.memory(), *self.second.memory(), *self.tail.memory()]

    def placeholders(self, name: str) -> list[Tensor]:
        """Return the parameters: those of both pictures, the table, the tail's."""
        rows = self.tail.output.lanes if self.is_by_channel else 1
        return [
            *self.first.placeholders(f"{name}_first"),
            *self.second.placeholders(f"{name}_second"),
            te.placeholder((rows, TABLE_ENTRIES), "int32", f"{name}_inverse"),
            *self.tail.placeholders(f"{name}_"),
        ]

    def read(self, params: Iterator[Tensor], c: Expr, y: Expr, x: Expr, *, lanes: int) -> Expr:
        """Compute an element."""
        output = self.tail.output
        first = _broadcast(self.first, self.sizes[0], output, params, c, y, x)
        second = _broadcast(self.second, self.sizes[1], output, params, c, y, x)
        index = second.astype("int32") + TABLE_ENTRIES // 2
        inverse = next(params)[c if self.is_by_channel else 0, index]
        acc = _without_padding(output, c, first.astype("int32") * inverse)
        return self.tail.apply(acc, params, c, y, x)


def inverse_constant(table: Int32Array, lanes: int) -> Int32Array:
    """Return the argument for a quotient's table, int32[lanes or 1, 256]."""
    rows = np.zeros((lanes if table.shape[0] > 1 else 1, TABLE_ENTRIES), np.int32)
    rows[: table.shape[0]] = table
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class PixelScaled:
    """A picture times a constant for each of its elements, plus another one; then the tail.

    ``size``, ``factor`` and ``bias`` are (channels, height, width) of the picture and of the
    constants, which are broadcast where they are one.
    """

    source: Source
    size: Size
    factor: Size
    bias: Size
    tail: Tail

    stem = "affine"

    def memory(self) -> list[View]:
        """Return the pictures in memory that the source reads."""
        return [*self.source.memory(), *self.tail.memory()]

    def placeholders(self, name: str) -> list[Tensor]:
        """Return the parameters: the source's, factor and bias, the tail's."""
        lanes = self.tail.output.lanes
        return [
            *self.source.placeholders(f"{name}_x"),
            te.placeholder(pixel_shape(self.factor, lanes), "int32", f"{name}_factor"),
            te.placeholder(pixel_shape(self.bias, lanes), "int32", f"{name}_bias"),
            *self.tail.placeholders(f"{name}_"),
        ]

    def read(self, params: Iterator[Tensor], c: Expr, y: Expr, x: Expr, *, lanes: int) -> Expr:
        """Compute an element."""
        output = self.tail.output
        value = _broadcast(self.source, self.size, output, params, c, y, x).astype("int32")
        factor, bias = (self._constant(size, next(params), c, y, x) for size in self._sizes)
        acc = _without_padding(output, c, value * factor + bias)
        return self.tail.apply(acc, params, c, y, x)

    @property
    def _sizes(self) -> tuple[Size, Size]:
        return self.factor, self.bias

    def _constant(self, size: Size, constants: Tensor, c: Expr, y: Expr, x: Expr) -> Expr:
        """Read a constant; those with one channel have no padding lanes."""
        _, row, column = _at(size, self.tail.output, c, y, x)
        return constants[row, column, c if size[0] > 1 else 0]


def pixel_shape(size: Size, lanes: int) -> tuple[int, int, int]:
    """Return the shape in memory, [height, width, channels], of constants for each pixel."""
    channels, height, width = size
    return height, width, lanes if channels > 1 else 1


def pixel_constant(values: Int32Array, lanes: int) -> Int32Array:
    """Return the argument for constants int32[1, channels, height, width] of pixels."""
    found = np.zeros(pixel_shape(values.shape[1:], lanes), np.int32)
    found[:, :, : values.shape[1]] = values[0].transpose(1, 2, 0)
    return found


def _at(size: Size, output: View, c: Expr, y: Expr, x: Expr) -> tuple[Expr, Expr, Expr]:
    """Return where a picture of ``size`` is read for an element of ``output``."""
    channels, height, width = size
    return (
        0 if channels == 1 < output.channels else c,
        0 if height == 1 < output.height else y,
        0 if width == 1 < output.width else x,
    )


def _broadcast(
    source: Source, size: Size, output: View, params: Iterator[Tensor], c: Expr, y: Expr, x: Expr
) -> Expr:
    """Read an element of a picture whose extents of one are broadcast."""
    c, y, x = _at(size, output, c, y, x)
    return source.read(params, c, y, x, lanes=1 if isinstance(c, int) else output.lanes)


def _without_padding(output: View, c: Expr, acc: Expr) -> Expr:
    """Return an accumulator that is zero in padding lanes."""
    if output.is_padded:
        return tirx.Select(c < output.channels, acc, tirx.const(0, "int32"))
    return acc


def factor_constant(factor: Int32Array, lanes: int) -> NDArray[np.int16] | Int32Array:
    """Return the factors of products: int16[lanes], or int32 if they need it."""
    found = padded(factor, lanes)
    return found.astype(np.int16) if np.abs(found).max() < 1 << 15 else found


@dataclass(frozen=True, slots=True)
class PointwiseKernel:
    """Writes what ``source`` computes."""

    source: Source
    output: View

    @property
    def stem(self) -> str:
        """The last operator's."""
        return self.source.stem

    def build(self, instructions: InstructionSet) -> PrimFunc:
        """Return the scheduled kernel: (the source's parameters, output)."""
        output = self.output
        params = self.source.placeholders("in")

        def value(c: Expr, y: Expr, x: Expr) -> Expr:
            return self.source.read(iter(params), c, y, x, lanes=output.lanes)

        sch = schedule([*params, output.compute(value, "out")])
        vectorise(sch, output, self.source.memory())
        return result(sch)
