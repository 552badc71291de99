"""What a build of a network would give: stages, times and memory, before anything is calibrated.

The network is quantised with made-up ranges (``rehearsal``) and placed.
Programs for the VTA are compiled, because that takes little time and their cycles and memory are
then exact; kernels for ARM are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgepipe import exports, placement_file, recipe
from edgepipe.arrangement import Arrangement
from edgepipe.beside import Neighbour
from edgepipe.beside import shared as rest_of
from edgepipe.boards import Board
from edgepipe.bundle.hand_overs import HandOver, StageEnds, hand_overs
from edgepipe.codegen.planned_stages import PlannedStage
from edgepipe.errors import CodegenError, LayerError, PartitionError, QuantizeError
from edgepipe.interrupts import remembered
from edgepipe.partition.choices import DEVICES
from edgepipe.partition.measured import cost_file
from edgepipe.partition.measured.costs import MeasuredCosts, measured_costs
from edgepipe.partition.operator import Operator
from edgepipe.partition.placement import PlacedOperator
from edgepipe.partition.reasons import VtaCheck
from edgepipe.partition.rules.rule_file import rule_sets
from edgepipe.partition.search.report import SplitReport
from edgepipe.partition.wishes import Wishes
from edgepipe.progress import Progress, Silent
from edgepipe.quantize import float_layers
from edgepipe.quantize.int16 import names as int16_names
from edgepipe.quantize.options import needs_one_table
from edgepipe.rehearsal import Rehearsal, rehearse, unbuildable
from edgepipe.sharing import Task, arrange_shared

_STAYS_FLOAT = "stays float: "
# What to do about operators that stay float, by the kind of their ONNX node.
_REMEDIES: Mapping[str, str] = {
    "Div": "leave it on ARM: it divides what is float, for which eight bits are too few",
    "Resize": "use nearest or bilinear resizing by a whole factor",
    "Softmax": "leave it on ARM: attention weighs by sums over the data, which need more than int8",
}
_REMEDIES_AT_THE_END: Mapping[str, str] = {
    "Softmax": "omit it: the classes keep their order without it",
}
_MOVES = frozenset(["permute_dims", "reshape", "strided_slice", "tuple"])
_NOT_A_PICTURE = "keep tensors [1, c, h, w]: of this shape, it has no integer form"
_REQUESTED: Mapping[str, str] = {
    float_layers.REASON: "requested; without the request they are in int8",
    int16_names.FLOAT_REASON: "requested in int16, in which they have no form",
}
_OTHER = "train or export with operators that have an integer form"
_RESULT = "leave it on ARM: it makes results, and no layer follows"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastOptions:
    """The options of a forecast; ``description`` defaults to the file next to the model.

    All but the model and its description are those of ``BuildOptions``.
    """

    model: Path
    board: Board
    description: Path | None = None
    cuts: tuple[str, ...] = ()
    placement: Mapping[str, str] = field(default_factory=dict)
    depthwise: str = "auto"
    objective: str = ""
    max_latency_ms: float | None = None
    stages: int | None = None
    slots: int | None = None
    float_layers: tuple[str, ...] = ()
    int16_layers: tuple[str, ...] = ()
    rules: tuple[Path, ...] = ()
    placement_file: Path | None = None
    export_placement: Path | None = None
    beside: tuple[Neighbour, ...] = ()
    costs: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorForecast:
    """Where an operator runs and why, and its time for a frame, in ms.

    It is ``measured``, or by the model. ``can`` are the devices that can run it, and ``device`` is
    the one that should.
    """

    name: str
    kind: str
    can: tuple[str, ...]
    device: str
    stage: str
    reason: str
    ms: float
    measured: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StageForecast:
    """A stage, with its time for a frame in ms, which is ``measured``, or by the model."""

    name: str
    device: str
    operators: int
    ms: float
    threads: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    measured: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatOperators:
    """Operators of one kind that compute in floating point, and what to do about them.

    Those ``inside`` are between operators on the VTA, where they can add stages and hops.
    """

    kind: str
    operators: tuple[str, ...]
    inside: tuple[str, ...]
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Contiguous memory: ``shared_bytes`` once, and ``slot_bytes`` for each of ``slots``."""

    shared_bytes: int
    slot_bytes: int
    slots: int
    board_bytes: int

    @property
    def used_bytes(self) -> int:
        """What the pipeline needs with all its slots."""
        return self.shared_bytes + self.slots * self.slot_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a build would give.

    ``description`` is the path of the description, or empty if it was drafted; ``guesses`` are then
    the lines to check. ``vta_ms`` and ``arm_ms`` are the time of a frame's work on each device with
    its hops, the latter on one core. ``interval_ms`` is the time between frames, ``bound_ms`` what
    the busier device alone would allow if hops cost nothing, ``latency_ms`` the time of one frame
    alone. ``hand_overs`` are the tensors between stages, ``live_slots`` the frames in flight for a
    camera. ``notices`` are sentences about changes made while loading. ``split`` is what a search
    for the split found, None without one: its times are from single operators, without what a
    program overlaps. ``costs`` is the file of measured costs, or empty, and ``failures`` are the
    operators that could not be measured, each with its device and the reason.
    """

    model: str
    board: str
    description: str
    guesses: tuple[str, ...]
    operators: tuple[OperatorForecast, ...]
    stages: tuple[StageForecast, ...]
    hand_overs: tuple[HandOver, ...]
    hops: int
    vta_ms: float
    arm_ms: float
    arm_cores: int
    interval_ms: float
    bound_ms: float
    latency_ms: float
    memory: Memory
    live_slots: int
    floats: tuple[FloatOperators, ...]
    notices: tuple[str, ...]
    split: SplitReport | None
    costs: str
    failures: tuple[tuple[str, str, str], ...]

    @property
    def vta_load(self) -> float:
        """The share of the time that the accelerator is busy, 0 to 1."""
        return self.vta_ms / self.interval_ms

    @property
    def arm_load(self) -> float:
        """The share of the time that the ARM stages' cores are busy, 0 to 1."""
        return self.arm_ms / self.arm_cores / self.interval_ms


def forecast(options: ForecastOptions, progress: Progress | None = None) -> Forecast:
    """Return what a build of the network for the board would give.

    The same network and options always give the same result. Ranges come from made-up pictures,
    so an operator whose values are near a limit can be placed differently by a build with real
    pictures. Raises FrontendError for files that cannot be read, PartitionError for unknown
    operators, QuantizeError for unknown layers, and ``UnbuildableError`` for a network that would
    not build.
    """
    with remembered() as interrupts:
        found = _forecast(options, _Notes(progress or Silent()))
        interrupts.check()
        return found


def _forecast(options: ForecastOptions, notes: _Notes) -> Forecast:
    rules = rule_sets(options.rules)
    placement = None
    if options.placement_file is not None:
        placement = placement_file.read(options.placement_file)
    if options.export_placement is not None:
        exports.check_target(placement_file.EXPORT, options.export_placement)
    costs = None
    if options.costs is not None:
        costs = cost_file.read(options.costs)
        cost_file.require_board(costs, options.board.name)
    rest = rest_of(options.board, options.beside)
    for text in rest.notices:
        notes.notice(text)
    options = replace(options, board=rest.board)
    rehearsed = rehearse(
        options.model,
        notes,
        described=options.description,
        float_layers=options.float_layers,
        int16_layers=options.int16_layers,
        one_table=needs_one_table(options.board.accelerator),
    )
    quantized = rehearsed.quantized
    wishes = Wishes(
        cuts=options.cuts,
        depthwise=options.depthwise,
        objective=options.objective,
        max_latency_ms=options.max_latency_ms,
        stages=options.stages,
        slots=options.slots,
    ).placed(options.placement)
    with _unbuildable(options):
        notes.step("placing operators")
        check = recipe.vta_check(quantized, rehearsed.network, options.board, rules)
        measured = measured_costs(costs, check, quantized.input_name, options.board)
        wishes = placement_file.combined(wishes, placement, check.operators)
        with placement_file.naming_lines(placement, options.placement):
            found = arrange_shared(
                Task(
                    quantized=quantized,
                    check=check,
                    board=options.board,
                    wishes=wishes,
                    measured=measured,
                ),
                notes,
            )
    arranged, task = found.arrangement, found.task
    if options.export_placement is not None:
        wishes = replace(wishes, shares=found.shares)
        text = placement_file.to_toml(arranged, check.operators, wishes)
        with exports.prepared(placement_file.EXPORT, options.export_placement, text) as place:
            place()
    return _summed_up(options, arranged, task.check, rehearsed, notes)


class _Notes:
    """Passes progress on and keeps its notices."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.notices: tuple[str, ...] = ()

    def step(self, text: str) -> None:
        self._progress.step(text)

    def update(self, done: int, total: int) -> None:
        self._progress.update(done, total)

    def notice(self, text: str) -> None:
        self.notices += (text,)


@contextmanager
def _unbuildable(options: ForecastOptions) -> Iterator[None]:
    """Turn the errors of placing into the answer that the network does not build.

    Errors about what was asked for stay as they are.
    """
    asked = options.cuts or options.placement or options.rules or options.placement_file
    limited = options.max_latency_ms is not None or options.stages is not None
    with unbuildable(options.model, QuantizeError, LayerError, CodegenError):
        if asked or options.objective or limited:
            yield
        else:
            with unbuildable(options.model, PartitionError):
                yield


def _summed_up(
    options: ForecastOptions,
    arranged: Arrangement,
    check: VtaCheck,
    rehearsed: Rehearsal,
    notes: _Notes,
) -> Forecast:
    board, stages = options.board, arranged.stages
    forecasts = []
    for stage in stages:
        forecasts.append(
            StageForecast(
                name=stage.name,
                device=stage.segment.device,
                operators=len(stage.segment.operators),
                ms=arranged.stage_ms(stage, board),
                threads=stage.cores.threads,
                inputs=stage.module.inputs,
                outputs=stage.module.outputs,
                measured=arranged.measured_ms(stage) is not None,
            )
        )
    memory = Memory(
        shared_bytes=arranged.memory.shared_bytes,
        slot_bytes=arranged.memory.slot_bytes,
        slots=arranged.slots,
        board_bytes=board.dma_bytes,
    )
    placed = [(stage, p) for stage in stages for p in stage.segment.operators]
    hop_ms = board.arm_timing.handover_us / 1e3
    vta = [stage.ms for stage in forecasts if stage.device == "vta"]
    arm = [stage.ms * stage.threads for stage in forecasts if stage.device == "arm"]
    return Forecast(
        model=options.model.name,
        board=board.name,
        description=str(rehearsed.description or ""),
        guesses=rehearsed.guesses,
        operators=tuple(_operator(stage, p, check, arranged.measured) for stage, p in placed),
        stages=tuple(forecasts),
        hand_overs=hand_overs(
            (
                StageEnds(name=s.name, device=s.device, reads=s.inputs, writes=s.outputs)
                for s in forecasts
            ),
            arranged.tensors,
        ),
        hops=len(stages) - 1,
        vta_ms=sum(vta) + len(vta) * hop_ms,
        arm_ms=sum(arm) + len(arm) * hop_ms,
        arm_cores=board.arm_cores,
        interval_ms=arranged.interval_ms(board, memory.slots),
        bound_ms=max(sum(vta), sum(arm) / board.arm_cores),
        latency_ms=sum(stage.ms + hop_ms for stage in forecasts),
        memory=memory,
        live_slots=arranged.live_slots,
        floats=_floats([p for _, p in placed]),
        notices=notes.notices,
        split=arranged.split,
        costs=str(options.costs or ""),
        failures=arranged.measured.failures,
    )


def _operator(
    stage: PlannedStage,
    placed: PlacedOperator,
    check: VtaCheck,
    measured: MeasuredCosts,
) -> OperatorForecast:
    operator = placed.operator
    ms = measured.operator_ms(operator)
    if placed.device == "vta":
        found = measured.cycles(operator.name, check.cycles[operator.name])
        ms = measured.board.vta_ms(found)
    return OperatorForecast(
        name=operator.name,
        kind=operator.kind,
        can=tuple(device for device in DEVICES if check.runs_on(operator, device)),
        device=placed.device,
        stage=stage.name,
        reason=placed.reason,
        ms=ms,
        measured=measured.is_measured(operator.name, placed.device),
    )


def _floats(placed: Sequence[PlacedOperator]) -> tuple[FloatOperators, ...]:
    """Return the operators that compute with floating-point numbers, by kind."""
    before_vta = _before(placed, lambda p: p.device == "vta")
    before_layers = _before(placed, lambda p: p.operator.layer is not None)
    computed_on = _computed_on(placed)
    found: dict[tuple[str, str], list[Operator]] = {}
    for p in placed:
        kind, _, why = p.reason.partition(": ")
        if why.startswith(_STAYS_FLOAT):
            remedy = _NOT_A_PICTURE if "not a picture" in why else _OTHER
            if p.operator.output not in before_layers:
                remedy = _RESULT
            remedy = _REMEDIES.get(kind, remedy)
            if p.operator.output not in computed_on:
                remedy = _REMEDIES_AT_THE_END.get(kind, remedy)
            remedy = _REQUESTED.get(why.removeprefix(_STAYS_FLOAT), remedy)
            found.setdefault((kind, remedy), []).append(p.operator)
    return tuple(
        FloatOperators(
            kind=kind,
            operators=tuple(operator.name for operator in operators),
            inside=tuple(o.name for o in operators if o.output in before_vta),
            remedy=remedy,
        )
        for (kind, remedy), operators in found.items()
    )


def _before(
    placed: Sequence[PlacedOperator], is_wanted: Callable[[PlacedOperator], bool]
) -> set[str]:
    """Return the tensors on which an operator depends that is wanted."""
    found: set[str] = set()
    for p in reversed(placed):
        if is_wanted(p) or p.operator.output in found:
            found.update(p.operator.inputs)
    return found


def _computed_on(placed: Sequence[PlacedOperator]) -> set[str]:
    """Return the tensors that an operator computes with, now or after they were moved."""
    found: set[str] = set()
    for p in reversed(placed):
        moves = all(binding.op in _MOVES for binding in p.operator.bindings)
        if not moves or p.operator.output in found:
            found.update(p.operator.inputs)
    return found
