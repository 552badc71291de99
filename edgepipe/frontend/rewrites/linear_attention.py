"""Write linear attention of all spellings as one: values without ones, and a sum of the keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from edgepipe.frontend.onnx_graph import remove_unread, set_nodes
from edgepipe.frontend.rewrites.matrix_chains import Chains, Factor, both_ways
from edgepipe.frontend.rewrites.rewriting import Nodes

_SUM_WITH_INPUTS = 13
"""The opset since which a ``ReduceSum`` has its axes as an input, before other reductions."""


def plain_linear_attention(model: onnx.ModelProto) -> None:
    """Write means of values that are weighted by products of queries and keys in one form.

    before   x = MatMul(q, MatMul(k, Pad(v, a column of ones))); x[:, :-1] / (x[:, -1:] + const)
             MatMul(q, MatMul(k, v)) * Reciprocal(ReduceSum(q * ReduceSum(k)) + const)
    after    MatMul(q, MatMul(k, v)) / (MatMul(q, ReduceSum(k)) + const)

    The ones may also be joined to the values, the keys' mean may take the place of their sum, all
    matrices may be transposed, and constants may be multiplied. In int8, a column of ones would
    share the values' steps.
    """
    finder = _Finder(model)
    nodes: Nodes = []
    changed = False
    for node in model.graph.node:
        found = finder.quotient(node)
        nodes += [node] if found is None else finder.written(node.output[0], found)
        changed = changed or found is not None
    if changed:
        set_nodes(model.graph, nodes)
        remove_unread(model.graph)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attention:
    """``factor * query @ (key @ value) / (query @ sum(key) + epsilon)``, perhaps transposed."""

    query: Factor
    key: Factor
    value: Factor
    batch: tuple[int, ...]
    factor: float
    epsilon: float
    is_turned: bool


class _Finder(Chains):
    """Finds the quotients of two products of matrices that are linear attention."""

    def quotient(self, node: onnx.NodeProto) -> _Attention | None:
        """Return the linear attention that a node ends, if it ends one."""
        if node.op_type == "Div":
            totals = self.shapes.get(node.input[1], ())
            return self._divided(node.input[0], node.input[1], totals, 1.0)
        if node.op_type != "Mul":
            return None
        for value, other in both_ways(node):
            inverse = self.made(self._before_reshapes(other), "Div", "Reciprocal")
            if inverse is None:
                continue
            one = 1.0 if inverse.op_type == "Reciprocal" else self.number(inverse.input[0])
            if one is not None:
                totals = self.shapes.get(other, ())
                return self._divided(value, inverse.input[-1], totals, one)
        return None

    def _divided(
        self, sums: str, totals: str, shape: tuple[int, ...], factor: float
    ) -> _Attention | None:
        """Return the attention that divides ``sums`` by ``totals``, which become of ``shape``."""
        epsilon = 0.0
        added = self.made(self._before_reshapes(totals), "Add")
        for tensor, other in both_ways(added) if added is not None else ():
            constant = self.number(other)
            if constant is not None:
                totals, epsilon = tensor, constant
        above, below = self.chain(sums), self.chain(totals)
        if above is None or below is None or above.shape != self.shapes.get(sums):
            return None
        if below.shape != shape:
            below = below.turned()
        if below.shape != shape or above.batch != below.batch or not below.scale:
            return None
        if not len(above.factors) == len(below.factors) == 3 <= len(shape):
            return None
        is_turned = below.factors[0].is_ones
        if is_turned:
            above, below = above.turned(), below.turned()
        query, key, value = above.factors
        expected = (query, key, Factor.ones(key.columns, 1))
        tensors = not any(one.is_ones for one in above.factors)
        if below.factors != expected or not tensors:
            return None
        factor *= above.scale / below.scale
        epsilon /= below.scale
        if not factor or not np.isfinite([factor, epsilon]).all():
            return None
        return _Attention(
            query=query,
            key=key,
            value=value,
            batch=above.batch,
            factor=factor,
            epsilon=epsilon,
            is_turned=is_turned,
        )

    def _before_reshapes(self, value: str) -> str:
        """Return the value whose elements a value has in another shape."""
        node = self.made(value, "Reshape", "Squeeze", "Unsqueeze")
        while node is not None:
            value = node.input[0]
            node = self.made(value, "Reshape", "Squeeze", "Unsqueeze")
        return value

    def written(self, name: str, found: _Attention) -> Iterator[onnx.NodeProto]:
        """Yield the nodes that compute the value ``name``."""
        query, key, value = found.query, found.key, found.value
        names = []
        for what, factor in (("query", query), ("key", key), ("value", value)):
            made, moves = self.tensor(factor, f"{name}/{what}")
            names.append(made)
            yield from moves

        def shaped(part: str, rows: int, columns: int) -> str:
            self.note_shape(f"{name}/{part}", (*found.batch, rows, columns))
            return f"{name}/{part}"

        rows, depth, width = query.rows, key.rows, value.columns
        context = shaped("context", depth, width)
        yield helper.make_node("MatMul", names[1:], [context])
        sums = shaped("sums", rows, width)
        yield helper.make_node("MatMul", [names[0], context], [sums])
        if found.factor != 1:
            constant = self.constant(f"{name}/factor", np.array(found.factor))
            scaled = shaped("scaled", rows, width)
            yield helper.make_node("Mul", [sums, constant], [scaled])
            sums = scaled
        keys = shaped("keys", depth, 1)
        yield self._sum(names[1], keys)
        totals = shaped("totals", rows, 1)
        yield helper.make_node("MatMul", [names[0], keys], [totals])
        if found.epsilon:
            constant = self.constant(f"{name}/epsilon", np.array(found.epsilon))
            positive = shaped("positive", rows, 1)
            yield helper.make_node("Add", [totals, constant], [positive])
            totals = positive
        mean = shaped("mean", rows, width) if found.is_turned else name
        yield helper.make_node("Div", [sums, totals], [mean])
        if found.is_turned:
            rank = len(found.batch) + 2
            perm = [*range(rank - 2), rank - 1, rank - 2]
            yield helper.make_node("Transpose", [mean], [name], perm=perm)

    def _sum(self, source: str, name: str) -> onnx.NodeProto:
        """Return the sum of a matrix's columns, which stays one column."""
        axis = len(self.shapes[source]) - 1
        if self.opset >= _SUM_WITH_INPUTS:
            axes = self.integers(f"{name}/axes", [axis])
            return helper.make_node("ReduceSum", [source, axes], [name], keepdims=1)
        return helper.make_node("ReduceSum", [source], [name], axes=[axis], keepdims=1)
