"""Layers on pictures with the channels last, before the first convolution: on channels first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from edgepipe.frontend.folding import infer_shapes
from edgepipe.frontend.onnx_graph import (
    array_of,
    constants_of,
    set_attribute,
    set_nodes,
    shapes_of,
)

TO_LAST = (0, 2, 3, 1)
"""The axis of a picture with channels first for each axis of one with channels last."""
TO_FIRST = (0, 3, 1, 2)

Rule = Callable[["Turning", onnx.NodeProto], "list[onnx.NodeProto] | None"]
"""Changes a node to one for channels first; None if that is impossible."""


def layers_channels_first(model: onnx.ModelProto) -> None:
    """Turn the layers that read the picture with its channels last.

    before   Transpose(image, 0, 2, 3, 1) -> Mul([1, 1, 1, c]) -> Transpose(0, 3, 1, 2) -> Conv
    after    Mul(image, [1, c, 1, 1]) -> Identity -> Conv

    Values keep their names. A layer that cannot be turned reads ``Transpose(x, 0, 2, 3, 1)``.
    """
    image = model.graph.input[0].name
    moves = [node for node in model.graph.node if image in node.input and moves_last(node)]
    # What branches and loops read inside them would have to be turned there.
    nested = any(attribute.HasField("g") for n in model.graph.node for attribute in n.attribute)
    if moves and not nested:
        turning = Turning(model, {move.output[0]: image for move in moves})
        kept = [node for node in model.graph.node if node not in moves]
        nodes = [made for node in kept for made in turning.turned(node)]
        set_nodes(model.graph, [*nodes, *turning.outputs()])
        infer_shapes(model)


def moves_last(node: onnx.NodeProto) -> bool:
    """Return whether a node moves the channels of a picture last."""
    perms = [tuple(a.ints) for a in node.attribute if a.name == "perm"]
    return node.op_type == "Transpose" and perms == [TO_LAST]


class Turning:
    """Turns the nodes of a graph one after the other, in their order.

    ``first`` has, for each value that was turned, the name of its picture with channels first.
    ``rules`` are those for kinds of nodes that have none of their own here.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        first: Mapping[str, str],
        rules: Mapping[str, Rule] = MappingProxyType({}),
    ) -> None:
        self._graph = model.graph
        self.constants = constants_of(model.graph)
        self.shapes = shapes_of(model)
        self._results = {output.name for output in model.graph.output}
        self.first = dict(first)
        self._rules = {**_RULES, **rules}
        self._last: dict[str, str] = {}
        self._taken = {value for node in model.graph.node for value in node.output}

    def turned(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        """Return the nodes that take the place of ``node``."""
        if not any(name in self.first for name in node.input):
            return [node]
        copy = onnx.NodeProto.FromString(node.SerializeToString())
        made = self._rules.get(node.op_type, _stays)(self, copy)
        return self._read_last(node) if made is None else made

    def outputs(self) -> list[onnx.NodeProto]:
        """Return the nodes that compute the graph's outputs from what was turned."""
        open_ones = [name for name in self.first if name in self._results]
        return [node for name in open_ones for node in self._last_of(name)]

    def turn_outputs(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """Make ``node`` compute pictures with channels first."""
        for index, name in enumerate(node.output):
            self.first[name] = f"{name}/channels_first" if name in self._results else name
            node.output[index] = self.first[name]
        return node

    def constant(self, name: str, values: NDArray[np.generic]) -> str:
        """Add a constant of any shape, values[...], with a name like ``name``; return its name."""
        new = f"{name}/channels_first"
        while new in self.constants:
            new += "_"
        self._graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(values), new))
        self.constants[new] = self._graph.initializer[-1]
        return new

    def array(self, node: onnx.NodeProto, index: int) -> NDArray[np.generic] | None:
        """Return a constant input of a node, of any shape [...], or None if it is not constant."""
        name = node.input[index] if index < len(node.input) else ""
        return array_of(self.constants[name]) if name in self.constants else None

    def _read_last(self, node: onnx.NodeProto) -> list[onnx.NodeProto]:
        made = []
        copy = onnx.NodeProto.FromString(node.SerializeToString())
        for index, name in enumerate(node.input):
            if name in self.first:
                made += self._last_of(name)
                copy.input[index] = self._last[name]
        return [*made, copy]

    def _last_of(self, name: str) -> list[onnx.NodeProto]:
        """Return the node that moves a value's channels last, unless it is there already."""
        if name in self._last:
            return []
        last = name if name in self._results else f"{name}/channels_last"
        while last in self._taken and last != name:
            last += "_"
        self._last[name] = last
        inputs, outputs = [self.first[name]], [self._last[name]]
        return [helper.make_node("Transpose", inputs, outputs, perm=TO_LAST)]


def _stays(_: Turning, __: onnx.NodeProto) -> None:
    return None


def elementwise(turning: Turning, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """Turn the constants too: they are aligned with the last axes."""
    inputs = []
    for name in node.input:
        if name in turning.first or not name:
            inputs.append(turning.first.get(name, name))
            continue
        if name not in turning.constants:
            return None
        values = array_of(turning.constants[name])
        if values.ndim > 4:
            return None
        if values.size > 1:
            shape = (1,) * (4 - values.ndim) + values.shape
            name = turning.constant(name, values.reshape(shape).transpose(TO_FIRST))
        inputs.append(name)
    node.input[:] = inputs
    return [turning.turn_outputs(node)]


def _transpose(turning: Turning, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    perm = next((list(a.ints) for a in node.attribute if a.name == "perm"), [3, 2, 1, 0])
    both = [TO_LAST[axis] for axis in perm]
    node.input[0] = turning.first[node.input[0]]
    if both == [0, 1, 2, 3]:
        return [helper.make_node("Identity", [node.input[0]], [node.output[0]])]
    if both == list(TO_LAST):
        same = helper.make_node("Identity", [node.input[0]], [node.output[0]])
        return [turning.turn_outputs(same)]
    set_attribute(node, "perm", both)
    return [node]


def reshape_turned(turning: Turning, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """Read channels first too where a move of channels moves no value, as with one channel."""
    before, after = (turning.shapes.get(name) for name in (node.input[0], node.output[0]))
    source = turning.first.get(node.input[0])
    if before is None or after is None or source is None:
        return None
    if after == before:
        return [turning.turn_outputs(helper.make_node("Identity", [source], [node.output[0]]))]
    if before[3] != 1 and before[1] * before[2] != 1:
        return None
    if after == tuple(before[axis] for axis in TO_FIRST):
        return [helper.make_node("Identity", [source], [node.output[0]])]
    shape = turning.constant(f"{node.output[0]}/shape", np.array(after, np.int64))
    return [helper.make_node("Reshape", [source, shape], [node.output[0]])]


def _pad(turning: Turning, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    amounts, axes = turning.array(node, 1), turning.array(node, 3)
    if len(node.input) == 1:  # opset 10 and below
        attribute = next((a for a in node.attribute if a.name == "pads"), None)
        if attribute is None or len(attribute.ints) != 8:
            return None
        set_attribute(node, "pads", _by_axis(attribute.ints))
    elif len(node.input) > 3 and node.input[3]:
        if axes is None:
            return None
        node.input[3] = turning.constant(f"{node.output[0]}/axes", turned_axes(axes))
    elif amounts is not None and amounts.size == 8:
        moved = np.array(_by_axis(amounts.reshape(-1)), np.int64)
        node.input[1] = turning.constant(f"{node.output[0]}/pads", moved)
    else:
        return None
    return first_reads(turning, node)


def _resize(turning: Turning, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    given = next((list(a.ints) for a in node.attribute if a.name == "axes"), None)
    if given is not None:
        set_attribute(node, "axes", [int(axis) for axis in turned_axes(np.array(given))])
        return first_reads(turning, node)
    for index, name in list(enumerate(node.input))[1:]:
        values = turning.array(node, index)
        if not name or (values is not None and not values.size):
            continue
        if values is None or values.size not in (4, 8):
            return None
        moved = np.array(_by_axis(values.reshape(-1)), values.dtype)
        node.input[index] = turning.constant(f"{node.output[0]}/{index}", moved)
    return first_reads(turning, node)


def _slice(turning: Turning, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    if len(node.input) == 1:  # opset 9 and below
        attributes = {a.name: list(a.ints) for a in node.attribute}
        given = attributes.get("axes") or range(len(attributes.get("starts", ())))
        set_attribute(node, "axes", [int(axis) for axis in turned_axes(np.array(given))])
        return first_reads(turning, node)
    starts, axes = turning.array(node, 1), turning.array(node, 3)
    if len(node.input) > 3 and node.input[3]:
        if axes is None:
            return None
    elif starts is None:
        return None
    else:
        axes = np.arange(starts.size, dtype=starts.dtype)
    inputs = [*node.input, "", ""]
    inputs[3] = turning.constant(f"{node.output[0]}/axes", turned_axes(axes))
    node.input[:] = inputs[:5] if inputs[4] else inputs[:4]
    return first_reads(turning, node)


def _gather(turning: Turning, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    indices = turning.array(node, 1)
    return None if indices is None or indices.ndim != 1 else _along_axis(turning, node)


def _along_axis(turning: Turning, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
    set_attribute(node, "axis", TO_LAST[axis % 4])
    return first_reads(turning, node)


def _concat(turning: Turning, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    if not all(name in turning.first for name in node.input):
        return None
    node.input[:] = [turning.first[name] for name in node.input]
    axis = next(a.i for a in node.attribute if a.name == "axis")
    set_attribute(node, "axis", TO_LAST[axis % 4])
    return [turning.turn_outputs(node)]


def first_reads(turning: Turning, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """Let the first input of a node, its only tensor, have its channels first."""
    if node.input[0] not in turning.first or any(v in turning.first for v in node.input[1:]):
        return None
    node.input[0] = turning.first[node.input[0]]
    return [turning.turn_outputs(node)]


def turned_axes(axes: NDArray[np.generic]) -> NDArray[np.int64]:
    """Return the axes int64[n] of a picture with channels first for those of one with them last."""
    return np.array([TO_LAST[int(axis) % 4] for axis in axes.reshape(-1)], np.int64)


def _by_axis(values: Iterable[object]) -> list[object]:
    """Reorder one value per axis, or two lists of them, one after the other."""
    given: Sequence[object] = list(values)
    return [given[start + axis] for start in range(0, len(given), 4) for axis in TO_FIRST]


_ELEMENTWISE = (
    *("Abs", "Add", "Cast", "Ceil", "Clip", "Div", "Elu", "Erf", "Exp", "Floor", "Gelu"),
    *("HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log", "Max", "Min", "Mul", "Neg"),
    *("PRelu", "Pow", "Relu", "Round", "Sigmoid", "Softplus", "Sqrt", "Sub", "Tanh"),
)
_RULES: dict[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE, elementwise),
    "Concat": _concat,
    "Flatten": reshape_turned,
    "Gather": _gather,
    "Pad": _pad,
    "Reshape": reshape_turned,
    "Resize": _resize,
    "Slice": _slice,
    "Split": _along_axis,
    "Transpose": _transpose,
    "Upsample": _resize,
}
