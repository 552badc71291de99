"""What a kernel reads a picture from: memory, or operators that it computes on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from edgepipe.codegen.arm.layouts import View
from edgepipe.codegen.arm.lookup import Lookup
from edgepipe.codegen.arm.tensor_ir import Expr, Tensor, tirx


class Source(Protocol):
    """An int8 picture as a part of a kernel's expression. Equal sources give equal kernels."""

    @property
    def stem(self) -> str:
        """The beginning of a kernel's name that computes only this."""
        ...

    def memory(self) -> list[View]:
        """Return the pictures in memory that it reads."""
        ...

    def placeholders(self, name: str) -> list[Tensor]:
        """Return the kernel's parameters for it; their names begin with ``name``."""
        ...

    def read(self, params: Iterator[Tensor], c: Expr, y: Expr, x: Expr, *, lanes: int) -> Expr:
        """Read an element for a kernel whose ``c`` runs over ``lanes``; padding reads as zero.

        It takes its parameters from ``params``, in the order of :meth:`placeholders`.
        """
        ...


@dataclass(frozen=True, slots=True)
class InMemory:
    """A picture in memory."""

    view: View

    stem = "copy"

    def memory(self) -> list[View]:
        """Return the picture."""
        return [self.view]

    def placeholders(self, name: str) -> list[Tensor]:
        """Return the picture's parameter."""
        return [self.view.placeholder(name)]

    def read(self, params: Iterator[Tensor], c: Expr, y: Expr, x: Expr, *, lanes: int) -> Expr:
        """Load an element."""
        return self.view.read(next(params), c, y, x, lanes=lanes)


@dataclass(frozen=True, slots=True)
class LookedUp:
    """What a table makes of a picture."""

    source: Source
    lookup: Lookup

    stem = "lookup"

    def memory(self) -> list[View]:
        """Return the pictures in memory that the table's input reads."""
        return self.source.memory()

    def placeholders(self, name: str) -> list[Tensor]:
        """Return the parameters of the table's input, then the table."""
        return [*self.source.placeholders(f"{name}_x"), self.lookup.placeholder(f"{name}_table")]

    def read(self, params: Iterator[Tensor], c: Expr, y: Expr, x: Expr, *, lanes: int) -> Expr:
        """Look an element up."""
        value = self.source.read(params, c, y, x, lanes=lanes)
        return self.lookup.apply(value, next(params), c)


@dataclass(frozen=True, slots=True)
class Picked:
    """Neighbouring channels of a picture in memory, from ``first`` on."""

    view: View
    first: int
    channels: int

    stem = "pick"

    def memory(self) -> list[View]:
        """Return the picture."""
        return [self.view]

    def placeholders(self, name: str) -> list[Tensor]:
        """Return the picture's parameter."""
        return [self.view.placeholder(name)]

    def read(self, params: Iterator[Tensor], c: Expr, y: Expr, x: Expr, *, lanes: int) -> Expr:
        """Load an element; padding reads as zero."""
        value = next(params)[self.view.layout.index(c + self.first, y, x)]
        if lanes > self.channels:
            return tirx.if_then_else(c < self.channels, value, tirx.const(0, self.view.dtype))
        return value
