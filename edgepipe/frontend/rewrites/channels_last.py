"""Write what is computed with the channels last, between transpositions, with them first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
import onnx
from onnx import helper

from edgepipe.frontend.folding import infer_shapes
from edgepipe.frontend.onnx_graph import set_attribute, set_nodes
from edgepipe.frontend.rewrites.picture_layout import (
    TO_LAST,
    Rule,
    Turning,
    elementwise,
    first_reads,
    moves_last,
    reshape_turned,
    turned_axes,
)

_RANK = 4


def channels_stay_first(model: onnx.ModelProto) -> None:
    """Turn the operators between transpositions to [n, h, w, c] and back.

    before   Transpose(Relu(MatMul(Transpose(x), const) + const))
    after    Relu(Conv(x, const) + const)

    Exporters of Keras and of transformers write so. Operators that read each other's values are
    turned together, if that leaves fewer transpositions: gates of squeeze-and-excitation and sums
    with shortcuts have several readers. What cannot be turned reads ``Transpose(x, 0, 2, 3, 1)``.
    """
    if any(attribute.HasField("g") for n in model.graph.node for attribute in n.attribute):
        return  # what branches read inside them would have to be turned there
    moves = _worthwhile(model)
    if not moves:
        return
    turning = Turning(model, {}, _RULES)
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        if node.output[0] in moves:
            turning.first[node.output[0]] = node.input[0]
        else:
            nodes += turning.turned(node)
    set_nodes(model.graph, [*nodes, *turning.outputs()])
    infer_shapes(model)


def _worthwhile(model: onnx.ModelProto) -> set[str]:
    """Return the results of transpositions that are not needed if what reads them is turned."""
    graph = model.graph
    results = {output.name for output in graph.output}
    constants = len(graph.initializer)
    turning = Turning(model, {}, _RULES)
    groups = _Groups()
    gains: Counter[str] = Counter()
    moves = []
    for node in graph.node:
        first = node.output[0]
        is_picture = len(turning.shapes.get(first, ())) == _RANK
        if moves_last(node) and is_picture and node.input[0] not in turning.first:
            moves.append(first)
            turning.first[first] = node.input[0]
            gains[first] += 1
            continue
        read = [name for name in node.input if name in turning.first]
        if read:
            made = turning.turned(node)
            groups.join([*read, *(name for name in node.output if name in turning.first)])
            more = sum(each.op_type == "Transpose" for each in made)
            gains[read[0]] += (node.op_type == "Transpose") - more
    for name in results & turning.first.keys():
        gains[name] -= 1
    del graph.initializer[constants:]  # of the trial
    total: Counter[str] = Counter()
    for name, gain in gains.items():
        total[groups.of(name)] += gain
    return {name for name in moves if total[groups.of(name)] > 0}


class _Groups:
    """Values that are turned together or not at all; each group is named after one of them."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}

    def of(self, name: str) -> str:
        """Return the name of the group of a value."""
        while name in self._above:
            name = self._above[name]
        return name

    def join(self, names: Iterable[str]) -> None:
        """Make one group of those of all ``names``."""
        first, *others = dict.fromkeys(map(self.of, names))
        self._above.update(dict.fromkeys(others, first))


def _dense(turning: Turning, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """Return a 1x1 convolution for a dense layer on each pixel."""
    weight = turning.array(node, 1)
    if weight is None or weight.ndim != 2 or node.input[0] not in turning.first:
        return None
    kernel = turning.constant(f"{node.output[0]}/kernel", weight.T[:, :, None, None])
    inputs = [turning.first[node.input[0]], kernel]
    made = helper.make_node("Conv", inputs, list(node.output), kernel_shape=[1, 1])
    return [turning.turn_outputs(made)]


def _reduction(turning: Turning, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """Turn a mean, sum or maximum; axes that it drops must leave the others in their order."""
    given = {a.name: a for a in node.attribute}
    axes = np.array(given["axes"].ints) if "axes" in given else turning.array(node, 1)
    if axes is None or not axes.size:
        return None
    kept = "keepdims" not in given or bool(given["keepdims"].i)
    dropped = {int(axis) % _RANK for axis in axes.reshape(-1)}
    left = [TO_LAST[axis] for axis in range(_RANK) if axis not in dropped]
    if not kept and left != sorted(left):
        return None
    turned = turned_axes(axes)
    if "axes" in given:
        set_attribute(node, "axes", [int(axis) for axis in turned])
    else:
        node.input[1] = turning.constant(f"{node.output[0]}/axes", turned)
    if kept:
        return first_reads(turning, node)
    node.input[0] = turning.first[node.input[0]]
    return [node]


_REDUCTIONS = ("ReduceL2", "ReduceMax", "ReduceMean", "ReduceSum", "ReduceSumSquare")
_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("Reciprocal", "Selu", "Sign"), elementwise),
    **dict.fromkeys(_REDUCTIONS, _reduction),
    "MatMul": _dense,
    "Squeeze": reshape_turned,
}
