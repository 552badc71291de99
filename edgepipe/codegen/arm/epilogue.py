"""The tail of every accumulating kernel: residual terms, bias, leaky, shift, clip, int8, table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgepipe.codegen.arm.layouts import View
from edgepipe.codegen.arm.lookup import Lookup, table_constant
from edgepipe.codegen.arm.tensor_ir import Expr, Tensor, te, tirx
from vta_stages.layers.records import Epilogue, Int8Array, Int32Array, LeakySum, Table, Term


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The structure of an epilogue. Its numbers are kernel arguments, int32[lanes].

    ``terms`` are the residual pictures. ``steps`` are those of
    :class:`vta_stages.layers.records.Leaky`, or None. ``lookup`` is a table that follows, or None.
    """

    output: View
    terms: tuple[View, ...]
    low: int
    high: int
    steps: tuple[tuple[int, LeakySum], ...] | None
    lookup: Lookup | None = None

    @classmethod
    def of(
        cls, epilogue: Epilogue, terms: tuple[View, ...], output: View, table: Table | None = None
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

    def placeholders(self) -> list[Tensor]:
        """Return the parameters in the order of :func:`tail_constants`: terms come in pairs."""
        vector = (self.output.lanes,)
        found: list[Tensor] = []
        for i, view in enumerate(self.terms):
            found += [view.placeholder(f"term{i}"), te.placeholder(vector, "int32", f"factor{i}")]
        names = ["bias", "shift"] if self.steps is None else ["bias", "offset", "shift"]
        found += [te.placeholder(vector, "int32", name) for name in names]
        return found + ([self.lookup.placeholder()] if self.lookup else [])

    def apply(self, acc: Expr, params: Sequence[Tensor], c: Expr, y: Expr, x: Expr) -> Expr:
        """Return the int8 output of accumulator ``acc`` at (c, y, x); padding lanes give zero."""
        params = list(params)
        for view in self.terms:
            tensor, factor = params.pop(0), params.pop(0)
            acc = (
                acc
                + view.read(tensor, c, y, x, lanes=self.output.lanes).astype("int32") * factor[c]
            )
        table = params.pop() if self.lookup else None
        bias, shift = params[0], params[-1]
        value = acc + bias[c]
        if self.steps is not None:
            slope = value + params[1][c]
            for amount, sum_ in self.steps:
                slope = tirx.shift_right(slope, tirx.const(amount, "int32"))
                if sum_ is LeakySum.TO_BRANCH:
                    slope = slope + value
                elif sum_ is LeakySum.TO_VALUE:
                    value = value + slope
            value = tirx.max(value, slope)
        value = tirx.shift_right(value, shift[c])
        value = tirx.min(tirx.max(value, self.low), self.high).astype("int8")
        if self.lookup:
            return self.lookup.apply(value, table, c)
        if self.output.is_padded and not self.low <= 0 <= self.high:
            value = tirx.Select(c < self.output.channels, value, tirx.const(0, "int8"))
        return value


def tail_constants(
    epilogue: Epilogue, terms: Sequence[Term], lanes: int, table: Table | None = None
) -> list[str | Int32Array | Int8Array]:
    """Return the arguments for :meth:`Tail.placeholders`.

    They are tensor names and int32[lanes] arrays, and int8 of the table.
    """
    found: list[str | Int32Array | Int8Array] = []
    for term in terms:
        found += [term.tensor.name, padded(term.factor, lanes)]
    found.append(padded(epilogue.bias, lanes))
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
