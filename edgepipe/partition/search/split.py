"""Find the best placement of a table: candidates by dynamic programming, judged by simulation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from edgepipe.errors import PartitionError
from edgepipe.partition.search.judge import Estimate, Judge
from edgepipe.partition.search.labels import (
    WEIGHTS,
    Aim,
    Limits,
    search_labels,
    without_hops_ms,
)
from edgepipe.partition.search.table import Placement, Row, contracted

FEW = 10
"""With so few free rows, every placement is looked at."""

_SEEDS = 3  # placements kept of the search for each weight
_MOST_STAGES = 600  # that are simulated of one set of candidates
_REFINED = 4  # searches that also compare open stages, each for something better still
_LABELS = 400  # of such a search
_FEW_STAGES = 32  # and half of them: limits of more such searches
_ALL_PAIRS = 24  # of free rows: all two are changed together, otherwise those near each other
_NEAR = 1
_ROUNDS = 3
_FINALISTS = 5
_SLACK = 1 + 1e-9
_ALIKE = 1.005  # two times so near are equal: the model is coarser


AIMS = {"throughput": Aim.INTERVAL, "latency": Aim.LATENCY, "energy-proxy": Aim.BUSY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a split is to be good at, and what it must keep.

    ``objective`` is one of ``choices.OBJECTIVES``. ``latency_ms`` is the longest time from a
    frame's start to its results while frames keep coming, ``alone_ms`` that of a frame alone.
    ``stages`` is the most stages; None is no limit. ``slots`` is the number of frames in flight,
    None the board's usual one. With ``uses_vta``, the accelerator has work.
    """

    objective: str = "throughput"
    latency_ms: float | None = None
    alone_ms: float | None = None
    stages: int | None = None
    slots: int | None = None
    uses_vta: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A placement with its simulated ``interval_ms`` between frames, with ``slots`` in flight."""

    estimate: Estimate
    slots: int
    interval_ms: float

    @property
    def loaded_ms(self) -> float:
        """The time from a frame's start to its results if a frame always waits, in ms."""
        return max(self.slots * self.interval_ms, self.estimate.latency_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The best option, the others that were judged, best first, and a bound.

    No placement makes the objective's time (``Goal.objective``) less than ``bound_ms``. If
    ``is_complete``, no candidate was left out for want of room.
    """

    best: Option
    others: tuple[Option, ...]
    bound_ms: float
    is_complete: bool


def find_split(
    judge: Judge, goal: Goal, known: Sequence[Placement] = (), *, few: int = FEW
) -> Outcome:
    """Return the best placement of the judge's table for ``goal``.

    ``known`` are placements that are candidates in any case. Every placement is looked at if at
    most ``few`` rows are free. The same arguments always give the same result. Raises
    ``PartitionError`` if no placement keeps the goal's limits.
    """
    return _Finder(judge, goal).find(known, few)


def judged(judge: Judge, goal: Goal, placement: Placement) -> Option | None:
    """Return what a placement gives for ``goal``, or None if it does not keep the limits."""
    return _Finder(judge, goal).option(placement)


class _Finder:
    def __init__(self, judge: Judge, goal: Goal) -> None:
        self._judge, self._goal = judge, goal
        self._small = contracted(judge.table)
        self._judged: dict[Placement, Option | None] = {}
        self._estimates: dict[Placement, Estimate] = {}

    def find(self, known: Sequence[Placement], few: int) -> Outcome:
        """Return the best placement; see ``find_split``."""
        table = self._small.table
        for placement in known:
            self.option(placement)
        bound_ms, seeds = self._bound_and_seeds()
        self._judge_best(seeds)
        free = [number for number, row in enumerate(table.rows) if row.is_free]
        is_complete = True
        if len(free) <= few:
            self._judge_best(every_placement(table.rows))
        else:
            is_complete = self._search()
        options = self._finalists()
        if not options:
            raise self._impossible()
        return self._outcome(options, bound_ms, is_complete)

    def _finalists(self) -> list[Option]:
        """Return all options, after a longer simulation of the best ones."""
        options = [option for option in self._judged.values() if option is not None]
        for option in sorted(options, key=self._value)[:_FINALISTS]:
            self._judged[option.estimate.placement] = self._confirmed(option)
        return [option for option in self._judged.values() if option is not None]

    def _search(self) -> bool:
        """Judge what the dynamic programming finds; return whether nothing was left out."""
        table, aim = self._small.table, AIMS[self._goal.objective]
        is_complete = True
        for own_cores in (True, False):
            found = search_labels(table, aim, self._limits(), own_cores=own_cores)
            is_complete &= found.is_complete
            self._judge_best(found.placements)
        if aim is not Aim.INTERVAL:
            return is_complete
        for _ in range(_REFINED):
            best = self._best()
            limits = replace(
                self._limits(), interval_ms=best / _ALIKE, labels=_LABELS, open_stages=True
            )
            found = search_labels(table, aim, limits, own_cores=False)
            self._judge_best(found.placements)
            if not self._best() < best / _ALIKE:
                break
        self._judge_of_few_stages()
        self._judge_neighbours()
        return is_complete

    def _judge_of_few_stages(self) -> None:
        """Judge what the searches with fewer stages find.

        They keep more apart, so this finds what the search without that limit drops on its way.
        """
        most = min(self._goal.stages or _FEW_STAGES, _FEW_STAGES)
        for stages in sorted({most, (most + 1) // 2}):
            limits = replace(self._limits(), stages=stages, labels=_LABELS, open_stages=True)
            found = search_labels(self._small.table, Aim.INTERVAL, limits, own_cores=False)
            self._judge_best(found.placements)

    def _judge_neighbours(self) -> None:
        """Judge what differs by a row or two from the best placement and from the most promising.

        A placement whose floor is a little higher can be simulated to be faster.
        """
        free = [number for number, row in enumerate(self._small.table.rows) if row.is_free]
        near = range(1, len(free) if len(free) <= _ALL_PAIRS else _NEAR + 1)
        flips: list[tuple[int, ...]] = [(each,) for each in free]
        flips += [pair for far in near for pair in zip(free, free[far:], strict=False)]
        for _ in range(_ROUNDS):
            before = self._best()
            options = [option for option in self._judged.values() if option is not None]
            if not options:
                return
            promising = min(options, key=lambda option: self._floor(option.estimate))
            for option in (min(options, key=self._value), promising):
                base = self._small.contract(option.estimate.placement)
                self._judge_best(
                    tuple(on ^ (number in flip) for number, on in enumerate(base)) for flip in flips
                )
            if not self._best() < before / _ALIKE:
                return

    def _limits(self) -> Limits:
        """Return the limits of placements that can be better than the best known."""
        best, goal = self._best(), self._goal
        latency_ms = min(goal.latency_ms or np.inf, goal.alone_ms or np.inf)
        return Limits(
            interval_ms=best if goal.objective == "throughput" else np.inf,
            latency_ms=min(best, latency_ms) if goal.objective == "latency" else latency_ms,
            busy_ms=best if goal.objective == "energy-proxy" else np.inf,
            stages=goal.stages,
        )

    def _bound_and_seeds(self) -> tuple[float, list[Placement]]:
        """Return a bound on the objective, and placements that are good for a start."""
        table, aim = self._small.table, AIMS[self._goal.objective]
        limits = Limits(stages=self._goal.stages)
        seeds: list[Placement] = []
        bounds: list[float] = []

        @cache
        def at(weight: float) -> float:
            found = search_labels(table, aim, limits, own_cores=False, weight=weight)
            seeds.extend(found.placements[:_SEEDS])
            if found.is_complete:
                bounds.append(found.bound_ms)
            return found.bound_ms

        # The least of sums that grow linearly with the weight is concave in it: the highest is
        # where it no longer rises.
        low, high = 0, len(WEIGHTS) - 1
        while low < high:
            middle = (low + high) // 2
            if at(WEIGHTS[middle]) < at(WEIGHTS[middle + 1]):
                low = middle + 1
            else:
                high = middle
        least_ms = without_hops_ms(table, aim)
        bound_ms = max([least_ms, *bounds]) if aim is Aim.INTERVAL else least_ms
        return bound_ms / _SLACK, seeds

    def _judge_best(self, placements: Iterable[Placement]) -> None:
        """Judge placements of the small table, the most promising first, while one can be best."""
        estimates = [self._estimate(self._small.expand(each)) for each in dict.fromkeys(placements)]
        left = _MOST_STAGES
        for estimate in sorted(estimates, key=self._floor):
            if left <= 0 or self._floor(estimate) >= self._best():
                break
            if estimate.placement not in self._judged:
                left -= len(estimate.stages.devices)
                self.option(estimate.placement)

    def _estimate(self, placement: Placement) -> Estimate:
        if placement not in self._estimates:
            self._estimates[placement] = self._judge.estimate(placement)
        return self._estimates[placement]

    def option(self, placement: Placement) -> Option | None:
        """Judge a placement once; None if it does not keep the limits."""
        if placement not in self._judged:
            self._judged[placement] = self._try(self._estimate(placement))
        return self._judged[placement]

    def _try(self, estimate: Estimate) -> Option | None:
        goal = self._goal
        if goal.stages is not None and len(estimate.stages.devices) > goal.stages:
            return None
        if goal.uses_vta and not any(estimate.placement):
            return None
        if goal.alone_ms is not None and estimate.latency_ms > goal.alone_ms * _SLACK:
            return None
        most = self._judge.slots(estimate, goal.slots)
        if goal.latency_ms is None:
            return self._simulated(estimate, most)
        if estimate.latency_ms > goal.latency_ms:
            return None
        for slots in range(max(1, min(most, int(goal.latency_ms / estimate.floor_ms))), 0, -1):
            option = self._simulated(estimate, slots)
            if option.loaded_ms <= goal.latency_ms * _SLACK:
                return option
        return None

    def _simulated(self, estimate: Estimate, slots: int) -> Option:
        interval_ms = self._judge.interval_ms(estimate, slots)
        option = Option(estimate=estimate, slots=slots, interval_ms=interval_ms)
        return self._confirmed(option) if self._value(option) < self._best() else option

    def _confirmed(self, option: Option) -> Option:
        """Return the option after a longer simulation.

        Without that, one whose first frames are fast would keep others from being looked at.
        """
        if self._goal.objective != "throughput":
            return option
        interval_ms = self._judge.interval_ms(option.estimate, option.slots, for_long=True)
        return replace(option, interval_ms=max(interval_ms, option.interval_ms))

    def _floor(self, estimate: Estimate) -> float:
        """Return what a placement's value is at least."""
        match self._goal.objective:
            case "latency":
                return estimate.latency_ms
            case "energy-proxy":
                return estimate.busy_ms
        return max(estimate.floor_ms, estimate.latency_ms / (self._goal.slots or estimate.slots))

    def _value(self, option: Option) -> float:
        return (
            option.interval_ms
            if self._goal.objective == "throughput"
            else self._floor(option.estimate)
        )

    def _best(self) -> float:
        values = [self._value(each) for each in self._judged.values() if each is not None]
        return min(values, default=np.inf)

    def _outcome(self, options: Sequence[Option], bound_ms: float, is_complete: bool) -> Outcome:
        def rank(option: Option) -> tuple[float, float, float]:
            return self._value(option), option.interval_ms, option.estimate.latency_ms

        def simpler(option: Option) -> tuple[float, float]:
            if self._goal.objective == "throughput":
                return len(option.estimate.stages.devices), option.estimate.latency_ms
            return option.interval_ms, option.estimate.latency_ms

        most = _ALIKE * self._best()
        best = min((each for each in options if self._value(each) <= most), key=simpler)
        others = sorted((each for each in options if each is not best), key=rank)
        return Outcome(best=best, others=tuple(others), bound_ms=bound_ms, is_complete=is_complete)

    def _impossible(self) -> PartitionError:
        goal = self._goal
        fewest = min(len(each.stages.devices) for each in self._estimates.values())
        if goal.stages is not None and fewest > goal.stages:
            return PartitionError(
                f"no split has at most {goal.stages} stages, expected {fewest} or more",
                hint="allow more stages",
                option="stages",
                value=str(fewest),
            )
        fastest = find_split(self._judge, Goal(objective="latency", stages=goal.stages)).best
        least_ms = fastest.estimate.latency_ms
        return PartitionError(
            f"no split gives results within {goal.latency_ms:g} ms: the fastest takes "
            f"{least_ms:.2f} ms by the model",
            hint="allow more time, or use a smaller network or picture",
            option="max_latency_ms",
            value=f"{math.ceil(100 * least_ms) / 100:g}",
        )


def every_placement(rows: Sequence[Row]) -> Iterator[Placement]:
    """Yield every placement of rows that each can run on at least one device."""
    choices = [
        (True,) if r.arm_ms is None else (False, True) if r.is_free else (False,) for r in rows
    ]
    return itertools.product(*choices)
