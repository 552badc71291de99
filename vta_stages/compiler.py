"""Compile layers to a verified program for the accelerator.

program = compile_program(accelerator, layers, inputs=["x"], outputs=["y"])
program.save(folder)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from vta_stages.accelerator import Accelerator
from vta_stages.emission.kernel_emitter import KernelEmitter
from vta_stages.emission.program_builder import ProgramBuilder
from vta_stages.errors import FAULT, LayerError, advise
from vta_stages.isa.instructions import Module
from vta_stages.layers.check import check_consistent
from vta_stages.layers.inputs import layer_inputs
from vta_stages.layers.pooled_conv import PooledConv
from vta_stages.layers.records import Layer, TensorSpec
from vta_stages.layers.tabled_layer import PlannedLayer
from vta_stages.lowering.lower import lower
from vta_stages.lowering.rewrites import rewrite, split_pool
from vta_stages.memory_plan import CONST_REGION, MemoryPlan, plan_memory
from vta_stages.program import LayerSpan, Program, Region, RegionKind
from vta_stages.tiling.choice import choose_tiling
from vta_stages.timing.cost_model import CostModel
from vta_stages.verification.verifier import verify
from vta_stages.whole_blocks import real_accelerator, whole_blocks

Progress = Callable[[str, int, int], None]
"""Called before each layer with its name, its index and the number of layers."""


def check_layer(accelerator: Accelerator, layer: Layer, cost: CostModel | None = None) -> float:
    """Return the expected cycles of a layer that is compiled on its own.

    ``cost`` defaults to the estimates for the Ultra96. Raises LayerError, with the numbers, if the
    layer cannot run on this accelerator.
    """
    check_consistent(layer)
    accelerator, cost = whole_blocks(accelerator), cost or CostModel()
    return sum(
        choose_tiling(accelerator, lower(part, accelerator), cost).cycles
        for part in rewrite([layer], [layer.output.name], lambda _: False)
    )


def is_pooling_cheaper(accelerator: Accelerator, cost: CostModel, layer: PooledConv) -> bool:
    """Return whether a convolution and its pooling take fewer cycles as one layer than as two."""

    accelerator = whole_blocks(accelerator)

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
    """Compile layers, given in topological order, to a program that the verifier accepts.

    The program has one region per name in ``inputs`` and ``outputs``, in the accelerator's
    activation layout (:mod:`vta_stages.isa.layout`). ``cost`` describes the board's timing; it
    affects the speed of the program, not its results. If given, ``predictions`` receives the
    cycles that the tiling search expects for each layer. Raises LayerError for a layer that cannot
    run, and for names and tensors that contradict each other.
    """
    specs = _check_network(layers, inputs, outputs)
    accelerator, cost = whole_blocks(accelerator), cost or CostModel()
    rewritten = rewrite(layers, outputs, partial(is_pooling_cheaper, accelerator, cost))
    plan = plan_memory(accelerator, rewritten, [specs[name] for name in inputs], outputs)
    compilation = _Compilation(accelerator, plan, cost)
    for index, layer in enumerate(plan.layers):
        if progress is not None:
            progress(layer.name, index, len(plan.layers))
        expected = compilation.add(layer)
        if predictions is not None:
            predictions[layer.name] = expected
    program = compilation.finish()
    with advise(FAULT):
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
                    f"computed by an earlier layer"
                )
            if specs.setdefault(spec.name, spec) != spec:
                raise LayerError(
                    f"{layer.name}: reads {spec}, expected {specs[spec.name]} as elsewhere"
                )
        if layer.output.name in specs:
            raise LayerError(
                f"{layer.name}: tensor {layer.output.name} already exists, expected a new name"
            )
        specs[layer.output.name] = layer.output
        computed.add(layer.output.name)
    for name in outputs:
        if name not in computed:
            raise LayerError(
                f"program: no layer computes output {name}",
                hint=f"computed tensors: {', '.join(sorted(computed))}",
            )
    for name in inputs:
        if name not in specs:
            raise LayerError(f"program: no layer reads input {name}")
    names = [*inputs, *outputs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise LayerError(f"program: inputs or outputs are named twice: {', '.join(twice)}")
    return specs


class _Compilation:
    """The program under construction, layer by layer."""

    def __init__(self, accelerator: Accelerator, plan: MemoryPlan, cost: CostModel) -> None:
        self._accelerator, self._plan, self._cost = accelerator, plan, cost
        self._builder = ProgramBuilder(accelerator, plan.regions, plan.addresses)
        self._first = 0
        self._spans: list[LayerSpan] = []

    def add(self, layer: PlannedLayer) -> float:
        """Append the instructions of a layer; return its expected cycles."""
        kernel = lower(layer, self._accelerator)
        tiling = choose_tiling(self._accelerator, kernel, self._cost)
        KernelEmitter(kernel, tiling, self._builder).emit()
        # Instructions before the first layer belong to the first layer.
        end = len(self._builder.buffer)
        self._spans.append(LayerSpan(name=kernel.name, first=self._first, count=end - self._first))
        self._first = end
        return tiling.cycles

    def finish(self) -> Program:
        """Append FINISH, which waits for all stores, and return the program."""
        schedule, buffer = self._builder.schedule, self._builder.buffer
        with schedule.group(Module.COMPUTE, after=[schedule.last(Module.STORE)]):
            buffer.finish()
        consts = self._builder.constants.content()
        regions = list(self._plan.regions)
        regions[CONST_REGION] = Region(name="consts", bytes=len(consts), kind=RegionKind.CONST)
        return Program(
            accelerator=real_accelerator(self._accelerator),
            instructions=self._builder.encode(),
            relocations=buffer.relocations,
            regions=tuple(regions),
            consts=consts,
            layers=tuple(self._spans),
        )
