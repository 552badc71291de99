"""Operators on int8 that have no layer record: they run on ARM only, so the accelerator lacks them.

Tensors are int8 pictures [1, c, h, w]; sums are int32.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from vta_stages.layers.records import Epilogue, Int8Array, Int32Array, TensorSpec, Term


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PixelAffine:
    """``input * factor + bias`` with constants for each pixel; then the epilogue.

    ``factor`` and ``bias`` are int32[1, channels, height, width]; each extent may be 1, and so may
    those of ``input``.
    """

    name: str
    input: TensorSpec
    output: TensorSpec
    factor: Int32Array = field(repr=False)
    bias: Int32Array = field(repr=False)
    epilogue: Epilogue

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensor that the operator reads."""
        return (self.input.name,)


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


ArmOperation = Quotient | PixelAffine | Joined
