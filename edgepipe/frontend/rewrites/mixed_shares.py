"""Write attention whose weights are a softmax mixed with constants as two products."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from edgepipe.frontend.onnx_graph import remove_unread, set_nodes
from edgepipe.frontend.rewrites.rewriting import Nodes, Rewriting

_Float = NDArray[np.float64]
_LEAST_RANK = 3
"""Axes of a stack of matrices."""

_SOFTMAX_OF_ONE_AXIS = 13
"""The opset since which a ``Softmax`` is over one axis; before, over that and all behind it."""

_ALMOST_EQUAL = 1e-6
"""Relative difference of factors that exporters' float32 makes of equal ones."""


def unmix_shares(model: onnx.ModelProto) -> None:
    """Multiply the shares of a softmax and the constants that they are mixed with on their own.

    before   m = Softmax(s) * const[h, 1, 1] + const[h, n, n]; MatMul(m / ReduceSum(m), v)
    after    MatMul(Softmax(s), v) * const[h, 1, 1] + MatMul(const[h, n, n], v)

    The sum of each row is constant, since shares add up to 1. So ConViT mixes what it sees with
    positions. In int8, a share of the mixture would mostly round to 0.
    """
    finder = _Mixtures(model)
    nodes: Nodes = []
    for node in model.graph.node:
        nodes += finder.product(node) or [node]
    if len(nodes) > len(model.graph.node):
        set_nodes(model.graph, nodes)
        remove_unread(model.graph)


@dataclass(frozen=True, slots=True)
class _Mixture:
    """``factor * softmax + constant``: the factor is the same for all of a row, [..., 1].

    ``softmax`` is empty for a constant.
    """

    softmax: str
    factor: _Float
    constant: _Float


class _Mixtures(Rewriting):
    """The graph, and which of its values are mixtures of the shares of a softmax."""

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__(model)
        self._found: dict[str, _Mixture | None] = {}
        for node in model.graph.node:
            self._note(node)

    def product(self, node: onnx.NodeProto) -> Nodes:
        """Return the nodes that compute the product of a mixture and a tensor, none for others."""
        mixture = self._mixture(node.input[0]) if node.op_type == "MatMul" else None
        if mixture is None or mixture.softmax in ("", node.input[0]):
            return []
        name, values = node.output[0], node.input[1]
        shape, of_values = self.shapes[mixture.softmax], self.shapes.get(values, ())
        is_of_stacks = len(shape) >= _LEAST_RANK and of_values[:-2] == shape[:-2]
        if not is_of_stacks or self.array(values) is not None:
            return []
        parts = [f"{name}/shares", f"{name}/scaled", f"{name}/fixed"]
        for made in parts:
            self.note_shape(made, (*shape[:-1], of_values[-1]))
        factor = self.constant(f"{name}/factor", _of_heads(mixture.factor, shape))
        if not mixture.constant.any():
            return [
                helper.make_node("MatMul", [mixture.softmax, values], [parts[0]]),
                helper.make_node("Mul", [parts[0], factor], [name]),
            ]
        fixed = np.broadcast_to(mixture.constant, shape)
        matrix = self.constant(f"{name}/constants", fixed)
        return [
            helper.make_node("MatMul", [mixture.softmax, values], [parts[0]]),
            helper.make_node("Mul", [parts[0], factor], [parts[1]]),
            helper.make_node("MatMul", [matrix, values], [parts[2]]),
            helper.make_node("Add", parts[1:], [name]),
        ]

    def _note(self, node: onnx.NodeProto) -> None:
        """Note what a node computes if it is a mixture of shares, or the constant sum of one."""
        rule = _RULES.get(node.op_type)
        is_known = node.op_type == "Softmax" or node.output[0] in self.shapes
        found = rule(self, node) if rule is not None and is_known else None
        if found is not None and np.isfinite(found.factor).all():
            self._found[node.output[0]] = found if np.isfinite(found.constant).all() else None

    def _mixture(self, value: str) -> _Mixture | None:
        array = self.array(value)
        if array is not None:
            return _Mixture("", np.zeros(()), array)
        return self._found.get(value)

    def _of_softmax(self, node: onnx.NodeProto) -> _Mixture | None:
        shape = self.shapes.get(node.input[0], ())
        rank = len(shape)
        default = 1 if self.opset < _SOFTMAX_OF_ONE_AXIS else -1
        axis = next((a.i for a in node.attribute if a.name == "axis"), default)
        if not rank or axis % rank != rank - 1:
            return None
        self.shapes[node.output[0]] = shape
        return _Mixture(node.output[0], np.ones((1,) * rank), np.zeros((1,) * rank))

    def _of_identity(self, node: onnx.NodeProto) -> _Mixture | None:
        return self._mixture(node.input[0])

    def _of_sum(self, node: onnx.NodeProto) -> _Mixture | None:
        first, second = (self._mixture(value) for value in node.input)
        if first is None or second is None or (first.softmax and second.softmax):
            return None
        if not self._is_kept(node, first.softmax or second.softmax):
            return None
        sign = -1.0 if node.op_type == "Sub" else 1.0
        factor = first.factor + sign * second.factor
        constant = first.constant + sign * second.constant
        return _Mixture(first.softmax or second.softmax, factor, constant)

    def _of_factor(self, node: onnx.NodeProto) -> _Mixture | None:
        first, second = (self._mixture(value) for value in node.input)
        if second is not None and second.softmax and node.op_type == "Mul":
            first, second = second, first
        if first is None or second is None or second.softmax:
            return None
        if not self._is_kept(node, first.softmax):
            return None
        by = second.constant
        if first.softmax and by.ndim and by.shape[-1] != 1:
            return None
        if node.op_type == "Div":
            with np.errstate(divide="ignore"):
                by = 1 / by
        with np.errstate(invalid="ignore"):
            return _Mixture(first.softmax, first.factor * by, first.constant * by)

    def _is_kept(self, node: onnx.NodeProto, softmax: str) -> bool:
        """Return whether a result has the shape of its softmax: nothing has been broadcast."""
        return not softmax or self.shapes[node.output[0]] == self.shapes[softmax]

    def _of_total(self, node: onnx.NodeProto) -> _Mixture | None:
        """Return the sum of each row, which is constant."""
        source, kept = self._mixture(node.input[0]), self.shapes[node.output[0]]
        if source is None or not source.softmax:
            return None
        shape = self.shapes[source.softmax]
        axes = next((list(a.ints) for a in node.attribute if a.name == "axes"), [])
        if len(node.input) > 1:
            given = self.array(node.input[1])
            axes = [] if given is None else [int(axis) for axis in given.reshape(-1)]
        if [axis % len(shape) for axis in axes] != [len(shape) - 1]:
            return None
        rows = np.broadcast_to(source.constant, shape).sum(-1, keepdims=True) + source.factor
        return _Mixture("", np.zeros(()), rows.reshape(kept)) if rows.size == prod(kept) else None

    def _of_reshape(self, node: onnx.NodeProto) -> _Mixture | None:
        """Return a sum whose axis comes back."""
        source, shape = self._mixture(node.input[0]), self.shapes[node.output[0]]
        if source is None or source.softmax or source.constant.size != prod(shape):
            return None
        return _Mixture("", source.factor, source.constant.reshape(shape))


def _of_heads(factor: _Float, shape: tuple[int, ...]) -> _Float:
    """Return one factor for each head if those of its rows are equal but for rounding."""
    whole = np.broadcast_to(factor, (*shape[:-1], 1))
    means = whole.mean(-2, keepdims=True)
    return means if np.allclose(whole, means, rtol=_ALMOST_EQUAL, atol=0) else whole


_RULES: Mapping[str, Callable[[_Mixtures, onnx.NodeProto], _Mixture | None]] = {
    **dict.fromkeys(("Add", "Sub"), _Mixtures._of_sum),
    **dict.fromkeys(("Div", "Mul"), _Mixtures._of_factor),
    "Identity": _Mixtures._of_identity,
    "ReduceSum": _Mixtures._of_total,
    **dict.fromkeys(("Reshape", "Squeeze", "Unsqueeze"), _Mixtures._of_reshape),
    "Softmax": _Mixtures._of_softmax,
}
"""Whether a value is a mixture, by the operator that computes it."""
