"""Write scores with positions that depend on the queries as one product of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from edgepipe.frontend.onnx_graph import remove_unread, set_nodes
from edgepipe.frontend.rewrites.composed_moves import Axes, axes_of
from edgepipe.frontend.rewrites.moved_elements import MovedElements
from edgepipe.frontend.rewrites.rewriting import Nodes, Rewriting

_MOST_TERMS = 16
"""Of a sum of scores: attention with positions has two or three."""

_UNIT = 4.0
"""About as large as elements of keys, with which the constants share a step in int8.

Keys of a normalisation reach about 4, others 10 or more. In two blocks with random weights, the
results correlate with float by 0.9979 and 0.9985 for 1, 0.9984 and 0.9989 for 4, and 0.9981 and
0.9988 for 8 (tests/attention_blocks.py, ``positions_of_queries`` and ``assigned_scores``).
"""

_LEAST_RANK = 3
"""Axes of a stack of matrices."""


def join_position_scores(model: onnx.ModelProto) -> None:
    """Make what queries say of rows and columns of the keys further elements of the queries.

    before   Softmax(MatMul(q [n, d], k [d, h * w]) + rows [n, h, 1] + columns [n, 1, w])
    after    Softmax(MatMul(q | rows | columns, k | const of 0 and 1))

    ``|`` joins. Rows and columns are products of the queries and constants (MViT, SAM, ViTDet). The
    scores are then those of one product, which attention never rounds. In place of 1 the constants
    are ``_UNIT``, and the rows and columns are divided by it.
    """
    finder = _Scores(model)
    nodes: Nodes = []
    changed = False
    for node in model.graph.node:
        found = finder.found(node)
        nodes += [node] if found is None else finder.written(node, found)
        changed = changed or found is not None
    if changed:
        set_nodes(model.graph, nodes)
        remove_unread(model.graph)


@dataclass(frozen=True, slots=True)
class _Term:
    """A tensor that is added to scores: its own shape, and that to which it is repeated."""

    tensor: str
    shape: tuple[int, ...]
    repeated: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Position:
    """A tensor that is [.., n, r] if its axes are moved, and ``places`` [r, m] that repeat it."""

    tensor: str
    axes: Axes | None
    places: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Sum:
    """``factor * query @ key``, and the positions and constants that are added."""

    query: str
    key: str
    factor: float
    positions: tuple[_Position, ...]
    constants: tuple[_Term, ...]


class _Scores(MovedElements):
    """The graph with its scores of attention."""

    def found(self, node: onnx.NodeProto) -> _Sum | None:
        """Return the scores that a softmax over rows reads, if positions are among them."""
        if node.op_type != "Softmax":
            return None
        shape = self.shapes.get(node.input[0], ())
        axis = next((a.i for a in node.attribute if a.name == "axis"), -1)
        if len(shape) < _LEAST_RANK:
            return None
        if axis % len(shape) != len(shape) - 1:
            return None
        terms = self._terms(node.input[0], shape)
        if terms is None or not 1 < len(terms) <= _MOST_TERMS:
            return None
        product: tuple[str, str, float] | None = None
        positions: list[_Position] = []
        constants: list[_Term] = []
        for term in terms:
            scores = self._product(term.tensor, shape)
            if self.array(term.tensor) is not None:
                constants.append(term)
            elif scores is not None and product is None:
                product = scores
            else:
                position = self._position(term, shape[-1])
                if position is None:
                    return None
                positions.append(position)
        if product is None or not positions:
            return None
        query, key, factor = product
        return _Sum(query, key, factor, tuple(positions), tuple(constants))

    def written(self, node: onnx.NodeProto, found: _Sum) -> Nodes:
        """Return the nodes that compute a softmax of the scores that were found."""
        shape = self.shapes[node.input[0]]
        made = _Product(self, node.output[0], shape)
        queries = [made.scaled(found.query, found.factor, self.shapes[found.query])]
        keys: list[str | NDArray[np.float64]] = [found.key]
        for position in found.positions:
            size = (*shape[:-1], position.places.shape[0])
            moved = made.moved(position.tensor, position.axes)
            queries.append(made.scaled(made.reshaped(moved, size), 1 / _UNIT, size))
            stack = (*shape[:-2], *position.places.shape)
            keys.append(np.broadcast_to(position.places * _UNIT, stack))
        scores = made.scores(queries, keys)
        for term in found.constants:
            values = self.array(term.tensor)
            assert values is not None, "constants were found as such"
            scores = made.biased(scores, np.broadcast_to(values, term.repeated).reshape(shape))
        softmax = onnx.NodeProto.FromString(node.SerializeToString())
        softmax.input[0] = scores
        return [*made.nodes, softmax]

    def _terms(self, value: str, repeated: tuple[int, ...]) -> list[_Term] | None:
        """Return the tensors whose sum a value is that has the shape ``repeated``."""
        shape = self.shapes.get(value)
        array = self.array(value)
        if array is not None:
            return [_Term(value, array.shape, repeated)]
        if shape is None:
            return None
        node = self.makers.get(value)
        if node is None or not self.is_inner(value) or shape != repeated:
            return [_Term(value, shape, repeated)]
        if node.op_type == "Identity":
            return self._terms(node.input[0], repeated)
        if node.op_type in ("Expand", "Reshape"):
            before = self.shapes.get(node.input[0])
            if before is None or math.prod(before) != math.prod(shape):
                return [_Term(value, shape, repeated)]
            return self._terms(node.input[0], before)
        if node.op_type != "Add" or node.input[0] == node.input[1]:
            return [_Term(value, shape, repeated)]
        found = [self._terms(operand, shape) for operand in node.input]
        return None if None in found else [term for terms in found for term in terms or []]

    def _position(self, term: _Term, keys: int) -> _Position | None:
        """Return a term as what it repeats, None if it has an element for each query and key."""
        places = _places(term, keys)
        if places is not None:
            return _Position(term.tensor, None, places)
        source, moves = self.before_moves(term.tensor)
        elements = self.elements(source, moves) if moves and term.shape == term.repeated else None
        if elements is None or elements.size % keys or elements.min() < 0:
            return None
        rows = elements.reshape(-1, keys)
        if 2 * len(np.unique(rows[0])) > keys:
            return None
        _, first, column = np.unique(rows, axis=1, return_index=True, return_inverse=True)
        order = np.argsort(first)
        axes = axes_of(rows[:, first[order]], math.prod(self.shapes[source]))
        if axes is None or 2 * len(first) > keys:
            return None
        return _Position(source, axes, np.eye(len(first))[:, np.argsort(order)[column.reshape(-1)]])

    def _product(self, value: str, shape: tuple[int, ...]) -> tuple[str, str, float] | None:
        """Return the matrices and the factor of scores, None if a value is no scaled product."""
        factor = 1.0
        node = self.makers.get(value)
        while node is not None and node.op_type in ("Div", "Mul"):
            tensors = [read for read in node.input if self.array(read) is None]
            numbers = [self.array(read) for read in node.input if read not in tensors]
            if len(tensors) != 1 or len(numbers) != 1 or tensors[0] != node.input[0]:
                return None
            (number,) = numbers
            if number is None or number.size != 1 or not number.all():
                return None
            by = float(number.flat[0])
            factor *= by if node.op_type == "Mul" else 1 / by
            node = self.makers.get(tensors[0])
        if node is None or node.op_type != "MatMul":
            return None
        query, key = node.input
        known = [self.shapes.get(read, ()) for read in (query, key)]
        is_of_stacks = all(size[:-2] == shape[:-2] for size in known)
        is_computed = all(self.array(read) is None for read in (query, key))
        if self.shapes.get(node.output[0]) != shape or not (is_of_stacks and is_computed):
            return None
        return (query, key, factor) if math.isfinite(factor) else None


class _Product:
    """The nodes of a product of queries [.., n, d] and keys [.., d, m] that are joined from parts.

    The parts are channels while they are joined, so that they are pictures.
    """

    def __init__(self, graph: Rewriting, name: str, shape: tuple[int, ...]) -> None:
        self.nodes: Nodes = []
        self._graph = graph
        self._name = name
        self._shape = shape
        self._stack = (1, math.prod(shape[:-2]))

    def scaled(self, tensor: str, by: float, shape: tuple[int, ...]) -> str:
        """Multiply a tensor by a number."""
        if by == 1:
            return tensor
        return self._add("Mul", [tensor, self._constant(np.array(by))], shape)

    def reshaped(self, tensor: str, shape: tuple[int, ...]) -> str:
        """Return a tensor's values in another shape."""
        sizes = self._graph.integers(f"{self._name}/shape{len(self.nodes)}", shape)
        return self._add("Reshape", [tensor, sizes], shape)

    def moved(self, tensor: str, axes: Axes | None) -> str:
        """Return a tensor whose axes are moved."""
        if axes is None:
            return tensor
        shape = tuple(axes.sizes[axis] for axis in axes.perm)
        return self._add("Transpose", [self.reshaped(tensor, axes.sizes)], shape, perm=axes.perm)

    def biased(self, scores: str, values: NDArray[np.float64]) -> str:
        """Add constants to scores."""
        return self._add("Add", [scores, self._constant(values)], self._shape)

    def scores(self, queries: Sequence[str], keys: Sequence[str | NDArray[np.float64]]) -> str:
        """Return the product of joined queries and joined keys."""
        parts = [self._joined(queries, axis=3), self._joined(keys, axis=2)]
        return self._add("MatMul", parts, self._shape)

    def _joined(self, parts: Sequence[str | NDArray[np.float64]], *, axis: int) -> str:
        """Join matrices of a stack along their rows (2) or columns (3)."""
        perm = [0, axis, 1, 5 - axis]
        pictures, channels = [], 0
        for part in parts:
            own = self._graph.shapes[part] if isinstance(part, str) else part.shape
            whole = (*self._stack, *own[-2:])
            shape = tuple(whole[i] for i in perm)
            channels += shape[1]
            if isinstance(part, str):
                moved = self._add("Transpose", [self.reshaped(part, whole)], shape, perm=perm)
            else:
                moved = self._constant(part.reshape(whole).transpose(perm))
            pictures.append(moved)
        joined = self._add("Concat", pictures, (1, channels, *shape[2:]), axis=1)
        back = [perm.index(i) for i in range(4)]
        whole = tuple((1, channels, *shape[2:])[i] for i in back)
        matrices = self._add("Transpose", [joined], whole, perm=back)
        return self.reshaped(matrices, (*self._shape[:-2], *whole[2:]))

    def _constant(self, values: NDArray[np.float64]) -> str:
        return self._graph.constant(f"{self._name}/constant{len(self.nodes)}", values)

    def _add(self, kind: str, inputs: list[str], shape: tuple[int, ...], **more: object) -> str:
        made = f"{self._name}/scores{len(self.nodes)}"
        self._graph.note_shape(made, shape)
        self._graph.shapes[made] = shape
        self.nodes.append(helper.make_node(kind, inputs, [made], **more))
        return made


def _places(term: _Term, keys: int) -> NDArray[np.float64] | None:
    """Return the matrix of 0 and 1 [r, keys] that repeats a tensor for each key that it is for.

    None if it has an element for each key, or if it is repeated for queries.
    """
    own = (1,) * (len(term.repeated) - len(term.shape)) + term.shape
    split = next(
        (i for i in range(len(own) + 1) if math.prod(term.repeated[i:]) == keys), len(own) + 1
    )
    if split >= len(own) or own[:split] != term.repeated[:split]:
        return None
    count = math.prod(own[split:])
    if 2 * count > keys:
        return None
    indices = np.broadcast_to(np.arange(count).reshape(own[split:]), term.repeated[split:])
    places: NDArray[np.float64] = np.eye(count)[:, indices.reshape(-1)]
    return places
