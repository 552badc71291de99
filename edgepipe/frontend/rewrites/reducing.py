"""Write sums, means and maxima along some axes of a picture as pools and convolutions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper

from edgepipe.frontend.onnx_graph import readers_of, set_nodes, values_before
from edgepipe.frontend.rewrites.pools import MAX_POOL_TILE, MAX_POOL_WINDOW
from edgepipe.frontend.rewrites.rewriting import REDUCE_WITH_INPUTS, Rewriting

_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_NORMALISING = frozenset(["Div", "Exp", "Log", "Reciprocal", "Sqrt"])
_PASSING = frozenset(
    [
        *("Abs", "Add", "Cast", "Clip", "Max", "Mul", "Neg", "Pow", "ReduceMean", "ReduceSum"),
        *("Reshape", "Squeeze", "Sub", "Unsqueeze"),
    ]
)
_POOLS = {"ReduceMax": "MaxPool", "ReduceMean": "AveragePool", "ReduceSum": "AveragePool"}

_Step = tuple[str, list[str], dict[str, Any]]
"""An operator, its constants behind the first input, and its attributes."""


def reduce_pictures(model: onnx.ModelProto) -> None:
    """Replace reductions of pictures, of all tokens [1, n, c] or of neighbouring axes.

    before   ReduceMean(x, axes=[3]); ReduceMean(x, axes=[1]); ReduceSum(x, axes=[2, 3])
    after    AveragePool(x, [1, w]);  Conv(x, 1 / c);          ReduceMean(x, axes=[2, 3]) * h w

    before   ReduceMean(tokens, axes=[1])
    after    Transpose(tokens, 0 2 1) -> Reshape([1, c, 1, n]) -> ReduceMean(axes=[2, 3])

    before   ReduceMax(queries [h, w, p, d], axes=[2])
    after    Reshape([1, h w, p, d]) -> MaxPool([p, 1]) -> Reshape

    Axes that are not kept are removed by a reshape. What a normalisation needs stays: statistics of
    the data, and the sums of a softmax, need more than 8 bits. Means of lengths do not.
    """
    rewriting = _Reductions(model)
    set_nodes(model.graph, [made for node in model.graph.node for made in rewriting.of(node)])


class _Reductions(Rewriting):
    """The graph, and which of its values matter to a layer."""

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__(model)
        self._readers = readers_of(model.graph)
        self._before_layers = values_before(model.graph, _LAYERS)

    def of(self, node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
        """Yield the nodes that compute what ``node`` computes."""
        shape = self.shapes.get(node.input[0], ()) if node.op_type in _POOLS else ()
        axes = self._axes(node, len(shape)) if len(shape) > 2 else set()
        made: list[onnx.NodeProto] = []
        if axes and node.output[0] in self._before_layers and self._suffices(node, axes):
            if len(shape) == 4 and shape[0] == 1 and axes != {1, 2}:
                steps = self._of_picture
            elif len(shape) in (3, 4) and shape[0] == 1 and axes == set(range(1, len(shape) - 1)):
                steps = self._of_tokens
            else:
                steps = self._of_neighbours
            made = list(self._nodes(node, [*steps(node, axes, shape)]))
        yield from made or [node]

    def _nodes(self, node: onnx.NodeProto, steps: list[_Step]) -> Iterator[onnx.NodeProto]:
        name, source = node.output[0], node.input[0]
        for index, (kind, constants, attributes) in enumerate(steps):
            made = name if index == len(steps) - 1 else f"{name}/{kind}{index}"
            yield helper.make_node(kind, [source, *constants], [made], **attributes)
            source = made

    def _axes(self, node: onnx.NodeProto, rank: int) -> set[int]:
        """Return the axes that a reduction is over, empty if they are unknown."""
        given = [list(a.ints) for a in node.attribute if a.name == "axes"]
        if not given and len(node.input) > 1:
            found = self.array(node.input[1])
            given = [] if found is None else [[int(axis) for axis in found.reshape(-1)]]
        return {axis % rank for axis in given[0]} if given else set()

    def _suffices(self, node: onnx.NodeProto, axes: set[int]) -> bool:
        """Whether eight bits are enough for a reduction's result."""
        return not self._normalises(node.output[0]) or self._is_of_lengths(node, axes)

    def _is_of_lengths(self, node: onnx.NodeProto, axes: set[int]) -> bool:
        """Whether channels' lengths over their pixels are added: eight bits suffice for these.

        So they do in global response normalisation, where each length is divided by their mean.
        """
        made, kinds = self.makers.get(node.input[0]), {"ReduceL2"}
        if made is not None and made.op_type == "Sqrt":
            made, kinds = self.makers.get(made.input[0]), {"ReduceSum", "ReduceSumSquare"}
            if made is not None and made.op_type == "Add":
                tensors = [value for value in made.input if self.array(value) is None]
                made = self.makers.get(tensors[0]) if len(tensors) == 1 else None
        is_length = made is not None and made.op_type in kinds
        return is_length and axes == {1} and self.shapes[node.input[0]][2:] == (1, 1)

    def _normalises(self, value: str) -> bool:
        """Whether a root, an exponential or a divisor depends on ``value``, through arithmetic."""
        waiting, seen = [value], {value}
        while waiting:
            current = waiting.pop()
            for reader in self._readers.get(current, ()):
                if reader.op_type in _NORMALISING:
                    if reader.op_type != "Div" or reader.input[1] == current:
                        return True
                elif reader.op_type not in _PASSING and not self._is_of_tensors(reader):
                    continue
                if reader.output[0] not in seen:
                    seen.add(reader.output[0])
                    waiting.append(reader.output[0])
        return False

    def _is_of_tensors(self, node: onnx.NodeProto) -> bool:
        """Whether a node multiplies two computed matrices, as linear attention's totals do."""
        return node.op_type == "MatMul" and all(self.array(v) is None for v in node.input)

    def _of_picture(
        self, node: onnx.NodeProto, axes: set[int], shape: tuple[int, ...]
    ) -> Iterator[_Step]:
        """Yield the steps that reduce [1, c, h, w], none if the node stays."""
        name = node.output[0]
        result = self.shapes.get(name)
        readers = {reader.op_type for reader in self._readers.get(name, ())}
        if node.op_type in readers:  # one axis after the other, see ``pools.mean``
            return
        if result is None or axes not in ({1}, {2}, {3}, {2, 3}):
            return
        kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
        is_known = axes == {2, 3} or (axes == {1} and node.op_type == "ReduceMax")
        if is_known and node.op_type != "ReduceSum" and result == kept:
            return
        steps = [*self._steps(node, axes, shape)]
        yield from steps
        if steps and result != kept:
            yield self._reshape(name, result)

    def _of_tokens(
        self, node: onnx.NodeProto, axes: set[int], shape: tuple[int, ...]
    ) -> Iterator[_Step]:
        """Yield the steps that reduce [1, n, c] or [1, h, w, c] over its tokens.

        Its channels become the first axis, as those of a picture.
        """
        name = node.output[0]
        result = self.shapes.get(name)
        if result is None:
            return
        row = (1, shape[-1], 1 if len(shape) == 3 else shape[1], shape[-2])
        if len(shape) == 4:
            yield "Transpose", [], {"perm": [0, 3, 1, 2]}
        else:
            yield "Transpose", [], {"perm": [0, 2, 1]}
            yield "Reshape", [self.integers(f"{name}/row", row)], {}
        yield from self._steps(node, {2, 3}, row)
        yield self._reshape(name, result)

    def _of_neighbours(
        self, node: onnx.NodeProto, axes: set[int], shape: tuple[int, ...]
    ) -> Iterator[_Step]:
        """Yield the steps that reduce neighbouring axes of any tensor, as the rows of a picture."""
        name = node.output[0]
        result = self.shapes.get(name)
        first, end = min(axes), max(axes) + 1
        before = self.makers.get(node.input[0])
        if before is not None and before.op_type == node.op_type:  # see ``pools.mean``
            return
        if result is None or axes != set(range(first, end)):
            return
        sizes = (shape[:first], shape[first:end], shape[end:])
        picture = (1, *(math.prod(size) for size in sizes))
        steps = [*self._steps(node, {2}, picture)]
        if steps:
            yield "Reshape", [self.integers(f"{name}/picture", picture)], {}
            yield from steps
            yield self._reshape(name, result)

    def _reshape(self, name: str, result: tuple[int, ...]) -> _Step:
        if len(result) == 2:
            return "Flatten", [], {"axis": 1}
        return "Reshape", [self.integers(f"{name}/shape", result)], {}

    def _steps(
        self, node: onnx.NodeProto, axes: set[int], shape: tuple[int, ...]
    ) -> Iterator[_Step]:
        """Yield the operators, each of which reads the one before."""
        name, kind = node.output[0], node.op_type
        count = math.prod(shape[axis] for axis in axes)
        if axes == {2, 3} or (axes == {1} and kind == "ReduceMax"):
            kind = "ReduceMax" if kind == "ReduceMax" else "ReduceMean"
            if self.opset >= REDUCE_WITH_INPUTS:
                yield kind, [self.integers(f"{name}/axes", sorted(axes))], {"keepdims": 1}
            else:
                yield kind, [], {"axes": sorted(axes), "keepdims": 1}
        elif axes == {1}:
            value = 1.0 if kind == "ReduceSum" else 1 / count
            weight = self.constant(f"{name}/weight", np.full((1, count, 1, 1), value))
            yield "Conv", [weight], {"kernel_shape": [1, 1]}
        elif count <= (MAX_POOL_TILE if kind == "ReduceMax" else MAX_POOL_WINDOW):
            window = [shape[axis] if axis in axes else 1 for axis in (2, 3)]
            yield _POOLS[kind], [], {"kernel_shape": window, "strides": window}
        else:
            return
        if node.op_type == "ReduceSum" and axes != {1}:
            yield "Mul", [self.constant(f"{name}/count", np.array(float(count)))], {}
