"""Arrange a network by a search: from its operators to segments, and a report of the choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from edgepipe.boards import Board
from edgepipe.partition.depthwise import slot_bytes
from edgepipe.partition.measured.costs import MeasuredCosts
from edgepipe.partition.memory_fit import weight_bytes
from edgepipe.partition.operator import Operator
from edgepipe.partition.placement import PlacedOperator, Segment, segment
from edgepipe.partition.search.judge import Judge
from edgepipe.partition.search.report import SplitReport, report
from edgepipe.partition.search.split import Goal, find_split
from edgepipe.partition.search.table import Placement, cost_table

MOST_LATENCY = 1.15
"""How much longer than by the rule a frame alone may take, if no objective was asked for."""

LEAST_GAIN = 1.02
"""How many times the rule's frames per second are worth another split, without an objective."""

_WORSE = 1.02  # how much longer frames may be apart if fewer of them are in flight

_ON_ARM = {
    "throughput": "runs while the VTA has other frames: more frames a second, by the model",
    "latency": "a frame takes less time with it on arm, by the model",
    "energy-proxy": "less busy time with it on arm, by the model",
}
_ON_VTA = "fits the accelerator"
_WHOLE = "the whole network runs on arm: that suits the objective and its limits best"
_TUPLE = "reads one tensor of several that cannot leave their stage on arm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Automatic:
    """The segments of the best split, what is to be said about it, and whether it is the rule's."""

    segments: tuple[Segment, ...]
    report: SplitReport
    is_rule: bool


def arrange_automatically(
    placed: Sequence[PlacedOperator],
    by_rule: Sequence[Segment],
    check: Callable[[Operator], None],
    cycles: Mapping[str, float],
    tensor_bytes: Mapping[str, int],
    board: Board,
    goal: Goal | None,
    fixed: Mapping[str, str],
    slots: int | None = None,
    mended: Callable[[Mapping[str, str]], Mapping[str, tuple[str, str]]] = lambda _: {},
    measured: MeasuredCosts | None = None,
) -> Automatic:
    """Return the best split of a network for ``goal``, or without a goal a split in its place.

    ``placed`` are all operators in order, with the reasons of those that only run on one device.
    ``by_rule`` are the segments without a search. ``check``, ``cycles`` and ``measured`` are as in
    ``cost_table``; ``fixed`` are the devices of operators that are settled. Without a goal, the
    split has the most frames per second of those whose latency is at most 15 % above that of
    ``by_rule``, with ``slots`` of them in flight if that is given, or it is ``by_rule`` if no other
    has 2 % more. ``mended`` gives the
    operators that must leave their devices because of others, with the new device and the reason.
    Raises ``PartitionError`` if no split keeps the goal's limits.
    """
    operators = [each.operator for each in placed]
    table = cost_table(operators, check, cycles, board, fixed, measured, tensor_bytes)
    devices = {p.operator.name: p.device for part in by_rule for p in part.operators}
    rule: Placement = tuple(devices[row.name] == "vta" for row in table.rows)

    def arranged(placement: Placement, objective: str) -> tuple[Segment, ...]:
        moved = []
        for each, row, on_vta in zip(placed, table.rows, placement, strict=True):
            device = "vta" if on_vta else "arm"
            if row.is_free or device != each.device:
                reason = _ON_VTA if on_vta else _ON_ARM[objective]
                if row.vta_ms is None:
                    reason = _TUPLE
                elif not any(placement):
                    reason = _WHOLE
                moved.append(replace(each, device=device, reason=reason))
            else:
                moved.append(each)
        changes = mended({each.operator.name: each.device for each in moved})
        for number, each in enumerate(moved):
            if each.operator.name in changes:
                device, reason = changes[each.operator.name]
                moved[number] = replace(each, device=device, reason=reason)
        return segment(moved)

    weights = [weight_bytes(operator, board.accelerator) for operator in operators]

    def most_slots(placement: Placement, wanted: int) -> int:
        left = board.dma_bytes - sum(w for w, on in zip(weights, placement, strict=True) if on)
        if wanted * sum(tensor_bytes.values()) <= left:
            return wanted
        needed = slot_bytes(arranged(placement, "throughput"), tensor_bytes)
        return min(wanted, left // max(needed, 1))

    judge = Judge(table, most_slots)
    wanted = goal or Goal(
        alone_ms=MOST_LATENCY * judge.estimate(rule).latency_ms, slots=slots, uses_vta=any(rule)
    )
    outcome = find_split(judge, wanted, [rule])
    options = (outcome.best, *outcome.others)
    plain = next((each for each in options if each.estimate.placement == rule), None)
    by_rule_still = (
        goal is None
        and plain is not None
        and plain.interval_ms <= LEAST_GAIN * outcome.best.interval_ms
    )
    if by_rule_still and plain is not None:
        others = tuple(each for each in options if each is not plain)
        outcome = replace(outcome, best=plain, others=others)
    best = outcome.best
    return Automatic(
        segments=tuple(by_rule)
        if by_rule_still
        else arranged(best.estimate.placement, wanted.objective),
        report=report(table, wanted, outcome, plain),
        is_rule=by_rule_still,
    )


def live_slots(interval_ms: Callable[[int], float], most: int, objective: str) -> int:
    """Return the frames in flight for a camera, at most ``most``: the fewest that keep the rate
    within 2 %.

    For ``latency`` they make the time from an event to its results shortest: half an interval until
    a picture shows it, and the time of that picture in the pipeline. ``interval_ms`` gives the time
    between frames with so many of them in flight.
    """
    intervals = {slots: interval_ms(slots) for slots in range(1, most + 1)}
    if objective == "latency":
        return min(intervals, key=lambda slots: (slots + 0.5) * intervals[slots])
    return next(slots for slots, ms in intervals.items() if ms <= _WORSE * intervals[most])
