"""Write every softmax that is no attention as one operator on a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from edgepipe.frontend.onnx_graph import readers_of, set_nodes, values_before
from edgepipe.frontend.rewrites.rewriting import REDUCE_WITH_INPUTS, Nodes, Rewriting

_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_MOVES = frozenset(
    [
        *("Cast", "Dropout", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Split"),
        *("Squeeze", "Transpose", "Unsqueeze"),
    ]
)
_SCALES = frozenset(["Add", "Div", "Mul", "Sub"])
_PRODUCTS = frozenset(["Einsum", "Gemm", "MatMul"])
_AXIS_ALONE = 13
"""The opset since which a softmax is over one axis; before, over that and all behind it."""


def plain_softmaxes(model: onnx.ModelProto) -> None:
    """Replace softmaxes that a layer depends on, apart from those of attention.

    before   Div(e, ReduceSum(e, axes=[1]));  Softmax([1, c, n], axis=2)
    after    Softmax(x, axis=1);              Reshape(Softmax([1, c, n, 1], axis=2), [1, c, n])

    ``e`` is Exp(x), or Exp(x - ReduceMax(x, axes=[1])). What a product of two tensors reads is
    attention, which stays as it is. A ``LogSoftmax`` over channels is written out.
    """
    rewriting = _Softmaxes(model)
    needed = values_before(model.graph, _LAYERS)
    nodes: Nodes = []
    for node in model.graph.node:
        made: Nodes | None = None
        if node.op_type in ("Div", "Softmax") and node.output[0] in needed:
            made = rewriting.of(node)
        elif node.op_type == "LogSoftmax" and node.output[0] in needed:
            made = rewriting.logarithm(node)
        nodes += [node] if made is None else made
    set_nodes(model.graph, nodes)


class _Softmaxes(Rewriting):
    """The graph, and who reads its values."""

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__(model)
        self._readers = readers_of(model.graph)

    def of(self, node: onnx.NodeProto) -> Nodes | None:
        """Return the nodes that compute what a quotient or a softmax computes."""
        name = node.output[0]
        shape = self.shapes.get(name, ())
        if not shape or self._is_weight(name):
            return None
        if node.op_type == "Div":
            found = self._written_out(node, shape)
            if found is None:
                return None
            source, axis = found
        else:
            source = node.input[0]
            default = -1 if self.opset >= _AXIS_ALONE else 1
            axis = next((int(a.i) for a in node.attribute if a.name == "axis"), default)
            axis %= len(shape)
        last = len(shape) - 1
        if self.opset < _AXIS_ALONE and axis != last:
            return None
        if (len(shape) in (2, 4) and shape[0] == 1 and axis > 0) or self.opset < _AXIS_ALONE:
            same = node.op_type == "Softmax"
            return None if same else [helper.make_node("Softmax", [source], [name], axis=axis)]
        return self._on_picture(source, name, shape, axis)

    def logarithm(self, node: onnx.NodeProto) -> Nodes | None:
        """Return the operators of a ``LogSoftmax`` over the channels of a picture.

        before   LogSoftmax(x, axis=1)
        after    d = x - ReduceMax(x, axes=[1]); d - Log(the sum of Exp(d), a convolution)

        The logarithm of rounded shares would have no small values.
        """
        source, name = node.input[0], node.output[0]
        shape = self.shapes.get(name, ())
        axis = next((int(a.i) for a in node.attribute if a.name == "axis"), -1)
        if len(shape) != 4 or shape[0] != 1 or axis not in (1, -3) or self.opset < _AXIS_ALONE:
            return None
        parts = ("largest", "below", "value", "total", "logarithm")
        largest, below, value, total, logarithm = (f"{name}/{part}" for part in parts)
        given = [self.integers(f"{name}/axes", [1])] if self.opset >= REDUCE_WITH_INPUTS else []
        axes = {} if given else {"axes": [1]}
        ones = self.constant(f"{name}/ones", np.ones((1, shape[1], 1, 1)))
        return [
            helper.make_node("ReduceMax", [source, *given], [largest], keepdims=1, **axes),
            helper.make_node("Sub", [source, largest], [below]),
            helper.make_node("Exp", [below], [value]),
            helper.make_node("Conv", [value, ones], [total], kernel_shape=[1, 1]),
            helper.make_node("Log", [total], [logarithm]),
            helper.make_node("Sub", [below, logarithm], [name]),
        ]

    def _on_picture(self, source: str, name: str, shape: Sequence[int], axis: int) -> Nodes:
        picture = (1, math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
        before = self.makers.get(source)
        if before is not None and before.op_type == "Reshape":
            source = before.input[0]
        wanted = self.integers(f"{name}/picture_shape", picture)
        back = self.integers(f"{name}/shape", shape)
        return [
            helper.make_node("Reshape", [source, wanted], [f"{name}/picture"]),
            helper.make_node("Softmax", [f"{name}/picture"], [f"{name}/shares"], axis=2),
            helper.make_node("Reshape", [f"{name}/shares", back], [name]),
        ]

    def _is_weight(self, value: str) -> bool:
        """Whether a product of two tensors reads a value, or what is moved or scaled of it."""
        waiting, seen = [value], {value}
        while waiting:
            for reader in self._readers.get(waiting.pop(), ()):
                computed = [v for v in reader.input if v and self.array(v) is None]
                if reader.op_type in _PRODUCTS and len(computed) > 1:
                    return True
                scales = reader.op_type in _SCALES and len(computed) == 1
                if not scales and reader.op_type not in _MOVES:
                    continue
                new = [made for made in reader.output if made not in seen]
                seen.update(new)
                waiting += new
        return False

    def _written_out(self, node: onnx.NodeProto, shape: tuple[int, ...]) -> tuple[str, int] | None:
        """Return what a quotient of an exponential and its sum is the softmax of, and its axis."""
        value, total = (self.makers.get(name) for name in node.input)
        if value is None or total is None or (value.op_type, total.op_type) != ("Exp", "ReduceSum"):
            return None
        axes = self._reduced(total, node.input[0])
        if len(axes) != 1:
            return None
        axis = axes[0] % len(shape)
        scores = value.input[0]
        below = self.makers.get(scores)
        if below is not None and below.op_type == "Sub":
            largest = self.makers.get(below.input[1])
            if largest is not None and largest.op_type == "ReduceMax":
                found = self._reduced(largest, below.input[0])
                if [a % len(shape) for a in found] == [axis]:
                    scores = below.input[0]
        return (scores, axis) if self.shapes.get(scores) == shape else None

    def _reduced(self, node: onnx.NodeProto, source: str) -> list[int]:
        """Return the axes that a reduction of ``source`` keeps with extent 1; else none."""
        given = {a.name: a for a in node.attribute}
        kept = "keepdims" not in given or given["keepdims"].i
        if node.input[0] != source or not kept:
            return []
        if "axes" in given:
            return [int(axis) for axis in given["axes"].ints]
        found = self.array(node.input[1]) if len(node.input) > 1 and node.input[1] else None
        return [] if found is None else [int(axis) for axis in found.reshape(-1)]
