"""Write a sum by subscripts (``Einsum``) as transposes and one product."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import helper

from edgepipe.frontend.onnx_graph import set_nodes
from edgepipe.frontend.rewrites.rewriting import Nodes, Rewriting

_TERM = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*")
_AXES_OF_DOTS = "0123456789"
"""Labels of the axes that an ellipsis stands for: no letters, so they are free."""

_MOST_OUTER = 2
"""The most axes of a stack of matrices: windows and heads. More are made one with the first."""


def plain_einsums(model: onnx.ModelProto) -> None:
    """Replace each ``Einsum`` of several tensors, and those of one tensor that only move axes.

    before   Einsum("bhqd,bhkd->bhqk", q, k)
    after    MatMul(q, Transpose(k))

    before   Einsum("bchw,bc->bchw", x, s)
    after    Mul(x, Reshape(s, [b, c, 1, 1]))

    before   Einsum("bnd,bde,bn->bne", q, k, s)
    after    Mul(MatMul(q, k), Reshape(s, [b, n, 1]))

    Several are multiplied one after the other. One whose equation sums over a label of one tensor
    alone, repeats a label within a tensor, or whose shapes are not known stays as it is.
    """
    rewriting = _Einsums(model)
    set_nodes(model.graph, [made for node in model.graph.node for made in rewriting.of(node)])


@dataclass(frozen=True, slots=True)
class _Equation:
    """The labels of each operand's axes and of the result's, and the extent of each label."""

    operands: tuple[str, ...]
    result: str
    extents: Mapping[str, int]

    def shape(self, labels: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.extents[label] for label in labels)


class _Einsums(Rewriting):
    """The graph with its sums by subscripts."""

    def of(self, node: onnx.NodeProto) -> Nodes:
        """Return the nodes that compute what ``node`` computes."""
        equation = self._equation(node) if node.op_type == "Einsum" else None
        if equation is None:
            return [node]
        name, result = node.output[0], equation.result
        if len(node.input) == 1:
            labels = equation.operands[0]
            if set(labels) != set(result):
                return [node]
            perm = [labels.index(label) for label in result]
            return [helper.make_node("Transpose", [node.input[0]], [name], perm=perm)]
        if len(node.input) > 2:
            return self._one_after_the_other(node, equation) or [node]
        return self._pair(node, equation) or [node]

    def _pair(self, node: onnx.NodeProto, equation: _Equation) -> Nodes | None:
        """Return the product of two tensors, None if a label of one alone is summed."""
        (left, right), result = equation.operands, equation.result
        summed = [label for label in left if label in right and label not in result]
        alone = (set(left) ^ set(right)) - set(result)
        if alone:
            return None
        return self._product(node, equation, summed) if summed else self._scaled(node, equation)

    def _equation(self, node: onnx.NodeProto) -> _Equation | None:
        """Return the equation of a node, None for one that stays."""
        found = next((a.s for a in node.attribute if a.name == "equation"), b"")
        text = found.decode("ascii", "replace").replace(" ", "")
        terms, arrow, result = text.partition("->")
        operands = terms.split(",")
        if len(operands) != len(node.input):
            return None
        if not all(_TERM.fullmatch(term) for term in (*operands, result)):
            return None
        shapes = [self._shape(value) for value in node.input]
        if not all(shapes):
            return None
        dots = 0
        for number, (term, shape) in enumerate(zip(operands, shapes, strict=True)):
            if "..." in term:
                count = len(shape) - len(term) + len("...")
                if not 0 <= count <= len(_AXES_OF_DOTS) or (number and dots != count and dots):
                    return None
                dots = count
        axes = _AXES_OF_DOTS[:dots]
        operands = [term.replace("...", axes) for term in operands]
        if not arrow:
            letters = "".join(operands)
            once = sorted(each for each in set(letters) - set(axes) if letters.count(each) == 1)
            result = "..." + "".join(once)
        result = result.replace("...", axes)
        return self._with_extents(operands, result, shapes)

    def _with_extents(
        self, operands: Sequence[str], result: str, shapes: Sequence[tuple[int, ...]]
    ) -> _Equation | None:
        extents: dict[str, int] = {}
        for labels, shape in zip(operands, shapes, strict=True):
            if len(labels) != len(shape) or len({*labels}) != len(labels):
                return None
            for label, extent in zip(labels, shape, strict=True):
                if extents.setdefault(label, extent) != extent:
                    return None
        if len({*result}) != len(result) or not {*result} <= extents.keys():
            return None
        return _Equation(tuple(operands), result, extents)

    def _shape(self, value: str) -> tuple[int, ...]:
        array = self.array(value)
        return tuple(self.shapes.get(value, ())) if array is None else array.shape

    def _one_after_the_other(self, node: onnx.NodeProto, equation: _Equation) -> Nodes | None:
        """Return the product of the first two tensors, and of that and the others.

        Labels that no other tensor and not the result has are summed at once.
        """
        name, (left, right, *others) = node.output[0], equation.operands
        needed = {*equation.result, *"".join(others)}
        both = dict.fromkeys((*equation.result, *left, *right))
        inner = "".join(label for label in both if label in needed and label in {*left, *right})
        first = _Equation((left, right), inner, equation.extents)
        rest = _Equation((inner, *others), equation.result, equation.extents)
        product = f"{name}/without{len(others)}"
        nodes = self._pair(helper.make_node("Einsum", node.input[:2], [product]), first)
        if nodes is None:
            return None
        self._note(product, first.shape(inner))
        following = helper.make_node("Einsum", [product, *node.input[2:]], [name])
        multiply = self._one_after_the_other if len(others) > 1 else self._pair
        found = multiply(following, rest)
        return None if found is None else [*nodes, *found]

    def _product(self, node: onnx.NodeProto, equation: _Equation, summed: Sequence[str]) -> Nodes:
        """Return a product of matrices for each combination of the labels that all have."""
        name, (left, right), result = node.output[0], equation.operands, equation.result
        batch = [label for label in result if label in left and label in right]
        rows = [label for label in result if label in left and label not in right]
        columns = [label for label in result if label in right and label not in left]
        outer = equation.shape(batch)
        if len(outer) > _MOST_OUTER:
            outer = (math.prod(outer[:-1]), outer[-1])
        height, depth, width = (
            math.prod(equation.shape(labels)) for labels in (rows, summed, columns)
        )
        nodes: Nodes = []
        factors = []
        for side, value, labels, wanted, matrix in (
            ("left", node.input[0], left, [*batch, *rows, *summed], (height, depth)),
            ("right", node.input[1], right, [*batch, *summed, *columns], (depth, width)),
        ):
            moved = self._moved(nodes, value, f"{name}/{side}", labels, wanted, equation)
            factors.append(self._reshaped(nodes, moved, f"{name}/{side}_matrix", (*outer, *matrix)))
        product = f"{name}/product"
        nodes.append(helper.make_node("MatMul", factors, [product]))
        self._note(product, (*outer, height, width))
        made = [*batch, *rows, *columns]
        shaped = self._reshaped(nodes, product, f"{name}/axes", equation.shape(made))
        self._moved(nodes, shaped, f"{name}/moved", "".join(made), [*result], equation)
        nodes[-1].output[0] = name
        return nodes

    def _scaled(self, node: onnx.NodeProto, equation: _Equation) -> Nodes:
        """Return a product of elements: nothing is summed."""
        name, result = node.output[0], equation.result
        nodes: Nodes = []
        factors = []
        for number, labels in enumerate(equation.operands):
            here = [label for label in result if label in labels]
            moved = self._moved(
                nodes, node.input[number], f"{name}/moved_{number}", labels, here, equation
            )
            shape = [equation.extents[label] if label in labels else 1 for label in result]
            factors.append(self._reshaped(nodes, moved, f"{name}/factor_{number}", shape))
        nodes.append(helper.make_node("Mul", factors, [name]))
        return nodes

    def _moved(
        self,
        nodes: Nodes,
        value: str,
        name: str,
        labels: str,
        wanted: Sequence[str],
        equation: _Equation,
    ) -> str:
        """Append a transpose to the labels that are wanted, if it is not the identity.

        A constant is transposed here.
        """
        if [*labels] == [*wanted]:
            return value
        perm = [labels.index(label) for label in wanted]
        array = self.array(value)
        if array is not None:
            return self.constant(name, array.transpose(perm))
        nodes.append(helper.make_node("Transpose", [value], [name], perm=perm))
        self._note(name, equation.shape(wanted))
        return name

    def _reshaped(self, nodes: Nodes, value: str, name: str, shape: Sequence[int]) -> str:
        """Append a reshape, if the shape is another one."""
        if self._shape(value) == tuple(shape):
            return value
        array = self.array(value)
        if array is not None:
            return self.constant(name, array.reshape(shape))
        wanted = self.integers(f"{name}/shape", shape)
        nodes.append(helper.make_node("Reshape", [value, wanted], [name]))
        self._note(name, shape)
        return name

    def _note(self, name: str, shape: Sequence[int]) -> None:
        self.note_shape(name, shape)
        self.shapes[name] = tuple(shape)
