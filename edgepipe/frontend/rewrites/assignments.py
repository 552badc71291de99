"""Write assignments to a part of a tensor, ``x[:, a:b] = y``, as parts that are joined."""

from __future__ import annotations

import math

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from edgepipe.frontend.onnx_graph import remove_unread, set_nodes, text_of
from edgepipe.frontend.rewrites.rewriting import SLICE_WITH_INPUTS, Nodes, Rewriting

Box = tuple[tuple[int, int], ...]
"""Where a part of a tensor begins and ends, along each axis."""


def join_assigned_parts(model: onnx.ModelProto) -> None:
    """Replace each ``ScatterND`` whose constant indices are those of a box of the tensor.

    before   ScatterND(x, the indices of x[:, a:b], y)
    after    Concat(x[:, :a], y, x[:, b:])

    So torch exports an assignment in place. If all elements are assigned, only ``y`` is left.
    """
    rewriting = _Assignments(model)
    nodes = [made for node in model.graph.node for made in rewriting.of(node)]
    if len(nodes) != len(model.graph.node) or rewriting.has_replaced:
        set_nodes(model.graph, nodes)
        remove_unread(model.graph)


class _Assignments(Rewriting):
    """The graph with its assignments."""

    has_replaced = False

    def of(self, node: onnx.NodeProto) -> Nodes:
        """Return the nodes that compute what ``node`` computes."""
        box = self._box(node) if node.op_type == "ScatterND" else None
        if box is None or self.opset < SLICE_WITH_INPUTS:
            return [node]
        self.has_replaced = True
        data, _, updates = node.input
        name, shape = node.output[0], self.shapes[node.input[0]]
        part = tuple(end - begin for begin, end in box)
        made = f"{name}/assigned"
        self.note_shape(made, part)
        nodes = [
            helper.make_node("Reshape", [updates, self.integers(f"{name}/part", part)], [made])
        ]
        whole = tuple((0, size) for size in shape)
        for axis in reversed(range(len(shape))):
            if box[axis] == whole[axis]:
                continue
            around = (*box[:axis], *whole[axis:])
            nodes += self._joined(data, made, around, box[axis], axis)
            made = nodes[-1].output[0]
        nodes[-1].output[0] = name
        return nodes

    def _joined(
        self, data: str, part: str, around: Box, taken: tuple[int, int], axis: int
    ) -> Nodes:
        """Return the nodes that put a part between those of ``around`` beside it along an axis."""
        nodes: Nodes = []
        pieces: list[str] = []
        (begin, end), (first, last) = around[axis], taken
        for side, bounds in (("before", (begin, first)), ("behind", (last, end))):
            if side == "behind":
                pieces.append(part)
            if bounds[0] == bounds[1]:
                continue
            box = (*around[:axis], bounds, *around[axis + 1 :])
            made = f"{part}/{side}{axis}"
            pieces.append(made)
            self.note_shape(made, [stop - start for start, stop in box])
            limits = [[start for start, _ in box], [stop for _, stop in box], range(len(box))]
            names = [
                self.integers(f"{made}/{kind}", values)
                for kind, values in zip(("begin", "end", "axes"), limits, strict=True)
            ]
            nodes.append(helper.make_node("Slice", [data, *names], [made]))
        joined = f"{part}/joined{axis}"
        self.note_shape(joined, [stop - start for start, stop in around])
        return [*nodes, helper.make_node("Concat", pieces, [joined], axis=axis)]

    def _box(self, node: onnx.NodeProto) -> Box | None:
        """Return the box that an assignment's indices are those of, in their order, if any."""
        shape, indices = self.shapes.get(node.input[0]), self.array(node.input[1])
        is_plain = text_of(node, "reduction", "none") == "none"
        if not shape or indices is None or not indices.size or not is_plain:
            return None
        depth = indices.shape[-1]
        if depth > len(shape):
            return None
        sizes = np.array(shape[:depth])
        rows: NDArray[np.int64] = indices.reshape(-1, depth).astype(np.int64)
        rows = np.where(rows < 0, rows + sizes, rows)
        first, last = rows.min(0), rows.max(0)
        part = tuple(int(size) for size in last - first + 1)
        if (first < 0).any() or (last >= sizes).any() or rows.shape[0] != math.prod(part):
            return None
        grid = np.indices(part).reshape(depth, -1).T + first
        assigned = (*part, *shape[depth:])
        given = self.shapes.get(node.input[2])
        if given is None or math.prod(given) != math.prod(assigned):
            return None
        if not np.array_equal(rows, grid):
            return None
        taken = tuple((int(a), int(b) + 1) for a, b in zip(first, last, strict=True))
        return (*taken, *((0, size) for size in shape[depth:]))
