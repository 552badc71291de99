"""Choose int8 values for a recognised network: the pass from float nodes to integer operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import FAULT, QuantizeError
from edgepipe.frontend.given_ranges import GivenRange
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.quantize.functions import evaluate
from edgepipe.quantize.given_steps import exact_steps
from edgepipe.quantize.graph import (
    AttentionNode,
    AveragePoolNode,
    ConcatNode,
    ConvNode,
    FloatNode,
    Graph,
    JoinNode,
    LengthNode,
    LinearAttentionNode,
    MatrixNode,
    MaxPoolNode,
    MoveNode,
    Node,
    NormNode,
    PickNode,
    PixelNode,
    ProductNode,
    ResizeNode,
    SoftmaxNode,
    SumNode,
    TableNode,
    picture_shape,
)
from edgepipe.quantize.int16.lowering import Int16Lowering
from edgepipe.quantize.integer_layers import (
    ConvInputs,
    integer_average_pool,
    integer_conv,
    integer_product,
    integer_sum,
)
from edgepipe.quantize.integers import (
    ChannelPick,
    ConstantForm,
    Copied,
    InputTable,
    Int8Form,
    IntegerNetwork,
    Lookup,
    Matrix,
    Operation,
    Reshape,
    ToFloat,
    ToInt8,
)
from edgepipe.quantize.normalising.layers import integer_length, integer_norm
from edgepipe.quantize.on_arm.attention import (
    integer_attention,
    integer_linear_attention,
    integer_product_of_matrices,
)
from edgepipe.quantize.on_arm.layers import (
    integer_affine,
    integer_quotient,
    integer_softmax,
    joined,
)
from edgepipe.quantize.on_arm.records import (
    DilatedPool,
    FreeOperation,
    PictureOperation,
)
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.ranges import Ranges, Target, needed_ranges, reads_int8
from edgepipe.quantize.scheme import TensorRange
from edgepipe.quantize.second_moments import SecondMoments
from edgepipe.tvm_adapter import Binding
from vta_stages.layers.records import Concat, Layer, MaxPool, Pick, Resize, Table, TensorSpec

Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToIntegers:
    """Give every tensor that an integer operator reads a scale, and every operator its constants.

    before   ConvNode y = max(conv(x, float weight) + float bias, 0); FloatNode s = softmax(y)
    after    Conv y: int8 weight, bias, shift, clip; ToFloat y.float; Copied s = softmax(y.float)

    A tensor is int8, float or both; each form is created when an operator first reads it.
    ``measured`` has the ranges of the float tensors, by name, and ``given`` those of a network that
    was quantised already. ``moments`` gives the second moments of a convolution's inputs, about
    the mean if asked for so; without them, weights are rounded to the nearest integer. ``all_int8``
    is the graph before layers became float on request, if any did. ``in_int16`` are the nodes that
    compute in int16 on request; a tensor then has an int16 form, too.
    """

    measured: Mapping[str, TensorRange] = field(repr=False)
    preprocess: Preprocess
    options: QuantizeOptions
    given: Mapping[str, GivenRange] = field(default_factory=dict, repr=False)
    moments: SecondMoments | None = field(default=None, repr=False)
    all_int8: Graph | None = field(default=None, repr=False)
    in_int16: frozenset[str] = frozenset()

    def requires(self, before: Graph) -> Iterator[str]:
        """Frames fit the input, and every range that will be needed was measured."""
        _, height, width, channels = self.preprocess.frame_shape
        if before.shapes[before.input] != (1, channels, height, width):
            yield (
                f"the input is {list(before.shapes[before.input])}, "
                f"expected {[1, channels, height, width]}"
            )
        for tensor in needed_ranges(before):
            if tensor not in self.measured:
                yield f"the range of {tensor} was not measured"

    def apply(self, before: Graph) -> IntegerNetwork:
        """Return the integer operations in the order of the nodes that they come from."""
        lowering = _Lowering(before, self)
        lowering.read_frame()
        for node in before.nodes:
            lowering.lower(node)
        for name in before.outputs:
            lowering.float_form(name)
        return IntegerNetwork(
            input=before.input,
            frame_shape=self.preprocess.frame_shape,
            operations=tuple(lowering.operations),
            outputs={name: before.shapes[name] for name in before.outputs},
            scales=lowering.scales,
            zeros=lowering.zeros,
            int16_scales=lowering.in_int16.scales,
        )

    def ensures(self, before: Graph, after: IntegerNetwork) -> Iterator[str]:
        """The same outputs; every layer's output has one scale per channel."""
        if tuple(after.outputs) != before.outputs:
            yield f"the outputs are {tuple(after.outputs)}, expected {before.outputs}"
        for layer in after.operations:
            if isinstance(layer, Layer):
                scale = after.scales.get(layer.name)
                if scale is None or scale.shape != (layer.output.channels,):
                    yield f"{layer.name} has not one scale for each of its channels"


class _Lowering:
    """The operators so far, and the forms of the tensors that they compute."""

    def __init__(self, graph: Graph, choices: ToIntegers) -> None:
        self.operations: list[Operation] = []
        self.scales: dict[str, Float] = {}
        self.zeros: dict[str, int] = {}
        self._graph = graph
        self._ranges = Ranges(
            graph,
            choices.measured,
            choices.options,
            choices.given,
            exact_steps(graph, choices.given, choices.options),
            choices.all_int8,
        )
        self._preprocess = choices.preprocess
        self._options = choices.options
        self._moments = choices.moments
        self._users = graph.users()
        self._ints: dict[str, Int8Form] = {}
        self._floats: dict[str, str] = {}
        self.in_int16 = Int16Lowering(
            graph=graph,
            ranges=self._ranges,
            preprocess=choices.preprocess,
            requested=choices.in_int16,
            operations=self.operations,
            int8_forms=self._ints,
            floats=self._floats,
        )

    def lower(self, node: Node) -> None:
        """Append the operators of a node."""
        if self.in_int16.takes(node):
            self.in_int16.lower(node)
        else:
            _LOWERINGS[type(node)](self, node)

    # Forms of a tensor.

    def float_form(self, tensor: str) -> str:
        """Return the float form's name, dequantising the finest integer form if there is none."""
        if tensor not in self._floats:
            form = self._ints[tensor] if tensor not in self.in_int16 else self.in_int16.form(tensor)
            shape = self._graph.shapes[tensor]
            scale = form.scale[:1] if form.is_uniform else form.scale
            taken = tensor == self._graph.input or any(o.name == tensor for o in self.operations)
            self._floats[tensor] = name = f"{tensor}.float" if taken else tensor
            self.operations.append(
                ToFloat(
                    name=name,
                    tensor=form.name,
                    step=scale.astype(np.float32),
                    shape=shape if form.shape != shape else (),
                )
            )
        return self._floats[tensor]

    def _int8_form(self, tensor: str) -> Int8Form:
        """Return the int8 form, rounding the int16 or float form if there is no other."""
        if tensor not in self._ints and tensor in self.in_int16:
            spec = self._spec(tensor, name=f"{tensor}.int8")
            target = self.in_int16.narrowed(tensor, spec.name)
            self._made(tensor, spec, target.step, target.zero)
        elif tensor not in self._ints:
            flat = len(self._graph.shapes[tensor]) != 4
            spec = self._spec(tensor, name=f"{tensor}.int8")
            step = self._ranges.converted_target(tensor).step.max()
            self.operations.append(
                ToInt8(
                    name=spec.name,
                    tensor=self._floats[tensor],
                    step=np.array([step], np.float32),
                    shape=(1, spec.channels, spec.height, spec.width) if flat else (),
                )
            )
            self._made(tensor, spec, np.full(spec.channels, float(step)))
        return self._ints[tensor]

    def _spec(self, tensor: str, *, name: str = "") -> TensorSpec:
        """Return the int8 form that ``tensor`` will have; an output's name is its float form's."""
        name = name or self._int8_name(tensor)
        shape = picture_shape(self._graph.shapes[tensor])
        if shape is None:
            raise QuantizeError(
                f"{tensor}: has shape {self._graph.shapes[tensor]}, not a picture", hint=FAULT
            )
        return TensorSpec(name=name, channels=shape[1], height=shape[2], width=shape[3])

    def _int8_name(self, tensor: str) -> str:
        return f"{tensor}.int8" if tensor in self._graph.outputs else tensor

    def _made(self, tensor: str, spec: TensorSpec, scale: Float, zero: int = 0) -> None:
        shape = (1, spec.channels, spec.height, spec.width)
        self._ints[tensor] = Int8Form(name=spec.name, shape=shape, scale=scale, zero=zero)
        self.scales[spec.name] = scale
        if zero:
            self.zeros[spec.name] = zero

    def _append(
        self, tensor: str, layer: Layer | PictureOperation, scale: Float, zero: int = 0
    ) -> None:
        """Append the layer that computes the int8 form of ``tensor``."""
        self.operations.append(layer)
        self._made(tensor, layer.output, scale, zero)

    # Operators.

    def read_frame(self) -> None:
        """Look the frame's bytes up in a table of the network's input values in int8.

        There is none if only int16 layers read the picture.
        """
        frame = self._graph.input
        if self.in_int16.alone_reads(frame):
            return
        values = self._preprocess.values()
        scale = np.abs(values).max(axis=1) / 127
        if frame in self._ranges.fixed:
            scale = self._ranges.target(frame).step
        table = np.clip(np.rint(values / scale[:, None]), -128, 127).astype(np.int8)
        spec = self._spec(frame, name=f"{frame}.int8")
        self.operations.append(InputTable(name=spec.name, frame=frame, table=table))
        self._made(frame, spec, scale)

    def conv(self, node: ConvNode) -> None:
        inputs = ConvInputs(
            source=self._int8_form(node.input),
            projections=tuple(self._int8_form(part.input) for part in node.projections),
            residuals=tuple(self._int8_form(tensor) for tensor, _ in node.residuals),
        )
        target = self._ranges.target(node.name, node.activation.high)
        made = integer_conv(
            node,
            inputs,
            self._spec(node.name),
            target,
            self._ranges.mean,
            self._second_moments,
            self._options.of(node.name),
        )
        self._append(node.name, *made, target.zero)

    def _second_moments(self, node: ConvNode) -> tuple[Float, ...]:
        if self._moments is None:
            return ()
        # Moments about the mean suppose that the bias makes up for errors of the mean.
        is_corrected = self._options.of(node.name).bias_correction and all(
            self._ranges.mean(tensor) is not None for tensor in node.weighted_inputs
        )
        return self._moments.of(node, central=is_corrected)

    def sum(self, node: SumNode) -> None:
        inputs = [self._int8_form(tensor) for tensor in node.inputs]
        target = self._ranges.target(node.name, node.activation.high)
        made = integer_sum(node, inputs, self._spec(node.name), target, self._options)
        self._append(node.name, *made, target.zero)

    def product(self, node: ProductNode) -> None:
        inputs = [self._int8_form(tensor) for tensor in node.inputs]
        target = self._ranges.target(node.name, node.activation.high)
        spec = self._spec(node.name)
        if node.divides:
            quotient, scale = integer_quotient(node, inputs, spec, target, self._options)
            self._append(node.name, quotient, scale, target.zero)
            return
        made = integer_product(node, inputs, spec, target, self._options)
        self._append(node.name, *made, target.zero)

    def affine(self, node: PixelNode) -> None:
        source = self._int8_form(node.input)
        target = self._ranges.target(node.name, node.activation.high)
        made = integer_affine(node, source, self._spec(node.name), target, self._options)
        self._append(node.name, *made, target.zero)

    def join(self, node: JoinNode) -> None:
        forms = {part: self._int8_form(part) for part in node.inputs}
        self._append(node.name, *joined(node, forms, self._spec(node.name)))

    def norm(self, node: NormNode) -> None:
        """Normalise a picture whose channels share a step."""
        source = self._even_form(node.input)
        target = self._ranges.target(node.name, node.activation.high)
        output = self._spec(node.name)
        norm, scale = integer_norm(node, source, output, target)
        self.operations.append(norm)
        self._made(node.name, output, scale, target.zero)

    def length(self, node: LengthNode) -> None:
        """Sum over pixels of a picture whose channels share a step."""
        source = self._even_form(node.input)
        target = self._ranges.target(node.name)
        output = self._spec(node.name)
        length, scale = integer_length(node, source, output, target)
        self.operations.append(length)
        self._made(node.name, output, scale, target.zero)

    def softmax(self, node: SoftmaxNode) -> None:
        """Compute a softmax of a picture whose channels share a step."""
        source = self._even_form(node.input)
        target = self._ranges.target(node.name, high=1.0)
        layer, scale = integer_softmax(node, source, self._spec(node.name), target)
        self._append(node.name, layer, scale, target.zero)

    def attention(self, node: AttentionNode) -> None:
        """Compute attention of tensors with one step each; they need not be pictures."""
        forms = [self._matrix(matrix) for matrix in node.matrices]
        target = self._ranges.target(node.name)
        made = integer_attention(node, forms, self._int8_name(node.name), target)
        self._append_free(node.name, *made)

    def linear_attention(self, node: LinearAttentionNode) -> None:
        """Compute linear attention of tensors with one step each; they need not be pictures."""
        query, key, value = (self._moved_form(tensor) for tensor in node.inputs)
        target = self._ranges.target(node.name)
        name = self._int8_name(node.name)
        self._append_free(
            node.name, *integer_linear_attention(node, (query, key, value), name, target)
        )

    def matrices(self, node: MatrixNode) -> None:
        """Multiply two tensors with one step each; they need not be pictures."""
        matrices = (self._matrix(node.first), self._matrix(node.second))
        target = self._ranges.target(node.name)
        made = integer_product_of_matrices(node, matrices, self._int8_name(node.name), target)
        self._append_free(node.name, *made)

    def _matrix(self, matrix: str | Float) -> Matrix:
        """Return a tensor, or a constant, with one step; it need not be a picture."""
        return self._moved_form(matrix) if isinstance(matrix, str) else ConstantForm.of(matrix)

    def _append_free(self, tensor: str, layer: FreeOperation, step: float) -> None:
        """Append an operator whose result has one step and any shape."""
        self.operations.append(layer)
        shape = self._graph.shapes[tensor]
        channels = shape[1] if picture_shape(shape) else 1
        form = Int8Form(name=layer.name, shape=shape, scale=np.full(channels, step))
        self._ints[tensor] = form
        self.scales[layer.name] = form.scale

    def average_pool(self, node: AveragePoolNode) -> None:
        source = self._int8_form(node.input)
        target = self._ranges.target(node.name)
        made = integer_average_pool(node, source, self._spec(node.name), target)
        self._append(node.name, *made)

    def max_pool(self, node: MaxPoolNode) -> None:
        make: Callable[..., Layer | DilatedPool] = MaxPool
        if node.dilation != (1, 1):
            make = partial(DilatedPool, dilation=node.dilation)
        make = partial(make, kernel=node.kernel, stride=node.stride, padding=node.padding)
        self._keep_scale(node, make)

    def resize(self, node: ResizeNode) -> None:
        self._keep_scale(node, partial(Resize, rows=node.rows, cols=node.cols, shift=node.shift))

    def _keep_scale(
        self, node: MaxPoolNode | ResizeNode, make: Callable[..., Layer | DilatedPool]
    ) -> None:
        """Append a layer whose output has the scale of its only input."""
        source = self._int8_form(node.input)
        output = self._spec(node.name)
        layer = make(name=output.name, input=source.spec, output=output)
        self._append(node.name, layer, source.scale)

    def concat(self, node: ConcatNode) -> None:
        parts = [self._int8_form(part) for part in node.parts]
        output = self._spec(node.name)
        layer = Concat(name=output.name, inputs=tuple(p.spec for p in parts), output=output)
        self._append(node.name, layer, np.concatenate([part.scale for part in parts]))

    def pick(self, node: PickNode) -> None:
        channels = node.channels
        if node.input not in self._ints:
            source = self.float_form(node.input)
            self.operations.append(ChannelPick(name=node.name, tensor=source, channels=channels))
            self._floats[node.name] = node.name
            return
        form = self._ints[node.input]
        output = self._spec(node.name)
        layer = Pick(name=output.name, input=form.spec, output=output, channels=channels)
        self._append(node.name, layer, form.scale[list(channels)])

    def move(self, node: MoveNode) -> None:
        """Move int8 if the scale allows it: a quarter of the bytes, and conversion comes later.

        Between [1, k] and [1, k, 1, 1], there is nothing to move.
        """
        form = None if node.input in self.in_int16 else self._ints.get(node.input)
        before, after = (picture_shape(self._graph.shapes[t]) for t in (node.input, node.name))
        is_reshape = node.binding.op == "reshape"
        if form is not None and is_reshape and before == after is not None:
            self._ints[node.name] = form
            return
        if form is not None and not form.is_uniform and reads_int8(self._users, node.name):
            form = self._with_one_step(node.input, form)
        # The int8 form of [1, k] is [1, k, 1, 1]; for a reshape, that is the same.
        has_shape = form is not None and form.shape == self._graph.shapes[node.input]
        if form is None or not (has_shape or is_reshape) or not form.is_uniform:
            self._copy(node.name, node.binding)
            return
        name = self._int8_name(node.name)
        renamed = {node.input: form.name}
        self.operations.append(Copied(name=name, binding=node.binding, renamed=renamed))
        shape = self._graph.shapes[node.name]
        picture = picture_shape(shape)
        if picture is not None and picture != shape:
            self.operations.append(Reshape(name=f"{name}.nchw", tensor=name, shape=picture))
            name = f"{name}.nchw"
        channels = picture[1] if picture else 1
        moved = Int8Form(name=name, shape=picture or shape, scale=np.full(channels, form.scale[0]))
        self._ints[node.name] = moved
        self.scales[name] = moved.scale

    def _moved_form(self, tensor: str) -> Int8Form:
        """Return the int8 form of a tensor in its own shape, with one step."""
        shape, name = self._graph.shapes[tensor], f"{tensor}.int8"
        if tensor in self._ints or picture_shape(shape) == shape:
            return self._even_form(tensor)
        if tensor in self.in_int16:
            step = self.in_int16.narrowed(tensor, name).step.max()
        else:
            step = self._ranges.converted_target(tensor).step.max()
            source = self._floats[tensor]
            made = ToInt8(name=name, tensor=source, step=np.array([step], np.float32))
            self.operations.append(made)
        self._ints[tensor] = form = Int8Form(name=name, shape=shape, scale=np.full(1, float(step)))
        self.scales[name] = form.scale
        return form

    def _even_form(self, tensor: str) -> Int8Form:
        """Return the int8 form of a tensor, with one step for all channels."""
        form = self._int8_form(tensor)
        return form if form.is_uniform else self._with_one_step(tensor, form)

    def _with_one_step(self, tensor: str, form: Int8Form) -> Int8Form:
        """Return ``form`` with the largest of its channels' steps, for what mixes channels."""
        step = np.full(form.scale.size, float(form.scale.max()))
        ones, spec = np.ones(step.size), replace(form.spec, name=f"{form.name}.even")
        if spec.name not in self.scales:
            node = SumNode(name=spec.name, terms=((tensor, ones),), bias=0 * ones)
            target = Target(step=step, is_fixed=True)
            layer, _ = integer_sum(node, [form], spec, target, self._options)
            self.operations.append(layer)
            self.scales[spec.name] = step
        return Int8Form(name=spec.name, shape=form.shape, scale=step)

    def table(self, node: TableNode) -> None:
        """Look int8 values up; the result is int8 if an integer operator reads it, else float."""
        if node.input in self.in_int16:
            self._int8_form(node.input)
        if node.input not in self._ints:
            self._copy_all(node)
            return
        source = self._ints[node.input]
        shape = self._graph.shapes[node.name]
        stays_int8 = picture_shape(shape) is not None and reads_int8(self._users, node.name)
        if stays_int8 and self._options.one_table:
            source = self._even_form(node.input)
        scale = source.scale[:1] if source.is_uniform else source.scale
        values = evaluate(node.bindings, node.input, np.arange(-128, 128) * scale[:, None])
        if not stays_int8:
            name = node.name if source.shape == shape else f"{node.name}.nchw"
            table = values.astype(np.float32)
            self.operations.append(Lookup(name=name, tensor=source.name, table=table))
            if name != node.name:
                self.operations.append(Reshape(name=node.name, tensor=name, shape=shape))
            self._floats[node.name] = node.name
            return
        output = self._spec(node.name)
        target = self._ranges.table_target(node.name, values)
        steps = np.rint(values / target.step[:, None]) + target.zero
        steps = np.clip(steps, -128, 127).astype(np.int8)
        rows = steps[:1] if (steps == steps[0]).all() else steps
        layer = Table(name=output.name, input=source.spec, output=output, table=rows)
        self._append(node.name, layer, target.step, target.zero)

    def float(self, node: FloatNode) -> None:
        self._copy(node.name, node.binding)

    def _copy_all(self, node: TableNode) -> None:
        """Keep the calls of a function as they were, on the float form of its input."""
        renamed = {node.input: self.float_form(node.input)}
        last = len(node.bindings) - 1
        for index, binding in enumerate(node.bindings):
            name = node.name if index == last else f"{node.name}__step{index}"
            self.operations.append(Copied(name=name, binding=binding, renamed=dict(renamed)))
            renamed[binding.name] = name
        self._floats[node.name] = node.name

    def _copy(self, name: str, binding: Binding) -> None:
        """Keep a call unchanged, on the float forms of its inputs."""
        renamed = {tensor: self.float_form(tensor) for tensor in binding.inputs}
        self.operations.append(Copied(name=name, binding=binding, renamed=renamed))
        self._floats[name] = name


_LOWERINGS: dict[type[Node], Callable[[_Lowering, Any], None]] = {
    ConvNode: _Lowering.conv,
    SumNode: _Lowering.sum,
    ProductNode: _Lowering.product,
    NormNode: _Lowering.norm,
    LengthNode: _Lowering.length,
    SoftmaxNode: _Lowering.softmax,
    AttentionNode: _Lowering.attention,
    LinearAttentionNode: _Lowering.linear_attention,
    MatrixNode: _Lowering.matrices,
    AveragePoolNode: _Lowering.average_pool,
    MaxPoolNode: _Lowering.max_pool,
    ResizeNode: _Lowering.resize,
    ConcatNode: _Lowering.concat,
    JoinNode: _Lowering.join,
    PixelNode: _Lowering.affine,
    PickNode: _Lowering.pick,
    MoveNode: _Lowering.move,
    TableNode: _Lowering.table,
    FloatNode: _Lowering.float,
}
