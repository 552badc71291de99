"""Which element of a tensor each element is that a chain of moves makes of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from edgepipe.frontend.folding import CannotRunError, run_model
from edgepipe.frontend.onnx_graph import readers_of
from edgepipe.frontend.rewrites.places import Places
from edgepipe.frontend.rewrites.rewriting import Nodes, Rewriting

MOVES = frozenset(
    [
        *("Expand", "Flatten", "Gather", "Identity", "Pad", "Reshape", "Slice", "Squeeze"),
        *("Transpose", "Unsqueeze"),
    ]
)

_MOST_ELEMENTS = 1 << 22
"""Of a result that is followed: float32, which counts them, holds integers up to 1 << 24."""


class MovedElements(Rewriting):
    """The graph, and its chains of operators that only move, copy and drop elements, or pad."""

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__(model)
        self._model = model
        self._readers = readers_of(model.graph)
        self._outputs = {output.name for output in model.graph.output}

    def is_inner(self, value: str) -> bool:
        """Return whether one node alone reads a value."""
        return len(self._readers.get(value, [])) == 1 and value not in self._outputs

    def is_move(self, node: onnx.NodeProto) -> bool:
        """Return whether a node moves elements of its first input to places that are known."""
        others = (value for value in node.input[1:] if value)
        return node.op_type in MOVES and all(self.array(value) is not None for value in others)

    def before_moves(self, value: str) -> tuple[str, Nodes]:
        """Return the tensor whose elements a value has, and the moves that bring them."""
        nodes: Nodes = []
        node = self.makers.get(value)
        while node is not None and self.is_move(node):
            nodes.insert(0, node)
            value = node.input[0]
            node = self.makers.get(value)
        return value, nodes

    def moves_behind(self, value: str) -> Nodes:
        """Return the moves behind a value, as long as each is the only one that reads it."""
        nodes: Nodes = []
        while self.is_inner(value) and self.is_move(self._readers[value][0]):
            nodes.append(self._readers[value][0])
            value = nodes[-1].output[0]
        return nodes

    def elements(self, source: str, nodes: Sequence[onnx.NodeProto]) -> Places | None:
        """Return the places in ``source`` of what moves make of it, in the result's shape.

        The places count from 0; -1 is a zero that a ``Pad`` adds. None if there are too many.
        """
        sizes = [math.prod(self.shapes.get(v, (0,))) for v in (source, nodes[-1].output[0])]
        if not 0 < min(sizes) <= max(sizes) <= _MOST_ELEMENTS:
            return None
        part = onnx.ModelProto(
            ir_version=self._model.ir_version, opset_import=self._model.opset_import
        )
        shape = self.shapes[source]
        read = {value for node in nodes for value in node.input[1:] if value}
        graph = helper.make_graph(
            nodes,
            "moves",
            [helper.make_tensor_value_info(source, TensorProto.FLOAT, shape)],
            [onnx.ValueInfoProto(name=nodes[-1].output[0])],
            [constant for constant in self._graph.initializer if constant.name in read],
        )
        part.graph.CopyFrom(graph)
        counted = np.arange(1, sizes[0] + 1, dtype=np.float32).reshape(shape)
        try:
            (moved,) = run_model(part, {source: counted})
        except CannotRunError:
            return None
        return moved.astype(np.int64) - 1
