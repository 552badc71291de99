"""Products of several matrices, as exporters write them with transpositions, parts and sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import helper

from edgepipe.frontend.onnx_graph import text_of
from edgepipe.frontend.rewrites.rewriting import Nodes, Rewriting

_MOST_FACTORS = 8
"""Of a product that is followed: what multiplies a matrix with itself again and again has more."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A matrix [..., rows, columns] of a product: a tensor whose axes ``perm`` moves, or ones.

    ``tensor`` is empty for ones.
    """

    tensor: str
    perm: tuple[int, ...]
    rows: int
    columns: int

    @staticmethod
    def ones(rows: int, columns: int) -> Factor:
        """Return a matrix of ones."""
        return Factor("", (), rows, columns)

    @property
    def is_ones(self) -> bool:
        """Return whether all elements are 1."""
        return not self.tensor

    def turned(self) -> Factor:
        """Return the transposed matrix."""
        perm = (*self.perm[:-2], *reversed(self.perm[-2:]))
        return Factor(self.tensor, perm, self.columns, self.rows)


def both_ways(node: onnx.NodeProto) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return the two inputs of a node in both orders."""
    first, second = node.input
    return (first, second), (second, first)


@dataclass(frozen=True, slots=True)
class Chain:
    """``scale`` times the product of ``factors``, for each index of the axes ``batch``."""

    factors: tuple[Factor, ...]
    batch: tuple[int, ...]
    scale: float = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the product."""
        return (*self.batch, self.factors[0].rows, self.factors[-1].columns)

    def turned(self) -> Chain:
        """Return the product with its last two axes exchanged."""
        return replace(self, factors=tuple(f.turned() for f in reversed(self.factors)))


class Chains(Rewriting):
    """The graph, and of which products its values consist."""

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__(model)
        self._chains: dict[str, Chain | None] = {}
        self._turned: dict[tuple[str, tuple[int, ...]], str] = {}

    def made(self, value: str, *kinds: str) -> onnx.NodeProto | None:
        """Return the node that computes a value if it is one of ``kinds``."""
        node = self.makers.get(value)
        while node is not None and node.op_type == "Identity":
            node = self.makers.get(node.input[0])
        return node if node is not None and node.op_type in kinds else None

    def number(self, value: str) -> float | None:
        """Return a constant of one element."""
        array = self.array(value)
        return float(array.flat[0]) if array is not None and array.size == 1 else None

    def tensor(self, factor: Factor, name: str) -> tuple[str, Nodes]:
        """Return the tensor that a factor is, and the nodes that make it, called ``name``."""
        if factor.perm == tuple(range(len(factor.perm))):
            return factor.tensor, []
        key = (factor.tensor, factor.perm)
        if key in self._turned:
            return self._turned[key], []
        self._turned[key] = name
        shape = self.shapes[factor.tensor]
        made = tuple(shape[axis] for axis in factor.perm)
        self.note_shape(name, made)
        self.shapes[name] = made
        return name, [helper.make_node("Transpose", [factor.tensor], [name], perm=factor.perm)]

    def chain(self, value: str) -> Chain | None:
        """Return the product that a value is: it alone, if it is no product. None for a vector.

        The result of a reduction that drops its axis is as if it kept it.
        """
        if value not in self._chains:
            self._chains[value] = self._leaf(value)
            node = self.makers.get(value)
            rule = _RULES.get(node.op_type) if node is not None else None
            found = rule(self, node, value) if rule is not None and node is not None else None
            if found is not None:
                self._chains[value] = found
        return self._chains[value]

    def _leaf(self, value: str) -> Chain | None:
        """Return a value as a product of one matrix."""
        shape = self.shapes.get(value, ())
        if len(shape) < 2:
            return None
        array = self.array(value)
        factor = Factor(value, tuple(range(len(shape))), *shape[-2:])
        if array is not None and (array == 1).all():
            factor = Factor.ones(*shape[-2:])
        return Chain((factor,), shape[:-2])

    def _of_product(self, node: onnx.NodeProto, _: str) -> Chain | None:
        left, right = (self._whole(value) for value in node.input)
        if left is None or right is None or left.batch != right.batch:
            return None
        if len(left.factors) + len(right.factors) > _MOST_FACTORS:
            return None
        if any(self.array(f.tensor) is not None for f in (*left.factors, *right.factors)):
            return None  # a linear layer
        return Chain((*left.factors, *right.factors), left.batch, left.scale * right.scale)

    def _of_transposition(self, node: onnx.NodeProto, _: str) -> Chain | None:
        found = self._whole(node.input[0])
        perm = next((tuple(a.ints) for a in node.attribute if a.name == "perm"), ())
        if found is None or len(perm) != len(found.shape):
            return None
        rank = len(perm)
        if perm == (*range(rank - 2), rank - 1, rank - 2):
            return found.turned()
        return self._moved(found, perm)

    def _moved(self, chain: Chain, perm: Sequence[int]) -> Chain | None:
        """Return a product of one tensor whose axes are moved in any way."""
        first = chain.factors[0]
        if len(chain.factors) > 1 or first.is_ones:
            return None
        *batch, rows, columns = (chain.shape[axis] for axis in perm)
        moved = Factor(first.tensor, tuple(first.perm[axis] for axis in perm), rows, columns)
        return Chain((moved,), tuple(batch), chain.scale)

    def _of_number(self, node: onnx.NodeProto, value: str) -> Chain | None:
        for tensor, other in both_ways(node):
            number, found = self.number(other), self._whole(tensor)
            if number is None or found is None or found.shape != self.shapes.get(value):
                continue
            if node.op_type == "Mul":
                return replace(found, scale=found.scale * number)
            if tensor == node.input[0] and number:
                return replace(found, scale=found.scale / number)
        return None

    def _of_sum(self, node: onnx.NodeProto, _: str) -> Chain | None:
        source = node.input[0]
        rank = len(self.shapes.get(source, ()))
        axes = next((list(a.ints) for a in node.attribute if a.name == "axes"), [])
        if len(node.input) > 1:
            given = self.array(node.input[1])
            axes = [] if given is None else [int(axis) for axis in given.reshape(-1)]
        if len(axes) != 1 or rank < 2 or axes[0] % rank < rank - 2:
            return None
        is_of_rows = axes[0] % rank == rank - 1
        share = 1.0
        if node.op_type == "ReduceMean":
            share = 1 / self.shapes[source][axes[0]]
        found = self._weighed(source, is_of_rows=is_of_rows)
        if found is None:
            found = self._whole(source)
            if found is None:
                return None
            rows, columns = found.shape[-2:]
            factors = (
                (*found.factors, Factor.ones(columns, 1))
                if is_of_rows
                else (Factor.ones(1, rows), *found.factors)
            )
            found = replace(found, factors=factors)
        return replace(found, scale=found.scale * share)

    def _weighed(self, source: str, *, is_of_rows: bool) -> Chain | None:
        """Return the product of a matrix and a vector whose elements are multiplied, then added.

        before   ReduceSum(a [n, d] * b [1, d], axes=[-1])
        after    a @ transposed b
        """
        product = self.made(source, "Mul")
        if product is None:
            return None
        for tensor, vector in both_ways(product):
            found, weights = self._whole(tensor), self._whole(vector)
            if found is None or weights is None or found.batch != weights.batch:
                continue
            if found.shape != self.shapes.get(source):
                continue
            scale = found.scale * weights.scale
            wanted = (1, found.shape[-1]) if is_of_rows else (found.shape[-2], 1)
            if weights.shape[-2:] == wanted:
                parts = [found, weights.turned()] if is_of_rows else [weights.turned(), found]
                factors = tuple(factor for part in parts for factor in part.factors)
                return Chain(factors, found.batch, scale)
        return None

    def _of_reshape(self, node: onnx.NodeProto, value: str) -> Chain | None:
        """Return a vector that stays one: only axes of extent 1 come or go."""
        found, shape = self.chain(node.input[0]), self.shapes.get(value)
        if found is None or 1 not in found.shape[-2:] or shape is None:
            return None
        if shape in (found.shape, (*found.batch, max(found.shape[-2:]))):
            return found
        turned = found.turned()
        return turned if turned.shape == shape else None

    def _of_slice(self, node: onnx.NodeProto, _: str) -> Chain | None:
        given = [self.array(value) for value in node.input[1:]]
        if len(given) < 3 or any(array is None or array.size != 1 for array in given):
            return None
        begin, end, axis, *steps = (int(array.flat[0]) for array in given if array is not None)
        if steps not in ([], [1]):
            return None
        return self._part(node.input[0], axis, begin, end)

    def _of_split(self, node: onnx.NodeProto, value: str) -> Chain | None:
        axis = next((int(a.i) for a in node.attribute if a.name == "axis"), 0)
        begin = 0
        for output in node.output:
            shape = self.shapes.get(output, ())
            if not shape:
                return None
            end = begin + shape[axis]
            if output == value:
                return self._part(node.input[0], axis, begin, end)
            begin = end
        return None

    def _part(self, source: str, axis: int, begin: int, end: int) -> Chain | None:
        """Return a product whose first rows or last columns are cut."""
        found = self._whole(source)
        if found is None or axis % len(found.shape) < len(found.shape) - 2:
            return None
        is_of_columns = axis % len(found.shape) == len(found.shape) - 1
        taken = range(found.shape[axis])[begin:end]
        *others, last = found.factors if is_of_columns else reversed(found.factors)
        cut = self._cut(last, is_of_columns=is_of_columns, taken=taken) if taken else None
        if cut is None:
            return None
        factor, scale = cut
        factors = (*others, factor) if is_of_columns else (factor, *reversed(others))
        return Chain(factors, found.batch, found.scale * scale)

    def _cut(
        self, factor: Factor, *, is_of_columns: bool, taken: range
    ) -> tuple[Factor, float] | None:
        """Return some columns or rows of a matrix, and what they are scaled by.

        They are ones, or one of the tensors that are joined.
        """
        rows, columns = factor.rows, factor.columns
        rows, columns = (rows, len(taken)) if is_of_columns else (len(taken), columns)
        if factor.is_ones:
            return Factor.ones(rows, columns), 1.0
        begin = 0
        for tensor, extent in self._joined(factor.tensor, factor.perm[-1 if is_of_columns else -2]):
            end = begin + extent
            if not tensor and begin <= taken.start and taken.stop <= end:
                return Factor.ones(rows, columns), 1.0
            if tensor and (begin, end) == (taken.start, taken.stop):
                part = self._whole(tensor)
                moved = self._moved(part, factor.perm) if part is not None else None
                if moved is not None:
                    return moved.factors[0], moved.scale
                return Factor(tensor, factor.perm, rows, columns), 1.0
            begin = end
        return None

    def _joined(self, value: str, axis: int) -> list[tuple[str, int]]:
        """Return what is joined along an axis, and how much of it; ones have no name."""
        node = self.made(value, "Concat", "Pad")
        if node is None:
            return []
        rank = len(self.shapes[value])
        if node.op_type == "Concat":
            along = next(int(a.i) for a in node.attribute if a.name == "axis") % rank
            if along != axis or not all(self.shapes.get(part) for part in node.input):
                return []
            return [
                ("" if self._is_one(part) else part, self.shapes[part][axis]) for part in node.input
            ]
        given = [self.array(value) for value in node.input[1:] if value]
        if text_of(node, "mode", "constant") != "constant" or len(given) != 2:
            return []  # filled with 0, or only along some axes
        amounts, number = given
        if amounts is None or number is None or amounts.size != 2 * rank or (number != 1).any():
            return []
        before, behind = int(amounts[axis]), int(amounts[rank + axis])
        if np.count_nonzero(amounts) != sum(map(bool, (before, behind))) or amounts.min() < 0:
            return []
        inner = self.shapes.get(node.input[0], ())
        return [("", before), (node.input[0], inner[axis]), ("", behind)] if inner else []

    def _is_one(self, value: str) -> bool:
        array = self.array(value)
        return array is not None and bool((array == 1).all())

    def _whole(self, value: str) -> Chain | None:
        """Return the product that a value is, None for a vector that lost an axis."""
        found = self.chain(value)
        return found if found is not None and found.shape == self.shapes.get(value) else None


_RULES: Mapping[str, Callable[[Chains, onnx.NodeProto, str], Chain | None]] = {
    **dict.fromkeys(("Div", "Mul"), Chains._of_number),
    "Identity": lambda chains, node, _: chains.chain(node.input[0]),
    "MatMul": Chains._of_product,
    **dict.fromkeys(("ReduceMean", "ReduceSum"), Chains._of_sum),
    **dict.fromkeys(("Reshape", "Squeeze", "Unsqueeze"), Chains._of_reshape),
    "Slice": Chains._of_slice,
    "Split": Chains._of_split,
    "Transpose": Chains._of_transposition,
}
"""Which product a value is, by the operator that computes it."""
