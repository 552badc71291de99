"""From operators to a plan: choose every tensor's layout and every operator's kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from edgepipe.codegen.arm import foreign
from edgepipe.codegen.arm.chains import Chains, Pointwise, reads_aside
from edgepipe.codegen.arm.channelwise import (
    ConcatKernel,
    CopyKernel,
    MaxPoolKernel,
    TableKernel,
    depthwise,
    is_depthwise,
    pick,
    resize,
)
from edgepipe.codegen.arm.convolution import convolution, sum_weights
from edgepipe.codegen.arm.epilogue import NoTail, Tail, padded
from edgepipe.codegen.arm.generic import FlatCopyKernel, generic_module, lower_generic
from edgepipe.codegen.arm.kernels import Kernel
from edgepipe.codegen.arm.layouts import NCHW, NHWC, PIXELS, Layout, Nchw, View
from edgepipe.codegen.arm.plan import Operand, PlanBuilder
from edgepipe.codegen.arm.pointwise import PointwiseKernel
from edgepipe.codegen.arm.sources import InMemory
from edgepipe.errors import FAULT, CodegenError
from edgepipe.partition.foreign import ForeignCall
from edgepipe.partition.operator import Operator
from edgepipe.partition.operators import input_table
from edgepipe.tvm_adapter import IRModule, Main, Tensor
from vta_stages.layers import records


def _generic(operators: Sequence[Operator]) -> set[str]:
    """Return the operators that TVM lowers; picks for these alone are among them."""
    found = {o.name for o in operators if o.layer is None and o.kind == "generic"}
    for operator in reversed(operators):
        readers = [o.name for o in operators if operator.output in o.inputs]
        if isinstance(operator.layer, records.Pick) and readers and found.issuperset(readers):
            found.add(operator.name)
    return found


@dataclass(frozen=True, slots=True)
class Placed:
    """The place of a tensor; ``view`` is None for tensors that only generic operators can read."""

    operand: Operand
    view: View | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """The end of a kernel: its tail with arguments, the tensor ``made``, and where that lies."""

    made: str
    tail: Tail
    args: tuple[Operand, ...]
    target: Operand


@dataclass(slots=True)
class Lowering:
    """Lowers the operators of one stage in order; the result is in ``plan`` and ``kernels``."""

    module: IRModule
    main: Main
    operators: tuple[Operator, ...]
    input_layouts: Mapping[str, Layout]
    output_layouts: Mapping[str, Layout]
    calls: Sequence[ForeignCall] = ()
    plan: PlanBuilder = field(default_factory=PlanBuilder)
    kernels: dict[str, Kernel] = field(default_factory=dict)
    _symbols: dict[Kernel, str] = field(default_factory=dict)
    _placed: dict[str, list[Placed]] = field(default_factory=dict)
    _outputs: dict[str, Placed] = field(default_factory=dict)
    _tables: dict[str, tuple[str, records.Int8Array]] = field(default_factory=dict)
    _shapes: dict[str, Tensor] = field(default_factory=dict)
    _generic: set[str] = field(default_factory=set)
    _chains: Chains = field(init=False)
    _foreign: set[str] = field(default_factory=set)

    def run(self) -> None:
        """Lower everything; raises CodegenError that names an operator that cannot be lowered."""
        self._declare()
        run: list[Operator] = []
        ends = {call.operators[-1]: call for call in self.calls}
        self._foreign = {name for call in self.calls for name in call.operators}
        self._generic = _generic(self.operators) - self._foreign
        self._chains = Chains(
            operators=self.operators,
            outputs=self._outputs,
            generic=self._generic | self._foreign,
            picture=self._picture,
            constant=self._constant,
        )
        for operator in self.operators:
            if operator.name in self._foreign:
                self._lower_generic(run)
                run = []
                if operator.name in ends:
                    self._lower_foreign(ends[operator.name])
                continue
            if operator.name in self._generic:
                run.append(operator)
                continue
            self._lower_generic(run)
            run = []
            self._lower(operator)
        self._lower_generic(run)
        for param in self.main.params:
            if param.name in self._outputs:
                self._to_output(param.name, self._placed[param.name][0])

    def _declare(self) -> None:
        bindings = [Tensor(b.name, b.shape, b.dtype) for b in self.main.bindings]
        self._shapes = {t.name: t for t in (*self.main.params, *bindings)}
        for param in self.main.params:
            view = self._view(param, self.input_layouts.get(param.name, NCHW))
            shape = view.shape if view else param.shape
            operand = self.plan.add_input(param.name, param.dtype, shape)
            self._placed[param.name] = [Placed(operand, view)]
        for name in dict.fromkeys(self.main.outputs):
            tensor = self._shapes[name]
            view = self._view(tensor, self.output_layouts.get(name, NCHW))
            shape = view.shape if view else tensor.shape
            self._outputs[name] = Placed(self.plan.add_output(name, tensor.dtype, shape), view)

    def _view(self, tensor: Tensor, layout: Layout) -> View | None:
        """Return a tensor of the stage's boundary as a picture, or None."""
        is_frame = tensor.dtype == "uint8" and len(tensor.shape) == 4
        if is_frame and isinstance(layout, type(NCHW) | type(NHWC)):
            _, height, width, channels = tensor.shape
            return View(NHWC, channels, height, width, "uint8")
        if tensor.dtype == "int8" and len(tensor.shape) == 4 and tensor.shape[0] == 1:
            return View(layout, tensor.shape[1], tensor.shape[2], tensor.shape[3])
        if not isinstance(layout, Nchw):
            raise CodegenError(
                f"{tensor.name}: {tensor.dtype}{list(tensor.shape)} cannot be in layout"
                f" {layout.kind}, expected int8[1, C, H, W]",
                hint="use layout nchw for it",
            )
        return None

    # ---- where tensors are -----------------------------------------------------------------

    def _picture(self, name: str) -> tuple[Operand, View]:
        """Return a quantised tensor in the layout that suits kernels best."""
        for placed in self._placed[name]:
            if placed.view is not None:
                return placed.operand, placed.view
        shape = self._shapes[name].shape
        return self._placed[name][0].operand, View(NCHW, shape[1], shape[2], shape[3])

    def _array(self, name: str) -> Operand:
        """Return a tensor in C order, copying it if necessary."""
        shape = self._shapes[name].shape
        for placed in self._placed[name]:
            is_c_order = placed.view is None or isinstance(placed.view.layout, Nchw)
            if is_c_order or placed.operand.shape == shape:
                return placed.operand
        operand, view = self._picture(name)
        target = View(NCHW, view.channels, view.height, view.width)
        copied = self.plan.add_temporary("int8", target.shape)
        self._call(name, CopyKernel(input=view, output=target), [operand, copied])
        self._placed[name].append(Placed(copied, target))
        return copied

    def _target(self, spec: records.TensorSpec) -> tuple[Operand, View]:
        """Return the operand for an operator's picture, the output itself if possible."""
        output = self._outputs.get(spec.name)
        if output is not None and output.view is not None and output.view.is_vectorisable:
            return output.operand, output.view
        view = View(PIXELS, spec.channels, spec.height, spec.width)
        return self.plan.add_temporary("int8", view.shape), view

    def _finish(self, name: str, operand: Operand, view: View) -> None:
        placed = Placed(operand, view)
        self._placed[name] = [placed]
        if name in self._outputs:
            self._to_output(name, placed)

    def _to_output(self, name: str, placed: Placed) -> None:
        output = self._outputs[name]
        if placed.operand == output.operand:
            return
        kernel: Kernel
        if placed.view is None or output.view is None or placed.view == output.view:
            kernel = FlatCopyKernel(shape=output.operand.shape, dtype=output.operand.dtype)
        else:
            kernel = CopyKernel(input=placed.view, output=output.view)
        self._call(name, kernel, [placed.operand, output.operand])

    # ---- kernels ---------------------------------------------------------------------------

    def _symbol(self, kernel: Kernel) -> str:
        if kernel not in self._symbols:
            symbol = f"{kernel.stem}_{len(self._symbols)}"
            self._symbols[kernel] = symbol
            self.kernels[symbol] = kernel
        return self._symbols[kernel]

    def _call(self, operator: str, kernel: Kernel, args: Sequence[Operand]) -> None:
        self.plan.add_call(operator, self._symbol(kernel), args)

    def _lower(self, operator: Operator) -> None:
        if operator.kind == "input_table":
            self._lower_table(operator)
            return
        if operator.layer is None:
            raise CodegenError(
                f"{operator.name}: kind {operator.kind} has no layer record", hint=FAULT
            )
        _LOWER[type(operator.layer)](self, operator.layer)

    def _lower_table(self, operator: Operator) -> None:
        """Leave the table to the convolution that stages the frame, if it is the only reader."""
        table = input_table(operator).reshape(-1)
        frame = operator.inputs[0]
        readers = [o for o in self.operators if operator.output in o.inputs]
        layers = [o.layer for o in readers]
        if len(layers) == 1 and operator.output not in self._outputs:
            layer = layers[0]
            if (
                isinstance(layer, records.Conv | records.TransposedConv)
                and not reads_aside(layer, operator.output)
                and readers[0].name not in self._foreign
            ):
                self._tables[operator.output] = (frame, table)
                return
        operand, view = self._picture(frame)
        spec = records.TensorSpec(
            name=operator.output, channels=view.channels, height=view.height, width=view.width
        )
        target, target_view = self._target(spec)
        output = self._outputs.get(operator.output)
        if output is not None and output.view is not None:  # the kernel writes any layout
            target, target_view = output.operand, output.view
        kernel = TableKernel(input=view, output=target_view)
        self._call(operator.name, kernel, [operand, self.plan.add_constant(table), target])
        self._finish(operator.output, target, target_view)

    def _source(self, name: str) -> tuple[list[Operand], View, bool]:
        """Return a convolution's input arguments, their picture, and whether it is a frame."""
        if name in self._tables:
            frame, table = self._tables[name]
            operand, view = self._picture(frame)
            return [operand, self.plan.add_constant(table)], view, True
        operand, view = self._picture(name)
        return [operand], view, False

    def _end(self, layer: records.Conv | records.TransposedConv) -> _End:
        """Return the end of a convolution's kernel, and where it writes.

        If a table alone reads the layer, the kernel ends with the table.
        """
        table = self._chains.table_after(layer.output.name)
        made = table.output if table else layer.output
        target, view = self._target(made)
        tail, args = self._chains.tail(layer, view)
        return _End(made=made.name, tail=tail, args=tuple(args), target=target)

    def _constant(self, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Operand:
        return self.plan.add_constant(array)

    def lower_conv(self, layer: records.Conv | records.TransposedConv) -> None:
        """Add the kernel of a convolution: depthwise, or with runs of taps.

        Each projection is a kernel before it, whose accumulators are one more term.
        """
        sources, view, is_camera = self._source(layer.input.name)
        end = self._end(layer)
        if isinstance(layer, records.Conv):
            for projection in layer.projections:
                end = self._with_projection(layer, projection, end)
        kernel: Kernel
        if isinstance(layer, records.Conv) and is_depthwise(layer):
            kernel, weights = depthwise(layer, view, end.tail, is_camera=is_camera)
            constants = [self._constant(weights)]
        else:
            kernel, weights = convolution(layer, view, end.tail, is_camera=is_camera)
            constants = [self._constant(weights), self._constant(sum_weights(weights))]
        self._call_to_end(layer.name, kernel, [*sources, *constants], end)

    def _with_projection(
        self, layer: records.Conv, projection: records.Projection, end: _End
    ) -> _End:
        """Add the kernel of a projection; return the end of the kernel that adds its sums."""
        operand, view = self._picture(projection.tensor.name)
        sums = replace(end.tail.output, dtype="int32")
        alone = replace(
            layer,
            input=projection.tensor,
            weight=projection.weight[:, :, None, None],
            stride=projection.stride,
            padding=(0, 0, 0, 0),
            dilation=(1, 1),
            groups=1,
            terms=(),
            projections=(),
        )
        kernel, weights = convolution(alone, view, NoTail(sums), is_camera=False)
        made = self.plan.add_temporary("int32", sums.shape)
        constants = [self._constant(weights), self._constant(sum_weights(weights))]
        self._call(layer.name, kernel, [operand, *constants, made])
        once = self._constant(padded(np.ones(sums.channels, np.int32), sums.lanes))
        tail = replace(end.tail, terms=(InMemory(sums), *end.tail.terms))
        return replace(end, tail=tail, args=(made, once, *end.args))

    # ---- chains of operators that compute elements from those at their place ------------------

    def lower_pointwise(self, layer: Pointwise) -> None:
        """Add the kernel of a layer of elements, with all that it computes on the way.

        It has no kernel of its own if the kernel before it ends with it, or if the only operator
        that reads it computes it on the way.
        """
        if self._chains.takes(layer):
            return
        made, _ = self._chains.made(layer)
        target, view = self._target(made)
        source, args = self._chains.computed(layer, view)
        self._call(layer.name, PointwiseKernel(source, view), [*args, target])
        self._finish(made.name, target, view)

    # ---- other kernels -------------------------------------------------------------------------

    def _call_to_end(
        self, operator: str, kernel: Kernel, args: Sequence[Operand], end: _End
    ) -> None:
        """Add the call of a kernel that ends with ``end``; ``args`` are those before the tail's."""
        self._call(operator, kernel, [*args, *end.args, end.target])
        self._finish(end.made, end.target, end.tail.output)

    def lower_max_pool(self, layer: records.MaxPool) -> None:
        """Add the kernel of a max pool."""
        source, view = self._picture(layer.input.name)
        target, target_view = self._target(layer.output)
        kernel = MaxPoolKernel(
            input=view,
            output=target_view,
            kernel=layer.kernel,
            stride=layer.stride,
            padding=(layer.padding[0], layer.padding[1]),
        )
        self._call(layer.name, kernel, [source, target])
        self._finish(layer.output.name, target, target_view)

    def lower_resize(self, layer: records.Resize) -> None:
        """Add the kernel of a resize, with its weights as constants."""
        source, view = self._picture(layer.input.name)
        target, target_view = self._target(layer.output)
        kernel, constants = resize(layer, view, target_view)
        args = [source, *(self.plan.add_constant(c) for c in constants), target]
        self._call(layer.name, kernel, args)
        self._finish(layer.output.name, target, target_view)

    def lower_pick(self, layer: records.Pick) -> None:
        """Add the kernel that copies channels out of a picture.

        It has none if the only operator that reads them can read them where they are.
        """
        if self._chains.takes(layer):
            return
        source, view = self._picture(layer.input.name)
        target, target_view = self._target(layer.output)
        kernel, order = pick(layer, view, target_view)
        self._call(layer.name, kernel, [source, *map(self._constant, order), target])
        self._finish(layer.output.name, target, target_view)

    def lower_concat(self, layer: records.Concat) -> None:
        """Add the kernel that copies the channels of pictures one after the other."""
        sources = [self._picture(spec.name) for spec in layer.inputs]
        target, target_view = self._target(layer.output)
        kernel = ConcatKernel(inputs=tuple(view for _, view in sources), output=target_view)
        self._call(layer.name, kernel, [*(operand for operand, _ in sources), target])
        self._finish(layer.output.name, target, target_view)

    def _lower_generic(self, operators: Sequence[Operator]) -> None:
        """Lower consecutive generic operators together, so that TVM can fuse them."""
        if not operators:
            return
        made = {o.output for o in operators}
        inputs = dict.fromkeys(i for o in operators for i in o.inputs if i not in made)
        read_later = {i for o in self.operators if o not in operators for i in o.inputs} | set(
            self._outputs
        )
        outputs = [o.output for o in operators if o.output in read_later]
        shapes = {n: (self._shapes[n].shape, self._shapes[n].dtype) for n in inputs}
        module = generic_module(operators, shapes, outputs, self.module)
        sources = [self._array(name) for name in inputs]
        wanted = [self._generic_target(name) for name in outputs]
        found = lower_generic(module, operators[-1].name, sources, wanted, self.plan, self._symbol)
        for name, operand in zip(outputs, found, strict=True):
            tensor = self._shapes[name]
            view = self._view(tensor, NCHW)
            self._placed[name] = [Placed(operand, view)]
            if name in self._outputs:
                self._to_output(name, self._placed[name][0])

    def _lower_foreign(self, call: ForeignCall) -> None:
        """Add the call of a user's function; what it reads and writes is in C order."""
        chain = [o for o in self.operators if o.name in call.operators]
        args = [self._array(name) for name in foreign.inputs(chain)]
        args += map(self._constant, foreign.constants(chain))
        made = self._shapes[chain[-1].output]
        target = self._generic_target(made.name) or self.plan.add_temporary(made.dtype, made.shape)
        shapes = foreign.shapes([operand.shape for operand in (*args, target)])
        args.insert(0, self._constant(shapes))
        kernel = foreign.ForeignKernel(
            function=call.function,
            read=tuple((operand.shape, operand.dtype) for operand in args),
            made=(target.shape, target.dtype),
        )
        self._call(chain[-1].name, kernel, [*args, target])
        placed = Placed(target, self._view(made, NCHW))
        self._placed[made.name] = [placed]
        if made.name in self._outputs:
            self._to_output(made.name, placed)

    def _generic_target(self, name: str) -> Operand | None:
        output = self._outputs.get(name)
        if output is None or output.operand.shape != self._shapes[name].shape:
            return None
        is_c_order = output.view is None or isinstance(output.view.layout, Nchw)
        return output.operand if is_c_order else None


_LOWER: dict[type[records.Layer], Callable[[Lowering, records.Layer], None]] = {
    records.Conv: Lowering.lower_conv,  # type: ignore[dict-item]
    records.TransposedConv: Lowering.lower_conv,  # type: ignore[dict-item]
    records.Sum: Lowering.lower_pointwise,  # type: ignore[dict-item]
    records.Product: Lowering.lower_pointwise,  # type: ignore[dict-item]
    records.Quotient: Lowering.lower_pointwise,  # type: ignore[dict-item]
    records.PixelAffine: Lowering.lower_pointwise,  # type: ignore[dict-item]
    records.Table: Lowering.lower_pointwise,  # type: ignore[dict-item]
    records.Pick: Lowering.lower_pick,  # type: ignore[dict-item]
    records.MaxPool: Lowering.lower_max_pool,  # type: ignore[dict-item]
    records.Resize: Lowering.lower_resize,  # type: ignore[dict-item]
    records.Concat: Lowering.lower_concat,  # type: ignore[dict-item]
}
