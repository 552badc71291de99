"""Kernels that compute each element from elements at its place: sums, products, tables.

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
from edgepipe.codegen.arm.tensor_ir import Expr, PrimFunc, Tensor, result, schedule, te, tirx
from edgepipe.codegen.arm.vectors import vectorise
from vta_stages.layers.records import Int32Array


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
    sizes: tuple[tuple[int, int, int], tuple[int, int, int]]
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
        first = self._factor(0, self.first, params, c, y, x)
        second = self._factor(1, self.second, params, c, y, x)
        product = (first.astype("int16") * second.astype("int16")).astype("int32")
        return self.tail.apply(product * next(params)[c].astype("int32"), params, c, y, x)

    def _factor(
        self, index: int, source: Source, params: Iterator[Tensor], c: Expr, y: Expr, x: Expr
    ) -> Expr:
        """Read an element of a factor; extents of one are broadcast."""
        output = self.tail.output
        channels, height, width = self.sizes[index]
        if channels == 1 < output.channels:
            c = 0
        y = 0 if height == 1 < output.height else y
        x = 0 if width == 1 < output.width else x
        return source.read(params, c, y, x, lanes=1 if isinstance(c, int) else output.lanes)


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
