"""Stages before they are compiled: their modules and cores, and the tensors between them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from edgepipe.boards import Board
from edgepipe.bundle import buffers
from edgepipe.bundle import manifest as bundle
from edgepipe.bundle.buffers import StageTensors
from edgepipe.partition import depthwise
from edgepipe.partition.cores import StageCores, divide
from edgepipe.partition.placement import Segment
from edgepipe.partition.split import StageModule, split_by_groups
from edgepipe.tvm_adapter import IRModule, read_main


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStage:
    """A stage before it is compiled: its operators, its Relax module, and its cores."""

    name: str
    segment: Segment
    module: StageModule
    cores: StageCores


def plan_stages(
    network: IRModule, segments: Sequence[Segment], board: Board
) -> tuple[PlannedStage, ...]:
    """Split the integer network into one module for each segment, and give each its cores."""
    groups = [[placed.operator.name for placed in part.operators] for part in segments]
    modules = split_by_groups(network, groups)
    return tuple(
        PlannedStage(name=f"{part.device}{index}", segment=part, module=module, cores=cores)
        for index, (part, module, cores) in enumerate(
            zip(segments, modules, stage_cores(segments, board), strict=True)
        )
    )


def stage_cores(segments: Sequence[Segment], board: Board) -> tuple[StageCores, ...]:
    """Return where each stage's threads run: ARM stages divide their cores if there are enough."""
    arm_stages = [depthwise.stage_arm_ms(part, board) for part in segments if part.device == "arm"]
    arm = iter(divide(arm_stages, board.threads.arm.cores, board.threads.arm.light_percent))
    vta = StageCores(cores=board.threads.vta.cores)
    return tuple(vta if part.device == "vta" else next(arm) for part in segments)


def border_tensors(
    network: IRModule, frame: str, stages: Sequence[PlannedStage], board: Board
) -> dict[str, bundle.Tensor]:
    """Describe every tensor between stages; those that a VTA stage uses have its layout.

    ``frame`` is the network's input, a camera's frame.
    """
    names = dict.fromkeys(name for stage in stages for name in _borders(stage))
    touched = {
        name for stage in stages if stage.segment.device == "vta" for name in _borders(stage)
    }
    folds = {
        placed.operator.inputs[0]: placed.operator.folds
        for stage in stages
        if stage.segment.device == "vta"
        for placed in stage.segment.operators
        if placed.operator.folds > 1
    }
    types = _types(network)
    tensors = {}
    for name in names:
        shape, dtype = types[name]
        inside = bundle.vta_layout(folds.get(name, 1)) if name in touched else "nchw"
        layout = "nhwc" if name == frame else inside
        tensors[name] = bundle.Tensor(
            name=name,
            dtype=dtype,
            shape=shape,
            layout=layout,
            bytes=bundle.tensor_bytes(shape, dtype, layout, board.accelerator),
        )
    return tensors


def slot_buffers(
    stages: Sequence[PlannedStage], tensors: Mapping[str, bundle.Tensor], kept: Collection[str]
) -> dict[tuple[str, ...], int]:
    """Return the buffers of a slot: the tensors that share each, and its bytes in whole pages.

    ``kept`` are the network's input and outputs, which share with none.
    """
    users = [
        StageTensors(
            device=stage.segment.device, reads=stage.module.inputs, writes=stage.module.outputs
        )
        for stage in stages
    ]
    return buffers.slot_buffers(users, tensors, {*kept})


def most_tensor_bytes(module: IRModule, board: Board) -> dict[str, int]:
    """Return the most bytes that each tensor can take, by its name."""
    return {
        name: bundle.tensor_bytes(shape, dtype, _most_layout(shape, dtype), board.accelerator)
        for name, (shape, dtype) in _types(module).items()
        if dtype != "tuple"
    }


def _borders(stage: PlannedStage) -> tuple[str, ...]:
    """Return the tensors that the stage reads and those that it passes on."""
    return (*stage.module.inputs, *stage.module.outputs)


def _most_layout(shape: tuple[int, ...], dtype: str) -> str:
    """Return the layout in which a tensor takes the most memory."""
    return "vta" if len(shape) == 4 and dtype == "int8" else "nchw"


def _types(module: IRModule) -> dict[str, tuple[tuple[int, ...], str]]:
    main = read_main(module)
    return {p.name: (p.shape, p.dtype) for p in main.params} | {
        b.name: (b.shape, b.dtype) for b in main.bindings
    }
