"""The compiler of accelerator stages: layers in, verified program out.

program = compile_program(accelerator, layers, inputs=["x"], outputs=["y"])
program.save(folder)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from vta_stages.accelerator import Accelerator
from vta_stages.block_loader import Place
from vta_stages.check import check_consistent
from vta_stages.codec import InstructionBuffer
from vta_stages.consts import ConstBuilder
from vta_stages.cost_model import CostModel
from vta_stages.emitter import KernelEmitter
from vta_stages.errors import LayerError
from vta_stages.isa import Module
from vta_stages.kernel import Kernel
from vta_stages.layers import Layer, TensorSpec
from vta_stages.lowering import lower
from vta_stages.memory_plan import CONST_REGION, MemoryPlan, plan_memory
from vta_stages.pooled_conv import PlannedLayer, PooledConv, layer_inputs
from vta_stages.program import LayerSpan, Program, Region, RegionKind
from vta_stages.rewrites import rewrite, split_pool
from vta_stages.schedule import Schedule
from vta_stages.tiling import Tiling
from vta_stages.tiling_search import choose_tiling
from vta_stages.uop_buffer import UopBuffer
from vta_stages.verifier import verify

Progress = Callable[[str, int, int], None]
"""Called before each layer with its name, its number from 0 and the number of layers."""


def check_layer(accelerator: Accelerator, layer: Layer) -> None:
    """Raise LayerError, with the numbers, when a layer cannot run on this accelerator."""
    check_consistent(layer)
    for part in rewrite([layer], [layer.output.name], lambda _: False):
        choose_tiling(accelerator, lower(part, accelerator), CostModel())


def is_pooling_cheaper(accelerator: Accelerator, cost: CostModel, layer: PooledConv) -> bool:
    """Tell whether a convolution and its pooling take fewer cycles as one layer than as two."""

    def cycles(parts: Sequence[PlannedLayer]) -> float:
        return sum(
            choose_tiling(accelerator, lower(part, accelerator), cost).cycles for part in parts
        )

    try:
        together = cycles([layer])
    except LayerError:
        return False
    return together < cycles([layer.conv, *split_pool(layer.pool)])


def compile_program(
    accelerator: Accelerator,
    layers: Sequence[Layer],
    inputs: Sequence[str],
    outputs: Sequence[str],
    *,
    progress: Progress | None = None,
    cost: CostModel | None = None,
    predictions: dict[str, float] | None = None,
) -> Program:
    """Compile layers in topological order to a program that the verifier has accepted.

    The program has one region per name of ``inputs`` and ``outputs``, in the accelerator's
    activation layout. ``cost`` describes the board's timing and only affects speed;
    ``predictions`` is filled with the cycles that the tiler expects of every layer.
    Raises LayerError for a layer that cannot run, and for names and tensors that contradict each
    other.
    """
    specs = _check_network(layers, inputs, outputs)
    cost = cost or CostModel()
    rewritten = rewrite(layers, outputs, partial(is_pooling_cheaper, accelerator, cost))
    plan = plan_memory(accelerator, rewritten, [specs[name] for name in inputs], outputs)
    compilation = _Compilation(accelerator, plan, set(inputs), cost)
    for index, layer in enumerate(plan.layers):
        if progress is not None:
            progress(layer.name, index, len(plan.layers))
        expected = compilation.add(layer)
        if predictions is not None:
            predictions[layer.name] = expected
    program = compilation.finish()
    verify(program)
    return program


def _check_network(
    layers: Sequence[Layer], inputs: Sequence[str], outputs: Sequence[str]
) -> dict[str, TensorSpec]:
    """Return all tensors by name."""
    specs: dict[str, TensorSpec] = {}
    computed: set[str] = set()
    for layer in layers:
        check_consistent(layer)
        for spec in layer_inputs(layer):
            if spec.name not in computed and spec.name not in inputs:
                raise LayerError(
                    f"{layer.name}: tensor {spec.name} is neither an input of the program nor "
                    f"made by an earlier layer"
                )
            if specs.setdefault(spec.name, spec) != spec:
                raise LayerError(
                    f"{layer.name}: reads {spec}, which is {specs[spec.name]} elsewhere"
                )
        if layer.output.name in specs:
            raise LayerError(f"{layer.name}: tensor {layer.output.name} exists already")
        specs[layer.output.name] = layer.output
        computed.add(layer.output.name)
    for name in outputs:
        if name not in computed:
            raise LayerError(
                f"program: output {name} is not made by any layer",
                hint=f"tensors made: {', '.join(sorted(computed))}",
            )
    for name in inputs:
        if name not in specs:
            raise LayerError(f"program: input {name} is not read by any layer")
    names = [*inputs, *outputs]
    if len(set(names)) != len(names):
        raise LayerError("program: an input or output is named twice")
    return specs


class _Compilation:
    """The state of one run of the compiler."""

    def __init__(
        self, accelerator: Accelerator, plan: MemoryPlan, inputs: set[str], cost: CostModel
    ) -> None:
        self._accelerator, self._plan, self._cost = accelerator, plan, cost
        self._buffer = InstructionBuffer(accelerator)
        self._schedule = Schedule(self._buffer)
        self._consts = ConstBuilder(accelerator, CONST_REGION)
        self._uops = UopBuffer(self._buffer, self._consts)
        self._spans: list[LayerSpan] = []
        self._places = {
            name: Place(
                region=address.region,
                element=address.offset_bytes // accelerator.inp_bytes,
                computed=name not in inputs,
            )
            for name, address in plan.addresses.items()
        }

    def add(self, layer: PlannedLayer) -> float:
        """Append a layer's instructions; return the cycles that it is expected to take."""
        kernel = lower(layer, self._accelerator)
        tiling = choose_tiling(self._accelerator, kernel, self._cost)
        self._emit(kernel, tiling)
        return tiling.cycles

    def _emit(self, kernel: Kernel, tiling: Tiling) -> None:
        first = len(self._buffer)
        KernelEmitter(kernel, tiling, self._schedule, self._uops, self._consts, self._places).emit()
        self._spans.append(
            LayerSpan(name=kernel.name, first=first, count=len(self._buffer) - first)
        )

    def finish(self) -> Program:
        """End the program once everything is stored."""
        with self._schedule.group(Module.COMPUTE, after=[self._schedule.last(Module.STORE)]):
            self._buffer.finish()
        consts = self._consts.content()
        regions = list(self._plan.regions)
        regions[CONST_REGION] = Region(name="consts", bytes=len(consts), kind=RegionKind.CONST)
        return Program(
            accelerator=self._accelerator,
            instructions=self._buffer.encode(),
            relocations=self._buffer.relocations,
            regions=tuple(regions),
            consts=consts,
            layers=tuple(self._spans),
        )
