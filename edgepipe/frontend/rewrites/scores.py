"""Write the scores of attention in the forms that have an integer form."""

from __future__ import annotations

import onnx
from onnx import helper

from edgepipe.frontend.onnx_graph import readers_of, set_nodes
from edgepipe.frontend.rewrites.rewriting import Nodes, Rewriting

_FACTORS = ("Div", "Mul")
_MOVES = frozenset(["Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze"])
_ADDS_AN_AXIS = frozenset(["Reshape", "Unsqueeze"])


def plain_scores(model: onnx.ModelProto) -> None:
    """Rewrite factors of heads, factors before moves, and weights that become a column.

    before   MatMul(q, k) * t[h, 1, 1] -> Softmax;            v @ Unsqueeze(Softmax(s), -1)
    after    MatMul(q * t[h, 1, 1], k) -> Softmax;            v @ Transpose(Softmax(Reshape(s)))

    before   MatMul(Transpose(q * 0.25), k)
    after    MatMul(Transpose(q) * 0.25, k)

    The factor is the temperature of each head (XCiT, EdgeNeXt, Swin v2, which adds biases before
    the softmax); the column weighs all pixels (GCNet). A single factor belongs to the product
    (EfficientViT of cascaded groups).
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
        self._unscaled: dict[str, str] = {}
        self._late: dict[str, onnx.NodeProto] = {}
        for node in model.graph.node:
            self._find_factor(node)
            self._find_single_factor(node)

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
        if name in self._unscaled:
            return []
        if node.op_type in _MOVES and node.input[0] in self._unscaled:
            return self._moved(node)
        return self._column(node) or [node]

    def _find_single_factor(self, node: onnx.NodeProto) -> None:
        """Note a factor of what is no picture, if a product reads it behind moves alone."""
        shape = self.shapes.get(node.output[0], ())
        if node.op_type not in _FACTORS or not shape or (len(shape) == 4 and shape[0] == 1):
            return
        tensors = [value for value in node.input if self.array(value) is None]
        factors = [self.array(value) for value in node.input if value not in tensors]
        if len(tensors) != 1 or len(factors) != 1 or self.shapes.get(tensors[0]) != shape:
            return
        is_single = factors[0] is not None and factors[0].size == 1
        if not is_single or (node.op_type == "Div" and node.input[0] != tensors[0]):
            return
        last = self._before_product(node.output[0])
        if last != node.output[0] and last:
            self._unscaled[node.output[0]] = tensors[0]
            self._late[last] = node

    def _before_product(self, value: str) -> str:
        """Return what a product of two tensors reads of a value that only moves read."""
        readers = self._readers.get(value, [])
        if len(readers) != 1 or value in self._outputs:
            return ""
        (reader,) = readers
        if reader.op_type in _MOVES and reader.input[0] == value:
            return self._before_product(reader.output[0])
        is_product = reader.op_type == "MatMul" and len({*reader.input}) == 2
        computed = all(self.array(read) is None for read in reader.input)
        return value if is_product and computed else ""

    def _moved(self, node: onnx.NodeProto) -> Nodes:
        """Return a move of what has not been multiplied yet, and the factor if it is the last."""
        name = node.output[0]
        copy = onnx.NodeProto.FromString(node.SerializeToString())
        copy.input[0] = self._unscaled[node.input[0]]
        copy.output[0] = f"{name}/unscaled"
        self.note_shape(copy.output[0], self.shapes[name])
        if name not in self._late:
            self._unscaled[name] = copy.output[0]
            return [copy]
        scaled = onnx.NodeProto.FromString(self._late[name].SerializeToString())
        scaled.input[:] = [
            copy.output[0] if self.array(value) is None else value for value in scaled.input
        ]
        scaled.output[0] = name
        return [copy, scaled]

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
