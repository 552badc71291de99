"""The tail of every accumulating kernel: residual terms, bias, leaky, shift, clip, int8, table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from edgepipe.codegen.arm.layouts import View
from edgepipe.codegen.arm.lookup import Lookup, table_constant
from edgepipe.codegen.arm.sources import Source
from edgepipe.codegen.arm.tensor_ir import Expr, Tensor, te, tirx
from vta_stages.layers.records import Epilogue, Int8Array, Int32Array, LeakySum, Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The structure of an epilogue. Its numbers are kernel arguments, int32[lanes].

    ``terms`` are the residual pictures. ``steps`` are those of
    :class:`vta_stages.layers.records.Leaky`, or None. ``lookup`` is a table that follows, or None.
    """

    output: View
    terms: tuple[Source, ...]
    low: int
    high: int
    steps: tuple[tuple[int, LeakySum], ...] | None
    lookup: Lookup | None = None

    @classmethod
    def of(
        cls, epilogue: Epilogue, terms: tuple[Source, ...], output: View, table: Table | None = None
    ) -> Tail:
        """Return the structure of ``epilogue`` with pictures ``terms`` and ``output``.

        A ``table`` follows it if there is one.
        """
        return cls(
            output=output,
            terms=terms,
            low=epilogue.low,
            high=epilogue.high,
            steps=epilogue.leaky.steps if epilogue.leaky else None,
            lookup=Lookup.of(table, output) if table else None,
        )

    def memory(self) -> list[View]:
        """Return the pictures in memory that the terms read."""
        return [view for term in self.terms for view in term.memory()]

    def placeholders(self, name: str = "") -> list[Tensor]:
        """Return the parameters; their names begin with ``name``.

        They are each term's with its factor, then those in the order of :func:`tail_constants`.
        """
        vector = (self.output.lanes,)
        found: list[Tensor] = []
        for i, term in enumerate(self.terms):
            found += term.placeholders(f"{name}term{i}")
            found.append(te.placeholder(vector, "int32", f"{name}factor{i}"))
        names = ["bias", "shift"] if self.steps is None else ["bias", "offset", "shift"]
        found += [te.placeholder(vector, "int32", f"{name}{each}") for each in names]
        return found + ([self.lookup.placeholder(f"{name}table")] if self.lookup else [])

    def apply(self, acc: Expr, params: Iterator[Tensor], c: Expr, y: Expr, x: Expr) -> Expr:
        """Return the int8 output of accumulator ``acc`` at (c, y, x); padding lanes give zero.

        The tail takes its parameters from ``params``.
        """
        for term in self.terms:
            element = term.read(params, c, y, x, lanes=self.output.lanes)
            acc = acc + element.astype("int32") * next(params)[c]
        value = acc + next(params)[c]
        if self.steps is not None:
            slope = value + next(params)[c]
            for amount, sum_ in self.steps:
                slope = tirx.shift_right(slope, tirx.const(amount, "int32"))
                if sum_ is LeakySum.TO_BRANCH:
                    slope = slope + value
                elif sum_ is LeakySum.TO_VALUE:
                    value = value + slope
            value = tirx.max(value, slope)
        value = tirx.shift_right(value, next(params)[c])
        value = tirx.min(tirx.max(value, self.low), self.high).astype("int8")
        if self.lookup:
            return self.lookup.apply(value, next(params), c)
        if self.output.is_padded and not self.low <= 0 <= self.high:
            value = tirx.Select(c < self.output.channels, value, tirx.const(0, "int8"))
        return value


@dataclass(frozen=True, slots=True)
class NoTail:
    """The end of a kernel whose accumulators, int32 in ``output``, another one adds to its own."""

    output: View

    def placeholders(self) -> list[Tensor]:
        """Return no parameters."""
        return []

    def apply(self, acc: Expr, params: Iterator[Tensor], c: Expr, y: Expr, x: Expr) -> Expr:
        """Return the accumulator; those of padding lanes are zero."""
        return acc


def tail_constants(
    epilogue: Epilogue, lanes: int, table: Table | None = None
) -> list[Int32Array | Int8Array]:
    """Return the arguments behind those of the terms, in the order of :meth:`Tail.placeholders`.

    They are int32[lanes] arrays, and int8 of the table.
    """
    found: list[Int32Array | Int8Array] = [padded(epilogue.bias, lanes)]
    if epilogue.leaky is not None:
        found.append(padded(epilogue.leaky.offset, lanes))
    found.append(padded(epilogue.shift, lanes))
    return [*found, table_constant(table, lanes)] if table else found


def padded(values: Int32Array, lanes: int) -> Int32Array:
    """Append zeros up to ``lanes``, so that padding lanes compute zero.

    ``values`` is int32[channels], the result int32[n] with n a multiple of ``lanes``.
    """
    result = np.zeros(lanes, np.int32)
    result[: values.size] = values.reshape(-1)
    return result
