"""Write what queries say of distances, skewed to places by borders, as what they say of places."""

from __future__ import annotations

import math

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from edgepipe.frontend.onnx_graph import remove_unread, set_nodes
from edgepipe.frontend.rewrites.moved_elements import MovedElements
from edgepipe.frontend.rewrites.places import Places
from edgepipe.frontend.rewrites.rewriting import Nodes

_MOST_WEIGHTS = 1 << 22
"""Of the products that replace one: as many as a 1x1 convolution from 2,048 to 2,048 channels."""


def straighten_positions(model: onnx.ModelProto) -> None:
    """Replace a product with constants whose rows are each cut elsewhere by one of each place.

    before   MatMul(q [n, w, d], const [d, 2 w - 1]) -> Pad -> Reshape -> Pad -> Reshape -> Slice
    after    MatMul(q moved to [w, n, d], const [w, d, w]) moved back

    The borders and reshapes shift each row by one element more than the one before, so that
    distances become places (BoTNet).
    """
    rewriting = _Products(model)
    straight: dict[str, Nodes] = {}
    for node in model.graph.node:
        straight.update(rewriting.straight(node))
    if straight:
        nodes = [made for node in model.graph.node for made in straight.get(node.output[0], [node])]
        set_nodes(model.graph, nodes)
        remove_unread(model.graph)


class _Products(MovedElements):
    """The graph, and its products with constants behind which the result is skewed."""

    def straight(self, node: onnx.NodeProto) -> dict[str, Nodes]:
        """Return the nodes that compute a value behind a product, by its name, if it is skewed."""
        weight = self.array(node.input[1]) if node.op_type == "MatMul" else None
        if weight is None or weight.ndim != 2 or self.array(node.input[0]) is not None:
            return {}
        if node.output[0] not in self.shapes:
            return {}
        moves = self.moves_behind(node.output[0])
        first = next((i for i, move in enumerate(moves) if move.op_type == "Pad"), len(moves))
        for end in range(first + 1, len(moves)):
            if moves[end].op_type != "Slice":
                continue
            places = self.elements(node.output[0], moves[: end + 1])
            if places is None:
                return {}
            taken = _taken(places, weight.shape[1])
            if taken is not None:
                name = moves[end].output[0]
                made = self._written(name, node.input[0], weight, taken, places.shape)
                return {name: made} if made else {}
        return {}

    def _written(
        self,
        name: str,
        rows: str,
        weight: NDArray[np.float64],
        taken: Places,
        shape: tuple[int, ...],
    ) -> Nodes:
        """Return products of every ``period``-th row with the columns of its place."""
        count = taken.shape[0]
        period = next(
            p
            for p in sorted(math.prod(shape[i:-1]) for i in range(len(shape)))
            if not count % p and (taken.reshape(-1, p, taken.shape[1]) == taken[:p]).all()
        )
        depth, size = weight.shape[0], taken.shape[1]
        if period == 1 or period * depth * size > _MOST_WEIGHTS:
            return []
        stack = weight[:, taken[:period]].transpose(1, 0, 2)
        others = count // period
        shapes = {
            "rows": (others, period, depth),
            "moved": (period, others, depth),
            "product": (period, others, size),
            "back": (others, period, size),
        }
        for part, of_part in shapes.items():
            self.note_shape(f"{name}/{part}", of_part)
        sizes = self.integers(f"{name}/rows/shape", shapes["rows"])
        whole = self.integers(f"{name}/shape", shape)
        columns = self.constant(f"{name}/columns", stack)
        return [
            helper.make_node("Reshape", [rows, sizes], [f"{name}/rows"]),
            helper.make_node("Transpose", [f"{name}/rows"], [f"{name}/moved"], perm=[1, 0, 2]),
            helper.make_node("MatMul", [f"{name}/moved", columns], [f"{name}/product"]),
            helper.make_node("Transpose", [f"{name}/product"], [f"{name}/back"], perm=[1, 0, 2]),
            helper.make_node("Reshape", [f"{name}/back", whole], [name]),
        ]


def _taken(places: Places, columns: int) -> Places | None:
    """Return the columns [rows, r] of a product that its rows keep, None if rows are mixed."""
    if places.ndim < 2 or not places.size or places.min() < 0:
        return None
    rows, taken = np.divmod(places.reshape(-1, places.shape[-1]), columns)
    if not np.array_equal(rows, np.broadcast_to(np.arange(len(rows))[:, None], rows.shape)):
        return None
    return taken
