"""Chains of operators that compute elements from those at their place, as parts of one kernel.

A sum, product, quotient, table or pick that only one such operator reads has no kernel of its own:
the reader's kernel computes it on the way, and a table may be the end of the kernel before it. So a
chain is one pass over memory.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from edgepipe.codegen.arm.epilogue import Tail, padded, tail_constants
from edgepipe.codegen.arm.layouts import View
from edgepipe.codegen.arm.lookup import Lookup, table_constant
from edgepipe.codegen.arm.plan import Operand
from edgepipe.codegen.arm.pointwise import (
    Added,
    Divided,
    Multiplied,
    PixelScaled,
    Size,
    factor_constant,
    inverse_constant,
    pixel_constant,
)
from edgepipe.codegen.arm.sources import InMemory, LookedUp, Picked, Source
from edgepipe.partition.operator import Operator
from vta_stages.layers import records
from vta_stages.layers.inputs import layer_inputs

Elementwise = records.Sum | records.Product | records.Quotient | records.PixelAffine
Accumulating = records.Conv | records.TransposedConv | Elementwise
Pointwise = Elementwise | records.Table

MOST_INSIDE = 8
"""The most operators that a kernel computes on the way to one of its inputs.

More would gain little, and a compiler's time grows much faster than the length of an expression:
a chain of 45 sums and products takes 11 s, one of 60 more than 100 s (2026-11, x86-64).
"""


def _size(spec: records.TensorSpec) -> Size:
    return spec.channels, spec.height, spec.width


def _extents(constants: records.Int32Array) -> Size:
    """Return (channels, height, width) of int32[1, channels, height, width]."""
    _, channels, height, width = constants.shape
    return channels, height, width


def reads_aside(layer: records.Conv | records.TransposedConv, name: str) -> bool:
    """Return whether a convolution reads a tensor as a term or through a projection."""
    return name in _projected(layer) or any(term.tensor.name == name for term in layer.terms)


def _projected(layer: records.Layer) -> list[str]:
    """Return the tensors that a convolution reads through projections."""
    return [p.tensor.name for p in layer.projections] if isinstance(layer, records.Conv) else []


@dataclass(slots=True, kw_only=True)
class Chains:
    """Which operators of a stage kernels compute on the way, and the parts of kernels for them.

    ``outputs`` are the stage's, ``generic`` the operators that TVM lowers or users' functions
    compute. ``picture`` returns a tensor's place in memory, ``constant`` the operand of an array.
    ``inside`` are the layers that their only reader computes, by tensor, and ``ended`` the tables
    that end the kernel before them.
    """

    operators: Sequence[Operator]
    outputs: Container[str]
    generic: Container[str]
    picture: Callable[[str], tuple[Operand, View]]
    constant: Callable[[NDArray[Any]], Operand]
    inside: dict[str, records.Layer] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)

    def takes(self, layer: Pointwise | records.Pick) -> bool:
        """Return whether ``layer`` needs no kernel, since another one computes it."""
        if layer.name in self.ended:
            return True
        made, table = self.made(layer)
        if not self._is_inside(made) or self._count(layer) > MOST_INSIDE:
            return False
        if isinstance(layer, records.Pick) and not self._is_aligned(layer):
            return False
        self.inside[made.name] = layer
        if table:
            self.ended.add(table.name)
        return True

    def made(self, layer: records.Layer) -> tuple[records.TensorSpec, records.Table | None]:
        """Return what the part for ``layer`` computes, and the table that it ends with, if any."""
        ends = isinstance(layer, records.Table | records.Pick)
        table = None if ends else self.table_after(layer.output.name)
        return (table.output if table else layer.output), table

    def tail(self, layer: Accumulating, view: View) -> tuple[Tail, list[Operand]]:
        """Return a layer's tail with its arguments: the table that alone reads it is its end."""
        terms, args = [], []
        for term in () if isinstance(layer, records.PixelAffine) else layer.terms:
            source, operands = self._source_of(term.tensor.name, view)
            terms.append(source)
            args += [*operands, self.constant(padded(term.factor, view.lanes))]
        table = self.table_after(layer.output.name)
        if table:
            self.ended.add(table.name)
        args += map(self.constant, tail_constants(layer.epilogue, view.lanes, table))
        return Tail.of(layer.epilogue, tuple(terms), view, table), args

    def table_after(self, name: str) -> records.Table | None:
        """Return the table that alone reads a tensor inside the stage, if there is one."""
        readers = [o for o in self.operators if name in o.inputs]
        if len(readers) != 1 or name in self.outputs or readers[0].name in self.generic:
            return None
        layer = readers[0].layer
        return layer if isinstance(layer, records.Table) else None

    def _is_inside(self, spec: records.TensorSpec) -> bool:
        """Return whether the only reader of a picture computes it on the way, element by element.

        A reader with a leaky ReLU uses its sum several times, and would repeat the computation.
        """
        readers = [o for o in self.operators if spec.name in o.inputs]
        if len(readers) != 1 or spec.name in self.outputs or readers[0].name in self.generic:
            return False
        layer = readers[0].layer
        if isinstance(layer, records.Table):
            return True
        if not isinstance(layer, Accumulating) or layer.epilogue.leaky is not None:
            return False
        tensors = layer_inputs(layer)
        convolved = _projected(layer)
        if isinstance(layer, records.Conv | records.TransposedConv):
            convolved.append(layer.input.name)
        if spec.name in convolved:  # each of its elements is read by many others
            return False
        sizes = {(t.channels, t.height, t.width) for t in tensors if t.name == spec.name}
        out = layer.output
        return (
            sizes == {(out.channels, out.height, out.width)}
            and sum(t.name == spec.name for t in tensors) == 1
        )

    def _count(self, layer: records.Layer) -> int:
        """Return how many operators a kernel computes for a layer and what it reads."""
        reads = next(o.inputs for o in self.operators if o.layer is layer)
        inside = [self.inside[name] for name in dict.fromkeys(reads) if name in self.inside]
        return 1 + sum(map(self._count, inside))

    def _source_of(self, name: str, view: View) -> tuple[Source, list[Operand]]:
        """Return what a kernel that writes ``view`` reads a picture from, and its arguments."""
        if name in self.inside:
            return self.computed(self.inside[name], view)
        operand, found = self.picture(name)
        return InMemory(found), [operand]

    def computed(self, layer: records.Layer, view: View) -> tuple[Source, list[Operand]]:
        """Return a layer as a part of a kernel that writes ``view``."""
        if isinstance(layer, records.Table):
            source, args = self._source_of(layer.input.name, view)
            table = self.constant(table_constant(layer, view.lanes))
            return LookedUp(source, Lookup.of(layer, view)), [*args, table]
        if isinstance(layer, records.Sum):
            tail, args = self.tail(layer, view)
            return Added(tail), args
        if isinstance(layer, records.PixelAffine):
            return self._affine(layer, view)
        if isinstance(layer, records.Pick):
            operand, found = self.picture(layer.input.name)
            return Picked(found, layer.channels[0], len(layer.channels)), [operand]
        assert isinstance(layer, records.Product | records.Quotient)
        return self._of_two(layer, view)

    def _of_two(
        self, layer: records.Product | records.Quotient, view: View
    ) -> tuple[Source, list[Operand]]:
        """Return a product or quotient as a part of a kernel that writes ``view``."""
        first, second = (self._source_of(t.name, view) for t in (layer.first, layer.second))
        sizes = (_size(layer.first), _size(layer.second))
        tail, args = self.tail(layer, view)
        found: Source
        if isinstance(layer, records.Product):
            constant = factor_constant(layer.factor, view.lanes)
            found = Multiplied(
                first=first[0],
                second=second[0],
                sizes=sizes,
                tail=tail,
                factor_dtype=str(constant.dtype),
            )
        else:
            constant = inverse_constant(layer.table, view.lanes)
            found = Divided(
                first=first[0],
                second=second[0],
                sizes=sizes,
                is_by_channel=layer.table.shape[0] > 1,
                tail=tail,
            )
        return found, [*first[1], *second[1], self.constant(constant), *args]

    def _affine(self, layer: records.PixelAffine, view: View) -> tuple[Source, list[Operand]]:
        """Return constants for each pixel as a part of a kernel that writes ``view``."""
        source, operands = self._source_of(layer.input.name, view)
        tail, args = self.tail(layer, view)
        found = PixelScaled(
            source=source,
            size=_size(layer.input),
            factor=_extents(layer.factor),
            bias=_extents(layer.bias),
            tail=tail,
        )
        constants = [pixel_constant(values, view.lanes) for values in (layer.factor, layer.bias)]
        return found, [*operands, *map(self.constant, constants), *args]

    def _is_aligned(self, layer: records.Pick) -> bool:
        """Return whether a pick's channels are neighbours that begin at a whole vector.

        Its padding lanes are then inside the picture, too.
        """
        first = layer.channels[0]
        _, view = self.picture(layer.input.name)
        are_neighbours = layer.channels == tuple(range(first, first + len(layer.channels)))
        return view.is_vectorisable and are_neighbours and first % view.vector == 0
