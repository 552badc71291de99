"""Turn a quantised ONNX network into a float network, and keep the ranges that it gives.

    before   x -> QuantizeLinear -> DequantizeLinear -> Conv(DequantizeLinear(int8 weight))
    after    x -> Conv(float weight), and the range of x

Weights and biases become float constants, exactly their integers times their scales. The integers
of activations stand for a range of real values, which the quantiser uses in place of its own rule.
Where that range begins at zero, it replaces a ReLU that quantisation tools remove, so the ReLU
comes back. Operators on integers (``QLinearConv`` and others) first become operators on floats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edgepipe.errors import FrontendError
from edgepipe.frontend.folding import fold_constants
from edgepipe.frontend.given_ranges import GivenRange
from edgepipe.frontend.integer_operators import (
    AGAIN,
    as_pairs,
    dequantised,
    is_dequantize,
    is_quantised,
    is_quantize,
)
from edgepipe.frontend.integer_tensors import INTEGERS, Integers, MeaningReader
from edgepipe.frontend.onnx_graph import (
    array_of,
    constants_of,
    remove_unread,
    set_nodes,
    text_of,
)

# Operators that move integers, or select some, and give them the same meaning.
_MOVING = frozenset(
    [
        *("DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Reshape", "Slice"),
        *("SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"),
    ]
)
_NOT_NEGATIVE = frozenset(["HardSigmoid", "Relu", "Sigmoid", "Softmax"])
# Operators whose results are not negative if nothing that they read is.
_KEEP_SIGN = _MOVING | {
    *("Add", "AveragePool", "Concat", "GlobalAveragePool", "GlobalMaxPool", "Mul", "Resize"),
}
_INT8_STEPS = 127  # a range of fewer steps saturates before int8 does


@dataclass(frozen=True, slots=True, kw_only=True)
class Dequantised:
    """What a network gave: ranges by ONNX value, and sentences about its borders.

    ``was_quantised`` says whether any of its operators made integers or read them.
    """

    was_quantised: bool = False
    ranges: Mapping[str, GivenRange] = field(default_factory=dict)
    notices: tuple[str, ...] = ()


def dequantise(path: Path, model: onnx.ModelProto) -> Dequantised:
    """Make ``model``, which was read from ``path``, a float network; float networks stay.

    Integer inputs and outputs become float ones. Raises ``FrontendError`` for what has no float
    form: operators on integers other than those of ``integer_operators``, and types of more or
    fewer bits than 8 or 16.
    """
    constants = constants_of(model.graph)
    integers = any(
        value.type.tensor_type.elem_type in INTEGERS and value.name not in constants
        for value in model.graph.input
    )
    was_quantised = any(is_quantised(node) for node in model.graph.node)
    if not integers and not was_quantised:
        return Dequantised()
    fold_constants(model)
    try:
        as_pairs(path, model)
        return replace(_Dequantising(path, model).run(), was_quantised=was_quantised)
    except (IndexError, ValueError) as cause:  # arrays, or numbers of inputs, that do not fit
        raise FrontendError(
            f"{path}: scales, zero points or inputs of its operators on integers do not fit each "
            f"other: {cause}",
            hint=AGAIN,
        ) from cause


class _Dequantising:
    """The float network so far, and what the integers of the original stand for."""

    def __init__(self, path: Path, model: onnx.ModelProto) -> None:
        self._path = path
        self._model = model
        self._constants = constants_of(model.graph)
        self._meanings = MeaningReader(path, self._constants)
        self._inputs = {value.name for value in model.graph.input}
        self._outputs = {value.name for value in model.graph.output}
        self._readers: dict[str, list[onnx.NodeProto]] = {}
        for node in model.graph.node:
            for value in node.input:
                self._readers.setdefault(value, []).append(node)
        self._kept: list[onnx.NodeProto] = []
        self._float: dict[str, str] = {}  # what replaces a removed float value
        self._integers: dict[str, Integers] = {}
        self._reals: dict[str, str] = {}  # the saturated float value of integers
        self._not_negative: set[str] = set()
        self._ranges: dict[str, GivenRange] = {}
        self._notices: list[str] = []

    def run(self) -> Dequantised:
        """Rewrite the graph; return the ranges and the notices."""
        graph = self._model.graph
        for value in graph.input:
            if value.type.tensor_type.elem_type in INTEGERS:
                self._read_input(value)
        for node in graph.node:
            self._take(node)
        for output in graph.output:
            if output.name in self._integers:
                self._make_float(output)
        for output in graph.output:
            self._name_output(output.name)
        set_nodes(graph, self._kept)
        del graph.value_info[:]
        remove_unread(graph)
        return Dequantised(ranges=self._ranges, notices=tuple(self._notices))

    # The network's borders.

    def _read_input(self, value: onnx.ValueInfoProto) -> None:
        """Make an integer input a float one, with the meaning that its readers give it."""
        tensor = value.type.tensor_type
        name, kind = value.name, tensor.elem_type
        text = TensorProto.DataType.Name(kind).lower()
        node = self._reader_with_meaning(name)
        if node is None:
            reader = next((n.op_type for n in self._readers.get(name, [])), "nothing")
            raise FrontendError(
                f"{self._path}: input {name} is {text} and {reader} reads it, expected "
                "DequantizeLinear, which says what its integers stand for",
                hint="export the network with a float32 picture as its input",
            )
        scale, zero = np.ones(1), np.zeros(1)
        if is_dequantize(node):
            scale, zero = self._meanings.scale_and_zero(node)
        made = self._meanings.of_type(name, kind, scale, zero)
        self._integers[name] = made
        tensor.elem_type = TensorProto.FLOAT
        self._notices.append(
            f"{name}: {text} input becomes a float picture of values from {made.range.low:.4g} to "
            f"{made.range.high:.4g}, as the description's preprocessing makes them"
        )

    def _reader_with_meaning(self, value: str) -> onnx.NodeProto | None:
        """Return the node that turns integers into floats, if only moves are before it."""
        for node in self._readers.get(value, []):
            if is_dequantize(node) or _is_cast_to_float(node):
                return node
            if node.op_type in _MOVING:
                found = self._reader_with_meaning(node.output[0])
                if found is not None:
                    return found
        return None

    def _make_float(self, output: onnx.ValueInfoProto) -> None:
        """Make an integer output a float one."""
        tensor = output.type.tensor_type
        text = TensorProto.DataType.Name(tensor.elem_type).lower()
        self._notices.append(f"{output.name}: {text} output becomes float")
        tensor.elem_type = TensorProto.FLOAT
        self._float[output.name] = self._real(output.name)

    def _name_output(self, name: str) -> None:
        """Give the float tensor of an output that output's name."""
        real = self._float.get(name, name)
        if real == name:
            return
        if real in self._inputs or real in self._outputs or real in self._constants:
            self._kept.append(helper.make_node("Identity", [real], [name]))
            return
        self._rename(real, name)
        if real in self._ranges:
            self._ranges[name] = self._ranges.pop(real)
        self._float = {k: name if v == real else v for k, v in self._float.items()}

    # Nodes, in their order.

    def _take(self, original: onnx.NodeProto) -> None:
        # A float value may now have the name of the integers that it replaces.
        integers = [value for value in original.input if value in self._integers]
        node = onnx.NodeProto.FromString(original.SerializeToString())
        for index, value in enumerate(node.input):
            node.input[index] = self._float.get(value, value)
        first = integers == [node.input[0]] if integers else False
        joined = node.op_type == "Concat" and len(integers) == len(node.input)
        if is_quantize(node):
            self._integers[node.output[0]] = self._meanings.made_by(node)
        elif is_dequantize(node):
            self._dequantize(node)
        elif not integers:
            self._keep(node)
        elif (first and node.op_type in _MOVING) or joined:
            self._move(node)
        elif first and node.op_type == "Clip":
            self._clip(node)
        elif _is_cast_to_float(node) and self._integers[node.input[0]].are_their_own:
            self._float[node.output[0]] = self._real(node.input[0])
        else:
            raise FrontendError(
                f"{self._path}: {node.op_type} {node.output[0]} computes on the integers "
                f"{integers[0]}, expected DequantizeLinear before it",
                hint=AGAIN,
            )

    def _keep(self, node: onnx.NodeProto) -> None:
        self._kept.append(node)
        if node.op_type in _NOT_NEGATIVE or (
            node.op_type in _KEEP_SIGN
            and text_of(node, "mode", "nearest") != "cubic"
            and all(self._is_not_negative(value) for value in node.input if value)
        ):
            self._not_negative.update(node.output)

    def _is_not_negative(self, value: str) -> bool:
        constant = self._constants.get(value)
        if constant is not None:
            # Numbers of type int64 are shapes, indices or axes.
            array = np.asarray(array_of(constant))
            return array.dtype == np.int64 or bool((array >= 0).all())
        return value in self._not_negative

    def _dequantize(self, node: onnx.NodeProto) -> None:
        source, result = node.input[0], node.output[0]
        scale, zero = self._meanings.scale_and_zero(node)
        if source in self._constants:
            axis = next((int(a.i) for a in node.attribute if a.name == "axis"), 1)
            real = dequantised(array_of(self._constants[source]), scale, zero, axis)
            self._add_constant(result, real)
            return
        found = self._integers.get(source)
        if found is None or not found.means_the_same(replace(found, scale=scale, zero=zero)):
            what = "with another scale than they were made" if found else "that nothing quantises"
            raise FrontendError(
                f"{self._path}: DequantizeLinear {result} reads the integers {source} {what}",
                hint=AGAIN,
            )
        self._float[result] = self._real(source)

    def _move(self, node: onnx.NodeProto) -> None:
        """Keep an operator that moves integers, on floats."""
        meanings = [self._integers[value] for value in node.input if value in self._integers]
        same = all(meanings[0].means_the_same(other) for other in meanings[1:])
        if not same or meanings[0].scale.size > 1:
            raise FrontendError(
                f"{self._path}: {node.op_type} {node.output[0]} moves integers of several scales",
                hint=AGAIN,
            )
        for index, value in enumerate(node.input):
            if value in self._integers:
                node.input[index] = self._real(value)
        for result in filter(None, node.output):
            self._integers[result] = replace(meanings[0], real=result)
            self._reals[result] = result
        self._keep(node)

    def _clip(self, node: onnx.NodeProto) -> None:
        """Narrow the integers, as Brevitas writes types of fewer bits."""
        found = self._integers[node.input[0]]
        lowest, highest = (self._constants.get(value) for value in [*node.input[1:3], "", ""][:2])
        if lowest is not None:
            bound = int(np.asarray(array_of(lowest)).item())
            found = replace(found, lowest=max(found.lowest, bound))
        if highest is not None:
            bound = int(np.asarray(array_of(highest)).item())
            found = replace(found, highest=min(found.highest, bound))
        self._integers[node.output[0]] = found

    # Saturation.

    def _real(self, integers: str) -> str:
        """Return the float tensor that integers stand for, saturated as they are."""
        if integers not in self._reals:
            self._reals[integers] = self._saturated(self._integers[integers])
        return self._reals[integers]

    def _saturated(self, integers: Integers) -> str:
        """Keep the range; append a ReLU or clip where int8 would not saturate by itself.

        The original lacks activations that saturation replaces: a range that begins at zero is a
        ReLU. Of other ranges only those of fewer steps than int8 has need a clip.
        """
        real, given = integers.real, integers.range
        if not (np.isfinite(integers.scale).all() and (integers.scale > 0).all()):
            raise FrontendError(
                f"{self._path}: {real} is quantised with the scale {integers.scale.min():g}, "
                "expected a positive number",
                hint=AGAIN,
            )
        if real not in self._inputs:
            if given.largest / given.step < _INT8_STEPS - 0.5:
                real = self._append_clip(real, given.low, given.high)
            elif integers.begins_at_zero and real not in self._not_negative:
                real = self._append("Relu", real)
                self._not_negative.add(real)
            elif integers.ends_at_zero:
                real = self._append_clip(real, given.low, 0.0)
        if integers.scale.size == 1:
            self._ranges.setdefault(real, given)
        return real

    def _append_clip(self, real: str, low: float, high: float) -> str:
        lowest, highest = f"{real}/lowest", f"{real}/highest"
        self._add_constant(lowest, np.float32(low))
        self._add_constant(highest, np.float32(high))
        result = self._append("Clip", real, lowest, highest)
        if low >= 0:
            self._not_negative.add(result)
        return result

    def _append(self, kind: str, real: str, *more: str) -> str:
        """Append an activation, which takes the name of its input if nothing else reads that."""
        result = f"{real}/saturated"
        read = real in self._float.values() or any(real in node.input for node in self._kept)
        if not read and len(self._readers.get(real, [])) == 1 and real not in self._outputs:
            result, real = real, f"{real}/unsaturated"
            self._rename(result, real)
        self._kept.append(helper.make_node(kind, [real, *more], [result]))
        return result

    def _rename(self, value: str, name: str) -> None:
        for node in self._kept:
            for values in (node.input, node.output):
                for index, other in enumerate(values):
                    if other == value:
                        values[index] = name

    def _add_constant(self, name: str, values: NDArray[Any] | np.generic) -> None:
        self._model.graph.initializer.append(numpy_helper.from_array(np.asarray(values), name))
        self._constants[name] = self._model.graph.initializer[-1]


def _is_cast_to_float(node: onnx.NodeProto) -> bool:
    targets = [a.i for a in node.attribute if a.name == "to"]
    return node.op_type == "Cast" and targets == [TensorProto.FLOAT]
