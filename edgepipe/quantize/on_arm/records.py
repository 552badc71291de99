"""Operators on int8 that have no layer record: they run on ARM only, so the accelerator lacks them.

Tensors are int8 pictures [1, c, h, w]; sums are int32.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from vta_stages.layers.records import Epilogue, Int32Array, TensorSpec, Term


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Quotient:
    """``first * table[c, second + 128]``, element by element, plus the terms; then the epilogue.

    ``table`` holds the inverse of every int8 value: int32[channels, 256], or int32[1, 256] for all
    channels. The two tensors are broadcast: each of their extents is the output's or 1.
    """

    name: str
    first: TensorSpec
    second: TensorSpec
    output: TensorSpec
    table: Int32Array = field(repr=False)
    epilogue: Epilogue
    terms: tuple[Term, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that the operator reads."""
        return (self.first.name, self.second.name, *(term.tensor.name for term in self.terms))


ArmOperation = Quotient
