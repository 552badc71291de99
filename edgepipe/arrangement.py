"""The arrangement of a network on a board: operators on devices, in stages that fit its memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from edgepipe.boards import Board
from edgepipe.bundle import buffers
from edgepipe.bundle import manifest as bundle
from edgepipe.bundle.buffers import StageTensors
from edgepipe.codegen.contiguous import (
    Contiguous,
    excess_bytes,
    pipeline_memory,
    program_memory,
    slots_that_fit,
)
from edgepipe.codegen.stages import vta_program
from edgepipe.errors import PartitionError
from edgepipe.names import printable, suggest
from edgepipe.partition import depthwise
from edgepipe.partition.cores import StageCores, divide
from edgepipe.partition.depthwise import MEBIBYTE
from edgepipe.partition.foreign import target
from edgepipe.partition.memory_fit import moved_to_fit
from edgepipe.partition.operator import Operator
from edgepipe.partition.placement import Segment, place, segment
from edgepipe.partition.reasons import VtaCheck
from edgepipe.partition.rules.generators import with_calls
from edgepipe.partition.short_stages import without_short_stages
from edgepipe.partition.split import StageModule, split_by_groups
from edgepipe.progress import Progress
from edgepipe.quantize.quantizer import QuantizedNetwork
from edgepipe.tvm_adapter import IRModule, read_main
from vta_stages.program import Program

_MOST_NAMES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What a user can ask for: cuts, devices of operators, and ``depthwise``, one of
    ``partition.choices.DEPTHWISE``. ``generators`` are code generators that operators of
    ``placement`` are requested from, by operator."""

    cuts: tuple[str, ...] = ()
    placement: Mapping[str, str] = field(default_factory=dict)
    depthwise: str = "auto"
    generators: Mapping[str, str] = field(default_factory=dict)

    def placed(self, targets: Mapping[str, str]) -> Wishes:
        """Return the wishes with ``targets`` by operator, each a device or ``device/generator``.

        Wishes that were there before take precedence.
        """
        split = {name: target(text) for name, text in targets.items()}
        ours = self.placement
        return replace(
            self,
            placement={name: device for name, (device, _) in split.items()} | dict(ours),
            generators={
                name: made for name, (_, made) in split.items() if made and name not in ours
            }
            | dict(self.generators),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStage:
    """A stage before it is compiled: its operators, its Relax module, and its cores."""

    name: str
    segment: Segment
    module: StageModule
    cores: StageCores


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """A network in stages that fit into a board's contiguous memory with ``slots`` frames.

    ``tensors`` are those between stages, ``programs`` those of the VTA stages, both by name.
    """

    stages: tuple[PlannedStage, ...]
    tensors: Mapping[str, bundle.Tensor]
    programs: Mapping[str, Program]
    memory: Contiguous
    slots: int


def arrange(
    quantized: QuantizedNetwork,
    check: VtaCheck,
    board: Board,
    wishes: Wishes,
    progress: Progress,
) -> Arrangement:
    """Place the operators of ``check``, and compile the programs of the VTA's stages.

    If not even one frame fits into the board's contiguous memory, operators move to ARM, whose
    stages use ordinary memory, until one does. Raises ``PartitionError`` for wishes that cannot be
    met and if nothing is left to move, ``LayerError`` or ``CodegenError`` if a program cannot be
    compiled.
    """
    moved: dict[str, str] = {}
    while True:
        choice = partition(quantized, check, board, wishes, moved)
        segments = with_calls(
            choice.segments, check.book, wishes.generators, quantized.output_names
        )
        stages = plan_stages(quantized, segments, board)
        tensors = border_tensors(quantized, stages, board)
        programs = {}
        for stage in stages:
            if stage.segment.device == "vta":
                operators = len(stage.segment.operators)
                progress.step(f"compiling stage {stage.name} ({operators} operators)")
                programs[stage.name] = vta_program(stage.segment, stage.module, board, progress)
        memory = pipeline_memory(
            map(program_memory, programs.values()),
            slot_buffers(quantized, stages, tensors).values(),
        )
        excess = excess_bytes(memory, board)
        kept = [name for name, device in wishes.placement.items() if device == "vta"]
        kept += [o.name for o in check.operators if not check.book.allows(o, "arm")]
        more = moved_to_fit(
            choice.segments,
            check.cycles,
            _tensor_bytes(quantized.module, board),
            board,
            excess,
            kept,
        )
        if excess <= 0 or not more.keys() - moved.keys():
            break
        moved |= more
    slots = slots_that_fit(memory, stages, board, progress)
    if choice.text:
        progress.notice(choice.text)
    if moved:
        progress.notice(_moved_text(list(moved), board))
    return Arrangement(
        stages=stages, tensors=tensors, programs=programs, memory=memory, slots=slots
    )


def _moved_text(names: Sequence[str], board: Board) -> str:
    shown = ", ".join(map(printable, names[:_MOST_NAMES]))
    if len(names) > _MOST_NAMES:
        shown += f" and {len(names) - _MOST_NAMES} more"
    return (
        f"moved to arm, because the pipeline would need more contiguous memory than the "
        f"{board.dma_bytes / MEBIBYTE:.0f} MiB of {board.name}: {shown}"
    )


def partition(
    quantized: QuantizedNetwork,
    check: VtaCheck,
    board: Board,
    wishes: Wishes,
    moved: Mapping[str, str] | None = None,
) -> depthwise.Choice:
    """Place the operators of ``check`` and group them into segments, which become stages.

    ``moved`` are operators that must run on ARM, with the reasons. Raises ``PartitionError`` for
    unknown operators and impossible wishes.
    """
    operators = check.operators
    border, cuts = _border_and_cuts(operators, wishes.cuts)
    settled = dict(moved or {})

    def plainly(on_arm: Mapping[str, str]) -> tuple[Segment, ...]:
        on_arm = {**on_arm, **settled}
        placed = place(
            operators,
            check,
            border=border,
            overrides=wishes.placement,
            on_arm=on_arm,
            book=check.book,
        )
        return segment(placed, cuts)

    tensor_bytes = _tensor_bytes(quantized.module, board)
    arrange: depthwise.Arrange = plainly
    if not cuts:
        arrange = without_short_stages(plainly, check.cycles, tensor_bytes, board)
    return depthwise.choose(arrange, check.cycles, tensor_bytes, board, wishes.depthwise)


def plan_stages(
    quantized: QuantizedNetwork, segments: Sequence[Segment], board: Board
) -> tuple[PlannedStage, ...]:
    """Split the integer network into one module for each segment, and give each its cores."""
    groups = [[placed.operator.name for placed in part.operators] for part in segments]
    modules = split_by_groups(quantized.module, groups)
    return tuple(
        PlannedStage(name=f"{part.device}{index}", segment=part, module=module, cores=cores)
        for index, (part, module, cores) in enumerate(
            zip(segments, modules, stage_cores(segments, board), strict=True)
        )
    )


def stage_cores(segments: Sequence[Segment], board: Board) -> tuple[StageCores, ...]:
    """Return where each stage's threads run: ARM stages divide their cores if there are enough."""
    arm_stages = [depthwise.stage_arm_ms(part, board) for part in segments if part.device == "arm"]
    arm = iter(divide(arm_stages, board.threads.arm.cores))
    vta = StageCores(cores=board.threads.vta.cores)
    return tuple(vta if part.device == "vta" else next(arm) for part in segments)


def border_tensors(
    quantized: QuantizedNetwork, stages: Sequence[PlannedStage], board: Board
) -> dict[str, bundle.Tensor]:
    """Describe every tensor between stages; those that a VTA stage uses have its layout."""
    names = dict.fromkeys(name for stage in stages for name in _borders(stage))
    touched = {
        name for stage in stages if stage.segment.device == "vta" for name in _borders(stage)
    }
    types = _types(quantized.module)
    tensors = {}
    for name in names:
        shape, dtype = types[name]
        inside = "vta" if name in touched else "nchw"
        layout = "nhwc" if name == quantized.input_name else inside
        tensors[name] = bundle.Tensor(
            name=name,
            dtype=dtype,
            shape=shape,
            layout=layout,
            bytes=bundle.tensor_bytes(shape, dtype, layout, board.accelerator),
        )
    return tensors


def slot_buffers(
    quantized: QuantizedNetwork,
    stages: Sequence[PlannedStage],
    tensors: Mapping[str, bundle.Tensor],
) -> dict[tuple[str, ...], int]:
    """Return the buffers of a slot: the tensors that share each, and its bytes in whole pages."""
    users = [
        StageTensors(
            device=stage.segment.device, reads=stage.module.inputs, writes=stage.module.outputs
        )
        for stage in stages
    ]
    return buffers.slot_buffers(users, tensors, {quantized.input_name, *quantized.output_names})


def _tensor_bytes(module: IRModule, board: Board) -> dict[str, int]:
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


def _border_and_cuts(
    operators: Sequence[Operator], cuts: Sequence[str]
) -> tuple[str | None, tuple[str, ...]]:
    """Sort the cuts by program order; the first is the border between ARM and VTA."""
    names = [operator.name for operator in operators]
    for cut in cuts:
        if cut not in names:
            raise PartitionError(f"cut {cut!r} is unknown", hint=suggest(cut, names))
    ordered = tuple(sorted(set(cuts), key=names.index))
    return (ordered[0] if ordered else None), ordered
