"""Compile one placed segment of a network into the files of a bundle's stage folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edgepipe import scratch
from edgepipe.boards import Board, architectures
from edgepipe.bundle.manifest import Stage, Tensor, is_in_blocks
from edgepipe.codegen.arm.layouts import Layout, blocks_of
from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.errors import FAULT, CodegenError, advise
from edgepipe.partition.arm_cost import operators_ms
from edgepipe.partition.cores import StageCores
from edgepipe.partition.folding import vta_layer
from edgepipe.partition.foreign import ForeignCall
from edgepipe.partition.placement import Segment
from edgepipe.partition.split import StageModule
from edgepipe.progress import Progress
from vta_stages.compiler import compile_program
from vta_stages.layers.records import Layer
from vta_stages.program import Program
from vta_stages.timing.timing_model import time_program


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledStage:
    """A stage's entry in the manifest, and its files by their path in the bundle."""

    entry: Stage
    files: Mapping[str, bytes] = field(repr=False)


def compile_stage(
    name: str,
    index: int,
    segment: Segment,
    stage: StageModule,
    tensors: Mapping[str, Tensor],
    board: Board,
    progress: Progress,
    *,
    on: StageCores,
    program: Program | None = None,
    fallback: bool = False,
) -> CompiledStage:
    """Compile ``segment`` (its module is ``stage``) for ``board`` into ``stages/<index>_<device>``.

    ``tensors`` describes the tensors at the stage's boundaries, ``on`` says where its threads run.
    ``program`` is that of a VTA stage, from ``vta_program``.
    With ``fallback`` a VTA stage gets a second folder, ``stages/<index>_fallback``, with ARM
    kernels of the same bits. Raises ``LayerError`` or ``CodegenError`` if the stage cannot be
    compiled.
    """
    folder = f"stages/{index}_{segment.device}"
    fallback_folder = ""
    if program is not None:
        files = _files(folder, program.save)
        if fallback:
            fallback_folder = f"stages/{index}_fallback"
            files |= _files(
                fallback_folder, lambda work: _compile_arm(work, stage, tensors, board, progress)
            )
    else:
        files = _files(
            folder,
            lambda work: _compile_arm(work, stage, tensors, board, progress, segment.calls),
        )
    is_arm = segment.device == "arm"
    threads = board.threads.arm if is_arm else board.threads.vta
    core_ms = operators_ms((placed.operator for placed in segment.operators), board)
    entry = Stage(
        name=name,
        kind=segment.device,
        folder=folder,
        inputs=stage.inputs,
        outputs=stage.outputs,
        fallback=fallback_folder,
        cores=on.cores,
        threads=on.threads,
        realtime_priority=threads.realtime_priority,
        modelled_us=round(1e3 * core_ms / on.threads) if is_arm else 0,
    )
    return CompiledStage(entry=entry, files=files)


def _files(folder: str, compile_into: Callable[[Path], None]) -> dict[str, bytes]:
    """Return the files that ``compile_into`` writes into an empty folder, by their paths in it."""
    with scratch.folder("stage") as work:
        compile_into(work)
        return {
            f"{folder}/{path.relative_to(work)}": path.read_bytes()
            for path in sorted(work.rglob("*"))
            if path.is_file()
        }


def vta_program(segment: Segment, stage: StageModule, board: Board, progress: Progress) -> Program:
    """Compile a segment of the VTA, whose module is ``stage``, to a program with its cycles.

    Raises ``LayerError`` or ``CodegenError`` if it cannot be compiled.
    """
    layers: list[Layer] = []
    for placed in segment.operators:
        layer = vta_layer(placed.operator)
        if layer is None:
            raise CodegenError(
                f"{placed.operator.name}: is placed on vta but has no integer form", hint=FAULT
            )
        layers.append(layer)
    with advise("place the operator on arm", option="placement", value="OPERATOR=arm"):
        program = compile_program(
            board.accelerator,
            layers,
            stage.inputs,
            stage.outputs,
            progress=lambda _, done, total: progress.update(done, total),
            cost=board.timing,
        )
    cycles = time_program(program, board.timing).cycles
    costs = dataclasses.asdict(board.timing)
    return dataclasses.replace(program, modelled_cycles=cycles, costs=costs)


def _compile_arm(
    work: Path,
    stage: StageModule,
    tensors: Mapping[str, Tensor],
    board: Board,
    progress: Progress,
    calls: Sequence[ForeignCall] = (),
) -> None:
    def layouts(names: tuple[str, ...]) -> dict[str, Layout]:
        found = {name: tensors[name] for name in names if is_in_blocks(tensors[name].layout)}
        return {
            name: blocks_of(tensor.layout, tensor.shape, board.accelerator)
            for name, tensor in found.items()
        }

    artifact = compile_arm_stage(
        stage.module,
        input_layouts=layouts(stage.inputs),
        output_layouts=layouts(stage.outputs),
        arches=architectures(board),
        calls=calls,
        progress=progress,
    )
    artifact.write(work)
