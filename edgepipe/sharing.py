"""Operators that ARM and the VTA share: a network is arranged with them divided into halves.

Those that someone asked for are divided before anything is placed. Others are tried once a search
has found a split, and kept if the compiled programs then have enough more frames per second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from edgepipe.arrangement import Arrangement, arrange, compiled_cycles, is_searched
from edgepipe.boards import Board
from edgepipe.errors import CodegenError, LayerError, PartitionError
from edgepipe.names import suggest
from edgepipe.partition import sharing
from edgepipe.partition.arm_cost import layer_ms
from edgepipe.partition.choices import BY_RULE
from edgepipe.partition.folding import with_folds
from edgepipe.partition.measured.costs import MeasuredCosts
from edgepipe.partition.operator import Operator
from edgepipe.partition.operators import match_operators
from edgepipe.partition.reasons import VtaCheck
from edgepipe.partition.search.automatic import LEAST_GAIN, MOST_LATENCY
from edgepipe.partition.search.report import SharedOperator, Sharing
from edgepipe.partition.search.shares import HalfCosts, Shares, find_shares
from edgepipe.partition.search.split import Goal
from edgepipe.partition.search.table import cost_table
from edgepipe.partition.sharing import Halves
from edgepipe.partition.wishes import Wishes
from edgepipe.progress import Held, Progress
from edgepipe.quantize.quantizer import QuantizedNetwork
from edgepipe.quantize.replacing import Replacement, replaced
from vta_stages.layers.records import Conv, TransposedConv
from vta_stages.memory_plan import copy_layer

THROUGHPUT_GAIN = 1.005
"""How many times the frames per second are worth shared operators, if these were asked for.

Without an objective it is ``LEAST_GAIN``, as for another split than that by rule.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is to be arranged: a quantised network with the check of its operators, on a board.

    ``measured`` are the costs that were measured.
    """

    quantized: QuantizedNetwork
    check: VtaCheck
    board: Board
    wishes: Wishes
    measured: MeasuredCosts


@dataclass(frozen=True, slots=True, kw_only=True)
class Arranged:
    """An arrangement, and its ``task``, whose operators are those that were arranged.

    ``shares`` are the output channels on ARM of shared operators of the network.
    """

    arrangement: Arrangement
    task: Task
    shares: Mapping[str, int] = field(default_factory=dict)


def arrange_shared(task: Task, progress: Progress) -> Arranged:
    """Arrange a network with the operators shared that were asked for, or that are worth it.

    Raises as ``shared`` and ``arrangement.arrange`` do.
    """
    asked = task.wishes.shares
    task = shared(task)
    found = Arranged(arrangement=_arrange(task, progress), task=task, shares=asked)
    proposed = propose(task, found.arrangement)
    if proposed is None:
        return found
    board, before = task.board, found.arrangement
    progress.step(f"trying shared operators ({len(proposed.channels)})")
    try:
        more = shared(_pinned(task, before, proposed))
        after = _arrange(more, Held(progress))
    except (CodegenError, LayerError, PartitionError):
        return found  # such as for want of memory, which halves need a little more of
    without_ms, interval_ms = (each.interval_ms(board, each.slots) for each in (before, after))
    if without_ms < _least_gain(task.wishes) * interval_ms:
        return found
    report = Sharing(
        operators=tuple(
            SharedOperator(name=name, arm_channels=on_arm, channels=_channels(task, name))
            for name, on_arm in proposed.channels.items()
        ),
        interval_ms=interval_ms,
        without_ms=without_ms,
    )
    progress.notice(report.line())
    assert before.split is not None
    return Arranged(
        arrangement=replace(after, split=replace(before.split, sharing=report)),
        task=more,
        shares={**asked, **proposed.channels},
    )


def _arrange(task: Task, progress: Progress) -> Arrangement:
    return arrange(task.quantized, task.check, task.board, task.wishes, progress, task.measured)


def propose(task: Task, arrangement: Arrangement) -> Shares | None:
    """Return the operators to share by the model; None if no search for frames was made."""
    wishes, board, split = task.wishes, task.board, arrangement.split
    if split is None or not is_searched(wishes, board, task.check):
        return None
    goal = wishes.goal or Goal(alone_ms=MOST_LATENCY * split.rule_latency_ms, slots=wishes.slots)
    if goal.objective != "throughput":
        return None
    placed = [p for stage in arrangement.stages for p in stage.segment.operators]
    devices = {p.operator.name: p.device for p in placed}
    cycles = {**task.check.cycles, **compiled_cycles(arrangement, board)}
    operators, measured = task.check.operators, task.measured
    table = cost_table(operators, task.check, cycles, board, devices, measured)
    found = find_shares(
        table,
        tuple(devices[row.name] == "vta" for row in table.rows),
        replace(goal, slots=arrangement.slots),
        _Divider(task, cycles),
        lambda wanted: min(wanted, arrangement.slots),
    )
    return found if found and found.gain >= _least_gain(wishes) else None


def _least_gain(wishes: Wishes) -> float:
    return THROUGHPUT_GAIN if wishes.objective else LEAST_GAIN


def _pinned(task: Task, arrangement: Arrangement, proposed: Shares) -> Task:
    """Return the task with all operators where they are, except those to be shared."""
    placed = [p for stage in arrangement.stages for p in stage.segment.operators]
    wishes = replace(
        task.wishes,
        placement={
            p.operator.name: p.device for p in placed if p.operator.name not in proposed.channels
        },
        reasons={p.operator.name: p.reason for p in placed},
        shares=proposed.channels,
        objective=BY_RULE,
        max_latency_ms=None,
        stages=None,
        slots=proposed.after.slots if task.wishes.max_latency_ms is not None else task.wishes.slots,
    )
    return replace(task, wishes=wishes)


def _channels(task: Task, name: str) -> int:
    layer = next(o.layer for o in task.check.operators if o.name == name)
    assert layer is not None
    return layer.output.channels


class _Divider:
    """What halves of a task's operators cost; ``cycles`` are those of wholes in their programs."""

    def __init__(self, task: Task, cycles: Mapping[str, float]) -> None:
        self._task, self._cycles = task, cycles
        self._operators = {operator.name: operator for operator in task.check.operators}

    def choices(self, name: str) -> Sequence[int]:
        """Return the output channels that ARM can have; none of an operator with a wish."""
        check, operator = self._task.check, self._operators.get(name)
        if operator is None or name in self._task.wishes.placement or not self._cycles.get(name):
            return ()
        if not check.runs_on(operator, "arm") or not self._operators.keys().isdisjoint(
            (name + sharing.ON_VTA, name + sharing.ON_ARM)
        ):
            return ()
        return sharing.shares(operator, check.accelerator.block_in)

    def guess(self, name: str, arm_channels: int) -> HalfCosts:
        """Return the costs with the accelerator's time divided like the channels."""
        layer = self._operators[name].layer
        assert layer is not None
        return self._costs(name, arm_channels, 1 - arm_channels / layer.output.channels)

    def cost(self, name: str, arm_channels: int) -> HalfCosts | None:
        """Return the costs with the accelerator's time divided as the tiler would."""
        check, operator = self._task.check, self._operators[name]
        parts = halves(self._task, operator, arm_channels)
        half = next(layer for layer in parts.layers if layer.output.name == parts.parts[0])
        try:
            part = check.layer_cycles(half) / check.cycles[name]
        except LayerError:
            return None
        return self._costs(name, arm_channels, part)

    def _costs(self, name: str, arm_channels: int, vta_part: float) -> HalfCosts:
        task, operator = self._task, self._operators[name]
        board, layer = task.board, operator.layer
        assert isinstance(layer, Conv | TransposedConv)
        parts = halves(task, operator, arm_channels)
        made = {each.output.name: each for each in parts.layers}
        half = made[parts.parts[1]]
        arm_ms = task.measured.operator_ms(operator) * (
            layer_ms(half, board) / layer_ms(layer, board)
        )
        arm_ms += sum(layer_ms(made[n], board) for n in parts.picks if parts.devices[n] == "arm")
        on_vta = parts.devices[name] == "vta"
        if on_vta:  # which then copies ARM's half to its place
            copied = copy_layer(name, half.output, replace(half.output, name=name))
            join_ms = board.vta_ms(task.check.layer_cycles(copied))
        else:
            join_ms = layer_ms(made[name], board)
        whole = task.measured.cycles(name, self._cycles[name])
        return HalfCosts(
            vta_ms=board.vta_ms(vta_part * whole),
            arm_ms=arm_ms,
            join_ms=join_ms,
            joined_on_vta=on_vta,
        )


def shared(task: Task) -> Task:
    """Return the task with the operators of ``wishes.shares`` divided into halves.

    Halves have the devices that they are for; their names and those of other operators are then
    the names of the task. Every tensor of the network keeps its name and its bits. Raises
    ``PartitionError`` for operators that are unknown or cannot be shared in this way.
    """
    wishes = task.wishes
    if not wishes.shares:
        return task
    operators = {operator.name: operator for operator in task.check.operators}
    for name in wishes.shares:
        if name not in operators:
            raise PartitionError(
                f"operator {name!r} is unknown", hint=suggest(name, list(operators))
            )
    found = {name: _halves(task, operators[name], wishes.shares[name]) for name in wishes.shares}
    quantized = replace(
        task.quantized,
        module=replaced(
            task.quantized.module,
            {
                name: Replacement(
                    bindings={binding.name for binding in operators[name].bindings},
                    layers=each.layers,
                )
                for name, each in found.items()
            },
        ),
    )
    devices: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for each in found.values():
        devices |= each.devices
        reasons |= each.reasons
    accelerator = task.check.accelerator
    made = with_folds(match_operators(quantized.module), quantized.output_names, accelerator)
    check = task.check.of(made, {*devices})
    picks = {name for each in found.values() for name in each.picks}
    for operator in made:
        if operator.name in picks and devices[operator.name] == "vta" and not _why(check, operator):
            check.cycles[operator.name] = 0.0  # programs read these blocks where they are
    return replace(
        task,
        quantized=quantized,
        check=check,
        measured=task.measured.divided(
            (operators[name], [part for part in made if part.name in each.parts])
            for name, each in found.items()
        ),
        wishes=replace(
            wishes,
            placement={**wishes.placement, **devices},
            reasons={**wishes.reasons, **reasons},
            shares={},
        ),
    )


def _halves(task: Task, operator: Operator, arm_channels: int) -> Halves:
    """Return the halves that were asked for; raise ``PartitionError`` if that cannot be."""
    check = task.check
    unable = {}
    if why := _why(check, operator):
        unable["vta"] = why
    if not check.book.allows(operator, "arm"):
        unable["arm"] = "the rules refuse it"
    names = {each.name for each in check.operators}
    sharing.require(operator, arm_channels, check.accelerator.block_in, names, unable)
    return halves(task, operator, arm_channels)


def halves(task: Task, operator: Operator, arm_channels: int) -> Halves:
    """Return the halves of an operator that can be shared, with the device of their join."""
    # What the first convolution reads comes from ARM, where its half can run before the other one.
    # Later ones read what the accelerator computed, which is busier than the cores.
    first = next((each.name for each in task.check.operators if each.kind == "conv"), "")
    return sharing.halves(operator, arm_channels, "vta" if operator.name == first else "arm")


def _why(check: VtaCheck, operator: Operator) -> str:
    """Return why the accelerator cannot run an operator, or nothing."""
    try:
        check(operator)
    except LayerError as error:
        return str(error)
    return ""
