"""Arithmetic with constants between two reshapes, as arithmetic on the tensor before them."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from edgepipe.frontend.onnx_graph import readers_of, remove_unread, set_attribute, set_nodes
from edgepipe.frontend.rewrites.rewriting import Rewriting

_ARITHMETIC = frozenset(["Add", "Div", "Mul", "Sub"])
_RESHAPES = frozenset(["Reshape", "Squeeze", "Unsqueeze"])
_MOVES = _RESHAPES | {"Transpose"}
_LARGEST = 1 << 24
"""The most elements of a constant that is written out."""

_MOST_AXES = 4
"""What layers and attention have: more axes are those of windows or heads, on their way."""


def arithmetic_before_reshapes(model: onnx.ModelProto) -> None:
    """Drop two reshapes that undo each other around arithmetic with constants.

    before   Reshape(x, [1, n, h, t, t]) -> Add(mask [1, n, 1, t, t]) -> Reshape([n, h, t, t])
    after    Add(x, mask [n, h, t, t])

    before   Mul(Transpose(Reshape(x, [1, n, t, h, d])), 0.25)
    after    Transpose(Reshape(Mul(x, 0.25), [1, n, t, h, d]))

    Swin adds the mask of its moved windows so. A softmax over the last axis may follow, as in
    MaxViT. The constant has an element for each of the tensor's, unless it is a number.
    """
    _numbers_before_moves(model)
    rewriting = _Between(model)
    for node in model.graph.node:
        if node.op_type in _RESHAPES:
            rewriting.drop_reshapes(node)
    rewriting.finish()
    remove_unread(model.graph)


class _Between(Rewriting):
    """The graph, who reads its values, and the values that take the place of others."""

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__(model)
        self._readers = readers_of(model.graph)
        self._outputs = {output.name for output in model.graph.output}
        self._source: dict[str, str] = {}

    def drop_reshapes(self, after: onnx.NodeProto) -> None:
        """Let the arithmetic in front of a reshape work on the tensor before it."""
        chain: list[onnx.NodeProto] = []
        value = after.input[0]
        inner, wanted = (self.shapes.get(each, ()) for each in (value, after.output[0]))
        before = self.makers.get(value)
        while before is not None and before.op_type not in _RESHAPES:
            tensors = self._tensors(before)
            if not self._is_inner(value) or len(tensors) != 1:
                return
            chain.append(before)
            value = tensors[0]
            before = self.makers.get(value)
            if self.shapes.get(value, ()) != inner or not self._may_move(chain[-1], wanted):
                return
        if before is None or not self._is_inner(value):
            return
        if not wanted or self.shapes.get(before.input[0], ()) != wanted:
            return
        source = before.input[0]
        for node in reversed(chain):
            source = self._moved(node, source, inner, wanted)
        self._source[after.output[0]] = source

    def finish(self) -> None:
        """Replace the reshapes that are not needed."""
        if self._source:
            kept = [
                helper.make_node("Identity", [self._source[node.output[0]]], [node.output[0]])
                if node.output[0] in self._source
                else node
                for node in self._graph.node
            ]
            set_nodes(self._graph, kept)

    def _is_inner(self, value: str) -> bool:
        return value not in self._outputs and len(self._readers.get(value, ())) == 1

    def _tensors(self, node: onnx.NodeProto) -> list[str]:
        """Return what a node computes with that is no constant; nothing for other operators."""
        if node.op_type == "Softmax" or (node.op_type in _ARITHMETIC and len(node.input) == 2):
            return [value for value in node.input if self.array(value) is None]
        return []

    def _may_move(self, node: onnx.NodeProto, wanted: tuple[int, ...]) -> bool:
        """Whether a node computes the same on a tensor of the shape that is wanted."""
        made = self.shapes.get(node.output[0], ())
        if not made or self.shapes.get(self._tensors(node)[0]) != made:
            return False
        if node.op_type == "Softmax":
            axis = next((int(a.i) for a in node.attribute if a.name == "axis"), -1)
            return axis in (-1, len(made) - 1) and wanted[-1:] == made[-1:]
        sizes = [array.size for each in node.input if (array := self.array(each)) is not None]
        return sizes == [1] or int(np.prod(made)) <= _LARGEST

    def _moved(
        self, node: onnx.NodeProto, source: str, inner: tuple[int, ...], wanted: tuple[int, ...]
    ) -> str:
        """Let a node read ``source``, and return the name of what it makes now."""
        name = str(node.output[0])
        index = list(node.input).index(self._tensors(node)[0])
        node.input[index] = source
        if node.op_type == "Softmax":
            set_attribute(node, "axis", len(wanted) - 1)
        else:
            constant = self.array(node.input[1 - index])
            assert constant is not None
            if constant.size > 1:
                constant = np.broadcast_to(constant, inner).reshape(wanted)
            node.input[1 - index] = self.constant(f"{name}/reshaped", constant.copy())
        made = f"{name}/before"
        node.output[0] = made
        self.note_shape(made, wanted)
        return made


def _numbers_before_moves(model: onnx.ModelProto) -> None:
    """Let arithmetic with a number, on more axes than layers have, work on what was reshaped."""
    rewriting = Rewriting(model)
    readers = readers_of(model.graph)
    outputs = {output.name for output in model.graph.output}
    nodes = list(model.graph.node)
    for node in list(nodes):
        numbers = [a for value in node.input if (a := rewriting.array(value)) is not None]
        if node.op_type not in _ARITHMETIC or [a.size for a in numbers] != [1]:
            continue
        index = 0 if rewriting.array(node.input[0]) is None else 1
        shape = rewriting.shapes.get(node.input[index], ())
        if len(shape) <= _MOST_AXES or rewriting.shapes.get(node.output[0]) != shape:
            continue
        chain: list[onnx.NodeProto] = []
        value = node.input[index]
        while value not in outputs and len(readers.get(value, ())) == 1:
            maker = rewriting.makers.get(value)
            if maker is None or maker.op_type not in _MOVES:
                break
            chain.append(maker)
            value = maker.input[0]
            if len(rewriting.shapes.get(value, ())) in range(1, _MOST_AXES + 1):
                break
        source = rewriting.shapes.get(value, ())
        if not chain or not 1 <= len(source) <= _MOST_AXES:
            continue
        name, first, last = node.output[0], chain[-1], chain[0]
        made = f"{name}/before"
        operands = list(node.input)
        operands[index] = value
        operands[1 - index] = rewriting.constant(f"{name}/number", numbers[0].reshape(()))
        rewriting.note_shape(made, source)
        nodes.insert(nodes.index(first), helper.make_node(node.op_type, operands, [made]))
        first.input[0] = made
        last.output[0] = name
        nodes.remove(node)
    set_nodes(model.graph, nodes)
