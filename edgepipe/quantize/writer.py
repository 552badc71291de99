"""Write the quantised graph as integer Relax: one small method for each kind of node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import QuantizeError
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.quantize import emit
from edgepipe.quantize.calibrate import TensorStatistics
from edgepipe.quantize.graph import (
    AveragePoolNode,
    ConcatNode,
    ConvNode,
    FloatNode,
    Graph,
    MaxPoolNode,
    MoveNode,
    Node,
    ResizeNode,
    SliceNode,
    SumNode,
    TableNode,
    is_integer,
    picture_shape,
)
from edgepipe.quantize.leaky import gain_of, leaky, steps_for
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.ranges import Ranges
from edgepipe.quantize.weights import (
    MAX_SHIFT,
    as_weight,
    expected_error,
    input_rows,
    quantise_factors,
    quantise_rows,
    require_no_overflow,
    snap,
)
from edgepipe.tvm_adapter import Binding, IRModule, ModuleBuilder
from vta_stages.layers.records import (
    Concat,
    Conv,
    Epilogue,
    Layer,
    MaxPool,
    Projection,
    Resize,
    Sum,
    TensorSpec,
    Term,
    TransposedConv,
)

Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Int:
    """The int8 form of a tensor: its variable, shape and scale, float64[channels] or [1]."""

    name: str
    shape: tuple[int, ...]
    scale: Float

    @property
    def spec(self) -> TensorSpec:
        _, channels, height, width = self.shape
        return TensorSpec(name=self.name, channels=channels, height=height, width=width)

    @property
    def is_uniform(self) -> bool:
        return bool(np.all(self.scale == self.scale[0]))


class Writer:
    """Writes the integer module node by node, in the graph's order.

    A tensor exists as int8 (a TensorSpec with a scale per channel), as float, or both; each form is
    made when a node first asks for it.
    """

    def __init__(
        self,
        graph: Graph,
        module: IRModule,
        statistics: Mapping[str, TensorStatistics],
        preprocess: Preprocess,
        options: QuantizeOptions,
    ) -> None:
        self._graph = graph
        self._module = module
        self._users = graph.users()
        self._ranges = Ranges(graph, statistics, options)
        self._preprocess = preprocess
        self._options = options
        self._builder = ModuleBuilder()
        self._ints: dict[str, _Int] = {}
        self._floats: dict[str, str] = {}
        self.scales: dict[str, Float] = {}

    def write(self) -> IRModule:
        self._write_input()
        for node in self._graph.nodes:
            _WRITERS[type(node)](self, node)
        outputs = [self._float(name) for name in self._graph.outputs]
        return self._builder.finish(outputs, returns_tuple=len(outputs) > 1)

    # Forms of a tensor.

    def _spec(self, tensor: str, *, name: str = "") -> TensorSpec:
        """Return what the int8 form of ``tensor`` will be; an output's own name is its float's."""
        name = name or (f"{tensor}.int8" if tensor in self._graph.outputs else tensor)
        shape = picture_shape(self._graph.shapes[tensor])
        if shape is None:
            raise QuantizeError(f"{tensor}: has shape {self._graph.shapes[tensor]}, not a picture")
        return TensorSpec(name=name, channels=shape[1], height=shape[2], width=shape[3])

    def _made(self, tensor: str, spec: TensorSpec, scale: Float) -> None:
        shape = (1, spec.channels, spec.height, spec.width)
        self._ints[tensor] = _Int(name=spec.name, shape=shape, scale=scale)
        self.scales[spec.name] = scale

    def _write_layer(self, tensor: str, layer: Layer, scale: Float) -> None:
        """Write what makes the int8 form of ``tensor``."""
        emit.emit_layer(self._builder, layer)
        self._made(tensor, layer.output, scale)

    def _int(self, tensor: str) -> _Int:
        """Return the int8 form of ``tensor``, quantising the float form if need be."""
        if tensor not in self._ints:
            flat = len(self._graph.shapes[tensor]) != 4
            spec = self._spec(tensor, name=f"{tensor}.int8")
            step = self._ranges.covered(tensor).max() / 127
            emit.emit_quantize(
                self._builder,
                spec.name,
                self._floats[tensor],
                np.array([step], np.float32),
                reshape=(1, spec.channels, spec.height, spec.width) if flat else (),
            )
            self._made(tensor, spec, np.full(spec.channels, float(step)))
        return self._ints[tensor]

    def _float(self, tensor: str) -> str:
        """Return the float form of ``tensor``, dequantising the int8 form if need be."""
        if tensor not in self._floats:
            form = self._ints[tensor]
            shape = self._graph.shapes[tensor]
            scale = form.scale[:1] if form.is_uniform else form.scale
            self._floats[tensor] = emit.emit_dequantize(
                self._builder,
                tensor if form.name != tensor else f"{tensor}.float",
                form.name,
                scale.astype(np.float32),
                reshape=shape if form.shape != shape else (),
            )
        return self._floats[tensor]

    def _wants_int(self, tensor: str) -> bool:
        """Tell whether some operator reads the int8 form of ``tensor``, through moves too."""
        return any(
            is_integer(user)
            or (isinstance(user, SliceNode) and self._wants_int(user.name))
            or (isinstance(user, MoveNode) and self._wants_int(user.name))
            for user in self._users[tensor]
        )

    # Nodes.

    def _write_input(self) -> None:
        preprocess = self._preprocess
        frame = self._builder.param(self._graph.input, preprocess.frame_shape, "uint8")
        values = preprocess.values()
        scale = np.abs(values).max(axis=1) / 127
        table = np.rint(values / scale[:, None]).astype(np.int8)
        spec = self._spec(self._graph.input, name=f"{self._graph.input}.int8")
        emit.emit_input_table(self._builder, spec.name, frame, table)
        self._made(self._graph.input, spec, scale)

    def _write_conv(self, node: ConvNode) -> None:
        source = self._int(node.input)
        output = self._spec(node.name)
        scale = np.minimum(self._ranges.covered(node.name), node.activation.high) / 127
        own = input_rows(node, source.scale)
        # Projections share the accumulator, and with it each channel's weight step.
        projected = [(self._int(part.input), part) for part in node.projections]
        real = np.hstack([own, *(part.weight * form.scale for form, part in projected)])
        scale = np.maximum(scale, np.abs(real).max(axis=1) / 127)
        gain = self._gain(node)
        residuals = [(self._int(tensor), factor) for tensor, factor in node.residuals]
        rows, shift = quantise_rows(real / (gain * scale[:, None]))
        if residuals:
            first, factor = residuals[0]
            scale = snap(scale, first.scale * factor / gain, shift)
            scale = np.minimum(scale, node.activation.high / 127)
            rows, shift = quantise_rows(real / (gain * scale[:, None]))
        unit = gain * scale * 2.0**-shift
        terms = tuple(
            Term(tensor=form.spec, factor=quantise_factors(form.scale * factor / unit))
            for form, factor in residuals
        )
        borders = np.cumsum([own.shape[1], *(form.scale.size for form, _ in projected)])[:-1]
        bias = node.bias / unit
        if self._options.bias_correction:
            errors = np.split(real / unit[:, None] - rows, borders, axis=1)
            bias = bias + self._expected_error(node, errors)
        epilogue = self._epilogue(node, scale, shift, bias, np.abs(rows).sum(axis=1), terms)
        own_rows, *projected_rows = np.split(rows, borders, axis=1)
        weight = as_weight(node, own_rows)
        if node.transposed:
            layer: TransposedConv | Conv = TransposedConv(
                name=output.name,
                input=source.spec,
                output=output,
                weight=weight,
                epilogue=epilogue,
                stride=node.stride,
                padding=node.padding,
                groups=node.groups,
                terms=terms,
            )
        else:
            layer = Conv(
                name=output.name,
                input=source.spec,
                output=output,
                weight=weight,
                epilogue=epilogue,
                stride=node.stride,
                padding=node.padding,
                dilation=node.dilation,
                groups=node.groups,
                terms=terms,
                projections=tuple(
                    Projection(tensor=form.spec, weight=w.astype(np.int8), stride=part.stride)
                    for (form, part), w in zip(projected, projected_rows, strict=True)
                ),
            )
        self._write_layer(node.name, layer, scale)

    def _expected_error(self, node: ConvNode, errors: list[Float]) -> Float:
        """Return what rounding the weights takes from each channel's mean, where means are known.

        ``errors`` are those of the weights of every weighted input, as rows.
        """
        result = np.zeros(len(errors[0]))
        for index, (tensor, error) in enumerate(zip(node.weighted_inputs, errors, strict=True)):
            mean = self._ranges.mean(tensor)
            if mean is not None:
                steps = mean / self._int(tensor).scale
                result += expected_error(node, error, steps) if index == 0 else error @ steps
        return result

    def _write_sum(self, node: SumNode) -> None:
        output = self._spec(node.name)
        scale = np.minimum(self._ranges.covered(node.name), node.activation.high) / 127
        gain = self._gain(node)
        operands = [(self._int(tensor), factor) for tensor, factor in node.terms]
        ratios = np.stack([np.abs(form.scale * factor) for form, factor in operands]) / (
            gain * scale
        )
        # The smallest factor gets seven bits, the others as many and a power of two.
        smallest = np.where(ratios > 0, ratios, np.inf).min(axis=0)
        smallest = np.where(np.isfinite(smallest), smallest, 1.0)
        shift = np.clip(np.floor(np.log2(127 / smallest)), 0, MAX_SHIFT).astype(np.int32)
        first, factor = operands[0]
        scale = snap(scale, first.scale * factor / gain, shift)
        scale = np.minimum(scale, node.activation.high / 127)
        unit = gain * scale * 2.0**-shift
        terms = tuple(
            Term(tensor=form.spec, factor=quantise_factors(form.scale * factor / unit))
            for form, factor in operands
        )
        nothing = np.zeros(output.channels, np.int64)
        epilogue = self._epilogue(node, scale, shift, node.bias / unit, nothing, terms)
        layer = Sum(name=output.name, output=output, terms=terms, epilogue=epilogue)
        self._write_layer(node.name, layer, scale)

    def _epilogue(
        self,
        node: ConvNode | SumNode,
        scale: Float,
        shift: NDArray[np.int32],
        bias: Float,
        weight_sums: NDArray[np.int64],
        terms: tuple[Term, ...],
    ) -> Epilogue:
        branch = None
        constant = np.where(shift > 0, 1 << np.maximum(shift - 1, 0), 0)
        if node.activation.slope != 1.0:
            branch, constant = leaky(node.activation.slope, shift, most=self._options.leaky_steps)
        rounded = np.rint(bias).astype(np.int64) + constant
        require_no_overflow(node.name, weight_sums, [t.factor for t in terms], rounded)
        # Where scales differ, each covers `high` at most: int8 saturates there anyway.
        low = max(-128.0, float(np.rint(node.activation.low / scale).min()))
        high = min(127.0, float(np.rint(node.activation.high / scale).max()))
        return Epilogue(
            bias=rounded.astype(np.int32),
            shift=shift,
            low=int(low),
            high=int(high),
            leaky=branch,
        )

    def _gain(self, node: ConvNode | SumNode) -> float:
        """Return what an activation multiplies positive accumulators by."""
        slope = node.activation.slope
        if slope == 1.0:
            return 1.0
        return gain_of(steps_for(slope, most=self._options.leaky_steps))

    def _write_average_pool(self, node: AveragePoolNode) -> None:
        source = self._int(node.input)
        output = self._spec(node.name)
        window = node.kernel[0] * node.kernel[1]
        wanted = float(self._ranges.covered(node.name).max()) / 127
        ratio = float(source.scale.max()) / (window * wanted)
        # A constant weight f and a shift make the mean exact at a scale near the wanted one.
        shift = int(np.clip(np.floor(np.log2(127.49 / ratio)), 0, MAX_SHIFT))
        weight = int(np.clip(np.floor(ratio * 2.0**shift), 1, 127))
        scale = source.scale * 2.0**shift / (weight * window)
        channels = node.channels
        epilogue = Epilogue(
            bias=np.full(channels, (1 << shift) >> 1, np.int32),
            shift=np.full(channels, shift, np.int32),
            low=-128,
            high=127,
        )
        layer = Conv(
            name=output.name,
            input=source.spec,
            output=output,
            weight=np.full((channels, 1, *node.kernel), weight, np.int8),
            epilogue=epilogue,
            stride=node.stride,
            padding=node.padding,
            groups=channels,
        )
        self._write_layer(node.name, layer, scale)

    def _write_max_pool(self, node: MaxPoolNode) -> None:
        source = self._int(node.input)
        output = self._spec(node.name)
        layer = MaxPool(
            name=output.name,
            input=source.spec,
            output=output,
            kernel=node.kernel,
            stride=node.stride,
            padding=node.padding,
        )
        self._write_layer(node.name, layer, source.scale)

    def _write_resize(self, node: ResizeNode) -> None:
        source = self._int(node.input)
        output = self._spec(node.name)
        layer = Resize(
            name=output.name,
            input=source.spec,
            output=output,
            rows=node.rows,
            cols=node.cols,
            shift=node.shift,
        )
        self._write_layer(node.name, layer, source.scale)

    def _write_concat(self, node: ConcatNode) -> None:
        parts = [self._int(part) for part in node.parts]
        output = self._spec(node.name)
        layer = Concat(name=output.name, inputs=tuple(p.spec for p in parts), output=output)
        self._write_layer(node.name, layer, np.concatenate([part.scale for part in parts]))

    def _write_slice(self, node: SliceNode) -> None:
        cut = ([1], [node.begin], [node.end])
        if node.input not in self._ints:
            self._builder.emit(node.name, "strided_slice", self._float(node.input), *cut)
            self._floats[node.name] = node.name
            return
        source = self._ints[node.input]
        output = self._spec(node.name)
        self._builder.emit(output.name, "strided_slice", source.name, *cut)
        self._made(node.name, output, source.scale[node.begin : node.end])

    def _write_move(self, node: MoveNode) -> None:
        """Move int8 if the scale allows it: a quarter of the bytes, and one dequantise later."""
        form = self._ints.get(node.input)
        shape = self._graph.shapes[node.name]
        if form is None or form.shape != self._graph.shapes[node.input] or not form.is_uniform:
            self._copy(node.name, node.binding)
            return
        name = f"{node.name}.int8" if node.name in self._graph.outputs else node.name
        self._builder.copy(node.binding, name, {node.input: form.name}, self._module)
        picture = picture_shape(shape)
        if picture is not None and picture != shape:
            name = self._builder.emit(f"{name}.nchw", "reshape", name, picture)
        channels = picture[1] if picture else 1
        moved = _Int(name=name, shape=picture or shape, scale=np.full(channels, form.scale[0]))
        self._ints[node.name] = moved
        self.scales[name] = moved.scale

    def _write_table(self, node: TableNode) -> None:
        if node.input not in self._ints:
            self._copy(node.name, node.binding)
            return
        source = self._ints[node.input]
        scale = source.scale[:1] if source.is_uniform else source.scale
        values = TABLE_FUNCTIONS[node.function](np.arange(-128, 128) * scale[:, None])
        if not self._wants_int(node.name):
            table = values.astype(np.float32)
            emit.emit_table(self._builder, node.name, source.name, table)
            self._floats[node.name] = node.name
            return
        output = self._spec(node.name)
        step = float(self._ranges.covered(node.name).max()) / 127
        steps = np.clip(np.rint(values / step), -128, 127).astype(np.int8)
        emit.emit_table(self._builder, output.name, source.name, steps)
        self._made(node.name, output, np.full(output.channels, step))

    def _write_float(self, node: FloatNode) -> None:
        self._copy(node.name, node.binding)

    def _copy(self, name: str, binding: Binding) -> None:
        """Write a float operator as it was, on the float forms of its inputs."""
        names = {tensor: self._float(tensor) for tensor in binding.inputs}
        self._floats[name] = self._builder.copy(binding, name, names, self._module)


TABLE_FUNCTIONS: dict[str, Callable[[Float], Float]] = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "exp": np.exp,
    "nn.silu": lambda x: x / (1 + np.exp(-x)),
}


_WRITERS: dict[type[Node], Callable[[Writer, Any], None]] = {
    ConvNode: Writer._write_conv,
    SumNode: Writer._write_sum,
    AveragePoolNode: Writer._write_average_pool,
    MaxPoolNode: Writer._write_max_pool,
    ResizeNode: Writer._write_resize,
    ConcatNode: Writer._write_concat,
    SliceNode: Writer._write_slice,
    MoveNode: Writer._write_move,
    TableNode: Writer._write_table,
    FloatNode: Writer._write_float,
}
