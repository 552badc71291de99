"""The arrangement of a network on a board: operators on devices, in stages that fit its memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from edgepipe.boards import Board
from edgepipe.bundle import manifest as bundle
from edgepipe.codegen.asked_units import on_units
from edgepipe.codegen.contiguous import (
    Contiguous,
    excess_bytes,
    pipeline_memory,
    program_memory,
    slots_that_fit,
)
from edgepipe.codegen.planned_stages import (
    PlannedStage,
    border_tensors,
    most_tensor_bytes,
    plan_stages,
    slot_buffers,
)
from edgepipe.codegen.stages import vta_program
from edgepipe.errors import CodegenError, LayerError, PartitionError
from edgepipe.names import printable, suggest
from edgepipe.partition import depthwise
from edgepipe.partition.arm_cost import is_depthwise
from edgepipe.partition.choices import BY_RULE
from edgepipe.partition.crew_rate import StageTime, crews, frame_interval_ms
from edgepipe.partition.depthwise import MEBIBYTE
from edgepipe.partition.measured.costs import MeasuredCosts
from edgepipe.partition.measured.ranges import OperatorRange
from edgepipe.partition.memory_fit import moved_to_fit
from edgepipe.partition.operator import Operator
from edgepipe.partition.placement import PlacedOperator, Segment, place, segment
from edgepipe.partition.reasons import VtaCheck
from edgepipe.partition.rules import combinations
from edgepipe.partition.rules.generators import with_calls
from edgepipe.partition.search.automatic import LEAST_GAIN, arrange_automatically, live_slots
from edgepipe.partition.search.report import SplitReport
from edgepipe.partition.shared_dram import operators_bytes, shared_interval_ms, tensor_bytes
from edgepipe.partition.short_stages import without_short_stages
from edgepipe.partition.wishes import Wishes
from edgepipe.progress import Held, Progress
from edgepipe.quantize.quantizer import QuantizedNetwork
from vta_stages.program import Program, operators_of
from vta_stages.timing.timing_model import program_bytes, time_program

_MOST_NAMES = 4
_FASTER = 1.01  # how many times the frames per second are worth fewer of them in flight


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """A network in stages that fit into a board's contiguous memory with ``slots`` frames.

    ``tensors`` are those between stages, ``programs`` those of the VTA stages, both by name.
    ``live_slots`` are the frames in flight for a camera. ``split`` is what a search found, None
    without one. ``measured`` are the costs that were measured.
    """

    stages: tuple[PlannedStage, ...]
    tensors: Mapping[str, bundle.Tensor]
    programs: Mapping[str, Program]
    memory: Contiguous
    slots: int
    live_slots: int
    split: SplitReport | None
    measured: MeasuredCosts

    def stage_ms(self, stage: PlannedStage, board: Board) -> float:
        """Return the time of a stage for a frame, in ms: of its program, or of its ARM cores.

        It is that which was measured, or the sum over its operators.
        """
        found = self.measured_ms(stage)
        if found is not None:
            return found
        if stage.segment.device == "vta":
            return board.vta_ms(self.measured.program_cycles(self.programs[stage.name]))
        operators = (placed.operator for placed in stage.segment.operators)
        return sum(map(self.measured.operator_ms, operators)) / stage.cores.threads

    def measured_ms(self, stage: PlannedStage) -> float | None:
        """Return the time of a stage in ms if it was measured as a whole."""
        return self.measured.stage_ms(self.range_of(stage))

    def range_of(self, stage: PlannedStage) -> OperatorRange:
        """Return the operators of a stage as they are measured."""
        ends = (*stage.module.inputs, *stage.module.outputs)
        return OperatorRange(
            device=stage.segment.device,
            threads=stage.cores.threads,
            operators=tuple(placed.operator for placed in stage.segment.operators),
            layouts={name: self.tensors[name].layout for name in ends},
        )

    def interval_ms(self, board: Board, slots: int) -> float:
        """Return the time between frames, in ms, by a simulation of the runtime's threads.

        Stages that use the memory at the same time can take longer than ``stage_ms``.
        """
        names = [stage.name for stage in self.stages]
        who = crews(names, [stage.segment.device for stage in self.stages], board.arm_cores)
        made_by = {t: n for n, stage in enumerate(self.stages) for t in stage.module.outputs}
        reads = [
            tuple({made_by[t] for t in stage.module.inputs if t in made_by})
            for stage in self.stages
        ]
        hop_ms = board.arm_timing.handover_us / 1e3

        def simulated_ms(stages_ms: Sequence[float]) -> float:
            times = [
                StageTime(crew=crew, ms=ms, reads=read)
                for crew, ms, read in zip(who.of_stages, stages_ms, reads, strict=True)
            ]
            return frame_interval_ms(times, who.threads, slots, hop_ms)

        return shared_interval_ms(
            simulated_ms,
            [self.stage_ms(stage, board) for stage in self.stages],
            self._stages_bytes(),
            who,
            board.arm_timing.dram_bytes_per_s,
        )

    def _stages_bytes(self) -> list[int]:
        """Return what each stage reads and writes for a frame."""
        operators = [p.operator for stage in self.stages for p in stage.segment.operators]
        results = [operator.bindings[-1] for operator in operators]
        sizes = {made.name: tensor_bytes(made.shape, made.dtype) for made in results}
        found = []
        for stage in self.stages:
            if stage.segment.device == "vta":
                found.append(program_bytes(self.programs[stage.name]))
            else:
                own = (placed.operator for placed in stage.segment.operators)
                found.append(operators_bytes(own, sizes))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Segments that cover a network, and what is to be said about their choice.

    ``split`` is what a search found, None without one. With ``is_rule`` it is nothing better than
    the segments without a search.
    """

    segments: tuple[Segment, ...]
    notices: tuple[str, ...]
    split: SplitReport | None = None
    is_rule: bool = False


def arrange(
    quantized: QuantizedNetwork,
    check: VtaCheck,
    board: Board,
    wishes: Wishes,
    progress: Progress,
    measured: MeasuredCosts | None = None,
) -> Arrangement:
    """Place the operators of ``check``, and compile the programs of the VTA's stages.

    Stages are on the units that ``wishes`` asks for; which stages there are does not depend on it.
    If not even one frame fits into the board's contiguous memory, operators move to ARM, whose
    stages use ordinary memory, until one does. A search takes the costs of layers on the VTA from
    the programs of the split by rule. Without an objective, what it finds is kept only if it also
    has more frames per second than the rule once both are compiled. ``measured`` costs take the
    place of the model's in a search. Raises ``PartitionError`` for
    wishes that cannot be met and if nothing is left to move, ``LayerError`` or ``CodegenError`` if
    a program cannot be compiled.
    """
    measured = measured or MeasuredCosts(board=board)
    found = _arranged(quantized, check, board, wishes, progress, measured)
    if not wishes.units:
        return found
    stages = on_units(found.stages, wishes.units, board)
    return _with_slots(replace(found, stages=stages), board, wishes)


def _arranged(
    quantized: QuantizedNetwork,
    check: VtaCheck,
    board: Board,
    wishes: Wishes,
    progress: Progress,
    measured: MeasuredCosts,
) -> Arrangement:
    """Return the arrangement without the units that were asked for."""
    if not is_searched(wishes, board, check):
        plain = _arrange(quantized, check, board, wishes, progress, measured)
        return _with_slots(plain, board, wishes)
    of_rule, of_search = Held(progress), Held(progress)
    by_rule = replace(wishes, objective=BY_RULE, max_latency_ms=None, stages=None)
    rule = _arrange(quantized, check, board, by_rule, of_rule, measured)
    cycles = {**check.cycles, **compiled_cycles(rule, board)}
    choice = partition(quantized, check, board, wishes, cycles=cycles, measured=measured)
    rule = replace(_with_slots(rule, board, wishes), split=choice.split)
    if choice.is_rule:
        of_rule.release()
        return rule
    try:
        found = _arrange(quantized, check, board, wishes, of_search, measured, cycles, choice)
    except (CodegenError, LayerError):
        if wishes.goal is not None:
            raise
        found = rule
    found = _with_slots(found, board, wishes)
    if wishes.goal is None:
        rule_ms, found_ms = (each.interval_ms(board, each.slots) for each in (rule, found))
        if rule_ms <= LEAST_GAIN * found_ms:
            of_rule.release()
            return replace(rule, split=rule.split and rule.split.of_rule())
    of_search.release()
    return found


def is_searched(wishes: Wishes, board: Board, check: VtaCheck) -> bool:
    """Return whether the stages are searched for.

    By default they are if the board's cores are known and no rules of a user say what should run
    where.
    """
    if wishes.cuts or wishes.objective == BY_RULE:
        return wishes.goal is not None  # which ``partition`` refuses
    by_default = board.cores and wishes.depthwise == "auto" and check.book.is_built_in
    return wishes.goal is not None or bool(by_default)


def compiled_cycles(arranged: Arrangement, board: Board) -> dict[str, float]:
    """Return what each operator on the VTA adds to its program, 0 for what is part of another."""
    cycles: dict[str, float] = {}
    for stage in arranged.stages:
        if stage.segment.device == "vta":
            timing = time_program(arranged.programs[stage.name], board.timing)
            layers: dict[str, int] = {}
            for layer in timing.layers:
                name, *_ = operators_of(layer.name)
                layers[name] = layers.get(name, 0) + layer.cycles
            names = [placed.operator.name for placed in stage.segment.operators]
            if not layers.keys() <= {*names}:
                continue  # not named as operators are, so the estimates stay
            cycles |= {name: float(layers.get(name, 0)) for name in names}
    return cycles


def _with_slots(arranged: Arrangement, board: Board, wishes: Wishes) -> Arrangement:
    """Return the arrangement with the frames in flight that suit its compiled stages.

    What was asked for stays. Fewer are taken if that is 1 % faster: the crews run the oldest frame
    first, so with more of them the accelerator can wait longer. For a board whose cores are not
    known, nothing changes.
    """
    if not board.cores:
        return arranged
    intervals = {
        slots: arranged.interval_ms(board, slots) for slots in range(1, arranged.slots + 1)
    }
    slots = arranged.slots
    if wishes.slots is None and wishes.max_latency_ms is None:
        best = min(intervals, key=intervals.__getitem__)
        slots = best if _FASTER * intervals[best] < intervals[slots] else slots
    live = live_slots(intervals.__getitem__, slots, wishes.objective)
    return replace(arranged, slots=slots, live_slots=live)


def _arrange(
    quantized: QuantizedNetwork,
    check: VtaCheck,
    board: Board,
    wishes: Wishes,
    progress: Progress,
    measured: MeasuredCosts,
    cycles: Mapping[str, float] | None = None,
    first: Partition | None = None,
) -> Arrangement:
    """Compile the stages of ``first``, or of others if these do not fit into the memory."""
    moved: dict[str, str] = {}
    while True:
        choice = first or partition(quantized, check, board, wishes, moved, cycles, measured)
        first = None
        segments = with_calls(
            choice.segments, check.book, wishes.generators, quantized.output_names
        )
        stages = plan_stages(quantized.module, segments, board)
        tensors = border_tensors(quantized.module, quantized.input_name, stages, board)
        programs = {}
        for stage in stages:
            if stage.segment.device == "vta":
                operators = len(stage.segment.operators)
                progress.step(f"compiling stage {stage.name} ({operators} operators)")
                programs[stage.name] = vta_program(stage.segment, stage.module, board, progress)
        memory = pipeline_memory(
            map(program_memory, programs.values()),
            slot_buffers(stages, tensors, (quantized.input_name, *quantized.output_names)).values(),
        )
        excess = excess_bytes(memory, board)
        kept = [name for name, device in wishes.placement.items() if device == "vta"]
        kept += [o.name for o in check.operators if not check.book.allows(o, "arm")]
        more = moved_to_fit(
            choice.segments,
            check.cycles,
            most_tensor_bytes(quantized.module, board),
            board,
            excess,
            kept,
        )
        if excess <= 0 or not more.keys() - moved.keys():
            break
        moved |= more
    split = choice.split
    wanted = wishes.slots if split is None else split.chosen.slots
    slots = slots_that_fit(memory, stages, board, progress, wanted)
    for notice in choice.notices:
        progress.notice(notice)
    if moved:
        progress.notice(_moved_text(list(moved), board))
    return Arrangement(
        stages=stages,
        tensors=tensors,
        programs=programs,
        memory=memory,
        slots=slots,
        live_slots=slots,
        split=split,
        measured=measured,
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
    cycles: Mapping[str, float] | None = None,
    measured: MeasuredCosts | None = None,
) -> Partition:
    """Place the operators of ``check`` and group them into segments, which become stages.

    ``moved`` are operators that must run on ARM, with the reasons. ``cycles`` are those on the VTA
    for a search, by default the estimates of ``check``, and ``measured`` what was measured. Raises
    ``PartitionError`` for unknown operators and impossible wishes.
    """
    operators = check.operators
    border, cuts = _border_and_cuts(operators, wishes.cuts)
    by_rule = bool(cuts) or wishes.objective == BY_RULE
    if by_rule and wishes.goal is not None:
        what = "cuts are given" if cuts else "the split by rule is asked for"
        raise PartitionError(
            f"{what}, and a search that would choose the stages", hint="leave out one of them"
        )
    settled = dict(moved or {})

    def placed(on_arm: Mapping[str, str]) -> tuple[PlacedOperator, ...]:
        on_arm = {**on_arm, **settled}
        return place(
            operators,
            check,
            border=border,
            overrides=wishes.placement,
            on_arm=on_arm,
            book=check.book,
            why=wishes.reasons,
        )

    def plainly(on_arm: Mapping[str, str]) -> tuple[Segment, ...]:
        return segment(placed(on_arm), cuts)

    tensor_bytes = most_tensor_bytes(quantized.module, board)
    arrange: depthwise.Arrange = plainly
    if not cuts:
        arrange = without_short_stages(plainly, check.cycles, tensor_bytes, board)
    choice = depthwise.choose(arrange, check.cycles, tensor_bytes, board, wishes.depthwise)
    notices: tuple[str, ...] = (choice.text,) if choice.text else ()
    if not is_searched(wishes, board, check):
        return Partition(segments=choice.segments, notices=notices)
    asked = {
        p.operator.name: p
        for part in choice.segments
        for p in part.operators
        if wishes.depthwise != "auto" and is_depthwise(p.operator.layer)
    }
    found = arrange_automatically(
        placed({name: p.reason for name, p in asked.items() if p.device == "arm"}),
        choice.segments,
        check,
        check.cycles if cycles is None else cycles,
        tensor_bytes,
        board,
        wishes.goal,
        {
            **{name: p.device for name, p in asked.items()},
            **dict.fromkeys(settled, "arm"),
            **{o.name: "vta" for o in operators if not check.book.allows(o, "arm")},
            **wishes.placement,
        },
        wishes.slots,
        partial(_mended, check=check, pinned={*wishes.placement}),
        measured,
    )
    if not found.is_rule:
        notices = found.report.lines()
    return Partition(
        segments=found.segments, notices=notices, split=found.report, is_rule=found.is_rule
    )


def _mended(
    devices: Mapping[str, str], *, check: VtaCheck, pinned: Collection[str]
) -> dict[str, tuple[str, str]]:
    """Return what must leave its device of ``devices`` because of other operators, as the rules
    say, with the new device and the reason."""
    return combinations.moved(check.book, check.operators, devices, pinned, check.runs_on)


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
