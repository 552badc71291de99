"""Write the scores of attention in the forms that have an integer form."""

from __future__ import annotations

import onnx
from onnx import helper

from edgepipe.frontend.onnx_graph import readers_of, set_nodes
from edgepipe.frontend.rewrites.rewriting import Nodes, Rewriting

_ADDS_AN_AXIS = frozenset(["Reshape", "Unsqueeze"])


def plain_scores(model: onnx.ModelProto) -> None:
    """Rewrite factors of heads, and weights that become a column.

    before   MatMul(q, k) * t[h, 1, 1] -> Softmax;            v @ Unsqueeze(Softmax(s), -1)
    after    MatMul(q * t[h, 1, 1], k) -> Softmax;            v @ Transpose(Softmax(Reshape(s)))

    The factor is the temperature of each head (XCiT, EdgeNeXt, Swin v2, which adds biases before
    the softmax); the column weighs all pixels (GCNet).
    """
    rewriting = _Scores(model)
    set_nodes(model.graph, [made for node in model.graph.node for made in rewriting.of(node)])


class _Scores(Rewriting):
    """The graph, and who reads its values."""

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__(model)
        self._readers = readers_of(model.graph)
        self._outputs = {output.name for output in model.graph.output}
        self._scaled: dict[str, tuple[str, str]] = {}
        for node in model.graph.node:
            self._find_factor(node)

    def of(self, node: onnx.NodeProto) -> Nodes:
        """Return the nodes that compute what ``node`` computes."""
        name = node.output[0]
        if name in self._scaled:
            product, factor = self._scaled[name]
            query, key = self.makers[product].input
            scaled = f"{name}/query"
            self.note_shape(scaled, self.shapes[query])
            return [
                helper.make_node("Mul", [query, factor], [scaled]),
                helper.make_node("MatMul", [scaled, key], [name]),
            ]
        return self._column(node) or [node]

    def _find_factor(self, node: onnx.NodeProto) -> None:
        """Note a product of two tensors that a factor for each head is multiplied with."""
        if node.op_type != "Mul" or not self._is_score(node.output[0]):
            return
        tensors = [value for value in node.input if self.array(value) is None]
        if len(tensors) != 1:
            return
        factor = next(value for value in node.input if value not in tensors)
        values, product = self.array(factor), self.makers.get(tensors[0])
        if product is None or product.op_type != "MatMul" or values is None or values.ndim < 2:
            return
        is_of_heads = values.size > 1 and values.shape[-2:] == (1, 1)
        computed = all(self.array(value) is None for value in product.input)
        known = self.shapes.get(product.input[0], ())
        if not is_of_heads or not computed or len(known) < values.ndim:
            return
        if self._all_are(tensors[0], "Mul") and len(self._readers[tensors[0]]) == 1:
            self._scaled[node.output[0]] = (tensors[0], factor)

    def _is_score(self, value: str) -> bool:
        """Return whether a softmax alone reads a value, or what constants are added to."""
        while self._all_are(value, "Add") and len(self._readers[value]) == 1:
            added = self._readers[value][0]
            if all(self.array(other) is None for other in added.input if other != value):
                return False
            value = added.output[0]
        return self._all_are(value, "Softmax")

    def _all_are(self, value: str, kind: str) -> bool:
        """Return whether nodes of one kind alone read a value."""
        readers = self._readers.get(value, [])
        return (
            bool(readers) and value not in self._outputs and all(r.op_type == kind for r in readers)
        )

    def _column(self, node: onnx.NodeProto) -> Nodes:
        """Return the nodes that make a column of weights, none if it is not one."""
        softmax = self.makers.get(node.input[0]) if node.op_type in _ADDS_AN_AXIS else None
        if softmax is None or softmax.op_type != "Softmax":
            return []
        made, before = self.shapes.get(node.output[0], ()), self.shapes.get(node.input[0], ())
        count = before[-1] if before else 0
        axis = next((a.i for a in softmax.attribute if a.name == "axis"), -1)
        is_column = (
            len(made) > 2 and made[-2:] == (count, 1) and made[:-2] == (1,) * (len(made) - 2)
        )
        is_row = (
            before == (1,) * (len(before) - 1) + (count,) and axis % len(before) == len(before) - 1
        )
        if not is_column or not is_row or not self._all_are(node.output[0], "MatMul"):
            return []
        name, row = node.output[0], (*made[:-2], 1, count)
        axes = [*range(len(made) - 2), len(made) - 1, len(made) - 2]
        for value in (f"{name}/scores", f"{name}/weights"):
            self.note_shape(value, row)
        shape = self.integers(f"{name}/row", row)
        return [
            helper.make_node("Reshape", [softmax.input[0], shape], [f"{name}/scores"]),
            helper.make_node("Softmax", [f"{name}/scores"], [f"{name}/weights"], axis=len(row) - 1),
            helper.make_node("Transpose", [f"{name}/weights"], [name], perm=axes),
        ]
