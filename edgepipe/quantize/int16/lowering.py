"""Lower the layers that were requested in int16, and convert tensors where their region ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.frontend.preprocess import Preprocess
from edgepipe.quantize.functions import evaluate
from edgepipe.quantize.graph import (
    AveragePoolNode,
    ConcatNode,
    ConvNode,
    Graph,
    MaxPoolNode,
    MoveNode,
    Node,
    PickNode,
    ProductNode,
    ResizeNode,
    SumNode,
    TableNode,
    picture_shape,
)
from edgepipe.quantize.int16.forms import TABLE_BITS
from edgepipe.quantize.int16.layers import (
    REACH,
    ConvForms,
    Form,
    narrow,
    wide_average_pool,
    wide_conv,
    wide_product,
    wide_sum,
)
from edgepipe.quantize.int16.records import (
    ToInt16,
    WideConcat,
    WideLayer,
    WideMaxPool,
    WideOperation,
    WideResize,
    WideTable,
)
from edgepipe.quantize.integers import (
    ChannelPick,
    Copied,
    InputTable,
    Int8Form,
    Operation,
    Reshape,
)
from edgepipe.quantize.ranges import Ranges, Target, reads_int8

Float = NDArray[np.float64]

STEPS = 256
"""The steps of int16 in one of int8, where a tensor's int16 form has int8's range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Int16Lowering:
    """The int16 forms of tensors, and the operators that compute and read them.

    ``requested`` are the nodes that compute in int16. What moves the values of an int16 tensor, a
    ``PickNode`` or ``MoveNode``, moves int16. ``operations``, ``int8_forms`` and ``floats`` (the
    names of float forms) are those of the whole network, ``scales`` the steps of int16 tensors,
    float64[channels].
    """

    graph: Graph
    ranges: Ranges
    preprocess: Preprocess
    requested: Collection[str]
    operations: list[Operation]
    int8_forms: Mapping[str, Int8Form]
    floats: dict[str, str]
    scales: dict[str, Float] = field(default_factory=dict)
    _forms: dict[str, Form] = field(default_factory=dict)

    def takes(self, node: Node) -> bool:
        """Return whether the node is one of an int16 region.

        Of int8 values, max pools and concatenations make int8 values, so they take no part.
        """
        if isinstance(node, PickNode):
            return node.input in self._forms
        if isinstance(node, MoveNode):
            return self._is_same_picture(node) or self._can_move(node)
        if node.name not in self.requested:
            return False
        if isinstance(node, MaxPoolNode | ConcatNode):
            return any(self._is_finer(tensor) for tensor in node.inputs)
        return not isinstance(node, TableNode) or self._is_integer(node.input)

    def lower(self, node: Node) -> None:
        """Append the operators of a node that this ``takes``."""
        _LOWERINGS[type(node)](self, node)

    def __contains__(self, tensor: str) -> bool:
        """Return whether a tensor has an int16 form."""
        return tensor in self._forms

    def alone_reads(self, tensor: str) -> bool:
        """Return whether only nodes that compute in int16 read a tensor."""
        users = self.graph.users()[tensor]
        is_output = tensor in self.graph.outputs
        return not is_output and all(user.name in self.requested for user in users)

    def form(self, tensor: str) -> Form:
        """Return the int16 form of a tensor that has one."""
        return self._forms[tensor]

    def narrowed(self, tensor: str, name: str) -> Target:
        """Append the operator that makes the int8 form ``name`` of an int16 tensor."""
        form = self._forms[tensor]
        self.operations.append(narrow(name, form))
        return form.target

    # Forms of a tensor.

    def _is_same_picture(self, node: MoveNode) -> bool:
        """Return whether an int16 tensor is reshaped between [1, k] and [1, k, 1, 1]."""
        before, after = (picture_shape(self.graph.shapes[t]) for t in (node.input, node.name))
        is_reshape = node.input in self._forms and node.binding.op == "reshape"
        return is_reshape and before == after is not None

    def _can_move(self, node: MoveNode) -> bool:
        """Return whether the input has an int16 form with one step, of a shape that can move.

        The form of [1, k] is [1, k, 1, 1]; for a reshape, that is the same.
        """
        form = self._forms.get(node.input)
        has_shape = form is not None and form.shape == self.graph.shapes[node.input]
        can_move = has_shape or node.binding.op == "reshape"
        return form is not None and form.is_uniform and can_move

    def _is_integer(self, tensor: str) -> bool:
        return tensor in self._forms or tensor in self.int8_forms or tensor == self.graph.input

    def _is_finer(self, tensor: str) -> bool:
        return tensor in self._forms or tensor not in self.int8_forms

    def _source(self, tensor: str) -> Form:
        """Return the finest integer form; the picture and float tensors get one in int16."""
        if tensor in self._forms:
            return self._forms[tensor]
        if tensor == self.graph.input:
            return self._picture()
        if tensor in self.int8_forms:
            form = self.int8_forms[tensor]
            target = Target(step=form.scale, zero=form.zero)
            return Form(
                name=form.name,
                dtype="int8",
                shape=form.shape,
                scale=form.scale,
                target=target,
                zero=form.zero,
            )
        step = self.ranges.int16_step(tensor)
        shape = self.graph.shapes[tensor]
        self.operations.append(
            ToInt16(
                name=f"{tensor}.int16",
                tensor=self.floats[tensor],
                step=np.array([step], np.float32),
                shape=self._shape(tensor) if len(shape) != 4 else (),
            )
        )
        target = self.ranges.converted_target(tensor)
        return self._made(tensor, f"{tensor}.int16", step, target)

    def _picture(self) -> Form:
        """Look the frame's bytes up in a table of the network's input values in int16."""
        frame = self.graph.input
        values = self.preprocess.values()
        scale = np.abs(values).max(axis=1) / (REACH - 1)
        if frame in self.ranges.fixed:
            scale = self.ranges.target(frame).step / STEPS
        table = np.clip(np.rint(values / scale[:, None]), -REACH, REACH - 1).astype(np.int16)
        name = f"{frame}.int16"
        self.operations.append(InputTable(name=name, frame=frame, table=table))
        return self._made(frame, name, scale, Target(step=scale * STEPS))

    def _shape(self, tensor: str) -> tuple[int, ...]:
        """Return the shape of a tensor's integer forms."""
        shape = self.graph.shapes[tensor]
        return picture_shape(shape) or shape

    def _name(self, tensor: str) -> str:
        """Return the name of the form that a node makes; an output's name is its float form's."""
        return f"{tensor}.int16" if tensor in self.graph.outputs else tensor

    def _made(self, tensor: str, name: str, scale: Float | float, target: Target) -> Form:
        shape = self._shape(tensor)
        steps = np.broadcast_to(np.asarray(scale, np.float64), shape[1:2]).copy()
        form = Form(name=name, dtype="int16", shape=shape, scale=steps, target=target)
        self._forms[tensor] = form
        self.scales[name] = steps
        return form

    def _append(
        self, tensor: str, operation: WideOperation, scale: Float | float, target: Target
    ) -> None:
        self.operations.append(operation)
        self._made(tensor, operation.name, scale, target)

    # Operators.

    def _conv(self, node: ConvNode) -> None:
        forms = ConvForms(
            source=self._source(node.input),
            projections=tuple(self._source(part.input) for part in node.projections),
            residuals=tuple(self._source(tensor) for tensor, _ in node.residuals),
            output=self._shape(node.name),
        )
        step = self.ranges.int16_step(node.name, node.activation.high)
        self._layer(node, wide_conv(self._name(node.name), node, forms, step))

    def _sum(self, node: SumNode) -> None:
        forms = [self._source(tensor) for tensor in node.inputs]
        step = self.ranges.int16_step(node.name, node.activation.high)
        self._layer(node, wide_sum(self._name(node.name), node, forms, step))

    def _product(self, node: ProductNode) -> None:
        forms = [self._source(tensor) for tensor in node.inputs]
        step = self.ranges.int16_step(node.name, node.activation.high)
        self._layer(node, wide_product(self._name(node.name), node, forms, step))

    def _layer(self, node: ConvNode | SumNode | ProductNode, made: tuple[WideLayer, float]) -> None:
        target = self.ranges.target(node.name, node.activation.high)
        self._append(node.name, *made, target)

    def _average_pool(self, node: AveragePoolNode) -> None:
        step = self.ranges.int16_step(node.name)
        made = wide_average_pool(self._name(node.name), node, self._source(node.input), step)
        self._append(node.name, *made, self.ranges.target(node.name))

    def _max_pool(self, node: MaxPoolNode) -> None:
        source = self._source(node.input)
        pool = WideMaxPool(
            name=self._name(node.name),
            source=source.operand,
            kernel=node.kernel,
            stride=node.stride,
            padding=node.padding,
            dilation=node.dilation,
        )
        self._append(node.name, pool, source.scale, source.target)

    def _resize(self, node: ResizeNode) -> None:
        source = self._source(node.input)
        finer = STEPS if source.dtype == "int8" else 1  # steps of the result in one of the source
        resize = WideResize(
            name=self._name(node.name),
            source=source.operand,
            rows=node.rows.astype(np.int64),
            cols=node.cols.astype(np.int64),
            shift=node.shift - (finer.bit_length() - 1),
        )
        self._append(node.name, resize, source.scale / finer, source.target)

    def _concat(self, node: ConcatNode) -> None:
        parts = [self._source(part) for part in node.parts]
        concat = WideConcat(name=self._name(node.name), parts=tuple(part.operand for part in parts))
        scales = [part.scale / (STEPS if part.dtype == "int8" else 1) for part in parts]
        target = Target(step=np.concatenate([part.target.step for part in parts]))
        self._append(node.name, concat, np.concatenate(scales), target)

    def _pick(self, node: PickNode) -> None:
        source, channels = self._forms[node.input], node.channels
        name = self._name(node.name)
        self.operations.append(ChannelPick(name=name, tensor=source.name, channels=channels))
        picked = list(channels)
        target = Target(step=source.target.step[picked])
        self._made(node.name, name, source.scale[picked], target)

    def _move(self, node: MoveNode) -> None:
        """Move int16 values, which have one step (see ``takes``)."""
        source = self._forms[node.input]
        if self._is_same_picture(node):
            self._forms[node.name] = source
            return
        name = self._name(node.name)
        renamed = {node.input: source.name}
        self.operations.append(Copied(name=name, binding=node.binding, renamed=renamed))
        shape = self.graph.shapes[node.name]
        picture = picture_shape(shape)
        if picture is not None and picture != shape:
            self.operations.append(Reshape(name=f"{name}.nchw", tensor=name, shape=picture))
            name = f"{name}.nchw"
        channels = picture[1] if picture else 1
        step = np.full(channels, source.target.step.max())
        self._made(node.name, name, float(source.scale[0]), Target(step=step))

    def _table(self, node: TableNode) -> None:
        """Look values up; the result is int16 if an integer operator reads it, else float."""
        source = self._source(node.input)
        factor, values = self._results(node, source)
        shape = self.graph.shapes[node.name]
        users = self.graph.users()
        if picture_shape(shape) is None or not reads_int8(users, node.name):
            name = node.name if source.shape == shape else f"{node.name}.nchw"
            table = values.astype(np.float32)
            self.operations.append(
                WideTable(name=name, source=source.operand, table=table, factor=factor)
            )
            if name != node.name:
                self.operations.append(Reshape(name=node.name, tensor=name, shape=shape))
            self.floats[node.name] = node.name
            return
        step = self.ranges.int16_table_step(node.name, values)
        steps = np.clip(np.rint(values / step), -REACH, REACH - 1).astype(np.int16)
        table_ = WideTable(
            name=self._name(node.name), source=source.operand, table=steps, factor=factor
        )
        self._append(node.name, table_, step, self.ranges.table_target(node.name, values))

    def _results(self, node: TableNode, source: Form) -> tuple[NDArray[np.int64] | None, Float]:
        """Return a function's results, float64[rows, n], and the factor of a ``WideTable``."""
        if source.dtype == "int8":
            scale = source.scale[:1] if source.is_uniform else source.scale
            return None, evaluate(node.bindings, node.input, np.arange(-128, 128) * scale[:, None])
        step = source.scale.max()
        values = evaluate(node.bindings, node.input, np.arange(-REACH, REACH)[None] * step)
        factor = np.rint(source.scale / step * 2**TABLE_BITS).astype(np.int64)
        return (None if source.is_uniform else factor), values


_LOWERINGS: dict[type[Node], Callable[[Int16Lowering, Any], None]] = {
    ConvNode: Int16Lowering._conv,
    SumNode: Int16Lowering._sum,
    ProductNode: Int16Lowering._product,
    AveragePoolNode: Int16Lowering._average_pool,
    MaxPoolNode: Int16Lowering._max_pool,
    ResizeNode: Int16Lowering._resize,
    ConcatNode: Int16Lowering._concat,
    PickNode: Int16Lowering._pick,
    MoveNode: Int16Lowering._move,
    TableNode: Int16Lowering._table,
}
