"""Search all placements of a table by dynamic programming over its rows.

A label is a placement of the rows so far: the stages that later rows depend on, and the work of
both devices. Of labels with equal stages only those stay that no other dominates, and only those
that can still beat the best placement known.

    own cores    every ARM stage has cores of its own: the work of each stage counts
    crew         more ARM stages than cores: the work of all of them counts together

Both are searched, because they cost differently (``cores.divide``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.partition.search.pareto import undominated
from edgepipe.partition.search.table import CostTable, Placement
from edgepipe.partition.search.walk import Step, walk

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WEIGHTS = tuple(number / 16 for number in range(17))
"""Weights of the VTA's work beside that of the cores, for bounds on the larger of both."""

_KEPT = 3  # loads that a label of a crew keeps: the last two ARM stages, and the longest before
_CLASSES = 4  # how finely the load of an open stage tells labels of a crew apart
_SLACK = 1 + 1e-9  # so that sums in another order do not exclude the best


class Aim(Enum):
    """What a search makes small."""

    INTERVAL = "interval"
    LATENCY = "latency"
    BUSY = "busy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What labels must not exceed, all in ms: placements beyond it are not looked for.

    ``stages`` is the most stages, None without a limit. ``labels`` is the most that are kept after
    each row: more take more time, and with fewer the best placement can be missed. With
    ``open_stages``, labels of a crew are also compared by the work of its last two ARM stages,
    which can become the longest.
    """

    interval_ms: float = np.inf
    latency_ms: float = np.inf
    busy_ms: float = np.inf
    stages: int | None = None
    labels: int = 1500
    open_stages: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Complete placements, and the least that any placement's aim can be within the limits.

    ``is_complete`` if no label was left out for want of room.
    """

    placements: tuple[Placement, ...]
    bound_ms: float
    is_complete: bool


@dataclass(slots=True, kw_only=True)
class _Labels:
    """Labels after a row; all arrays have one entry or row for each.

    ``numbers`` are the stages to remember, ``top`` the latest stage, ``loads`` the work of ARM
    stages. ``parent`` and ``on_vta`` say which label each came from.
    """

    numbers: Ints
    top: Ints
    vta: Floats
    arm: Floats
    loads: Floats
    parent: Ints
    on_vta: NDArray[np.bool_]
    bound: Floats

    def take(self, which: Any) -> _Labels:
        return _Labels(
            numbers=self.numbers[which],
            top=self.top[which],
            vta=self.vta[which],
            arm=self.arm[which],
            loads=self.loads[which],
            parent=self.parent[which],
            on_vta=self.on_vta[which],
            bound=self.bound[which],
        )


def search_labels(
    table: CostTable,
    aim: Aim,
    limits: Limits,
    *,
    own_cores: bool,
    weight: float | None = None,
) -> Found:
    """Return placements of all rows that nothing found dominates, within ``limits``.

    With a ``weight``, only those are looked for that make the weighted sum of both devices' work
    smallest: ``weight`` times the VTA's, and the rest times the cores', divided by their number.
    """
    search = _Search(table, aim, limits, own_cores, weight)
    history = []
    labels = search.start()
    for step in search.steps:
        labels = search.advance(labels, step)
        history.append((labels.parent, labels.on_vta))
    at = np.arange(len(labels.top))
    placements = np.zeros((len(at), len(table.rows)), bool)
    for number, (parent, on_vta) in reversed(list(enumerate(history))):
        placements[:, number] = on_vta[at]
        at = parent[at]
    order = np.argsort(labels.bound, kind="stable")
    return Found(
        placements=tuple(tuple(map(bool, placements[each])) for each in order),
        bound_ms=float(labels.bound.min(initial=np.inf)),
        is_complete=search.is_complete,
    )


def without_hops_ms(table: CostTable, aim: Aim) -> float:
    """Return what the aim is at least, because it is if hops and launches cost nothing."""
    rest, none = _Rest(table), np.zeros(1)
    if aim is Aim.INTERVAL:
        return float(rest.interval(none, none, 0)[0])
    return float((rest.shared if aim is Aim.LATENCY else rest.alone)[0])


class _Search:
    def __init__(
        self,
        table: CostTable,
        aim: Aim,
        limits: Limits,
        own_cores: bool,
        weight: float | None,
    ) -> None:
        self._table, self._aim, self._limits = table, aim, limits
        self._own, self._weight = own_cores, weight
        board = table.board
        self._cores = board.arm_cores
        self._divided = bool(board.threads.arm.cores)
        self._light = board.threads.arm.light_percent / 100
        self._rest = _Rest(table)
        self.steps = walk(table)
        self.is_complete = True
        random = np.random.default_rng(0)
        columns = 3 + max(len(step.merges) for step in self.steps)
        self._hash: Ints = random.integers(1, 2**62, columns) | 1

    def start(self) -> _Labels:
        """Return the only label before the first row."""
        return _Labels(
            numbers=np.zeros((1, 0), np.int64),
            top=np.full(1, -1, np.int64),
            vta=np.zeros(1),
            arm=np.zeros(1),
            loads=np.zeros((1, self._cores if self._own else _KEPT)),
            parent=np.zeros(1, np.int64),
            on_vta=np.zeros(1, bool),
            bound=np.zeros(1),
        )

    def advance(self, labels: _Labels, step: Step) -> _Labels:
        """Return the labels after one more row."""
        row = self._table.rows[step.row]
        parts = []
        if row.arm_ms is not None:
            parts.append(self._placed(labels, step, row.arm_ms, on_vta=False))
        if row.vta_ms is not None:
            parts.append(self._placed(labels, step, row.vta_ms, on_vta=True))
        parts = [part.take(np.isfinite(part.loads).all(1)) for part in parts]
        parts = [replace(part, bound=self._bound(part, step.row + 1)) for part in parts]
        parts = [part.take(self._is_within(part, step.row + 1)) for part in parts]
        both = parts[0] if len(parts) == 1 else _joined(*parts)
        both = both.take(undominated(self._keys(both), self._costs(both)))
        most = self._limits.labels
        if len(both.top) > most:
            self.is_complete = False
            both = both.take(np.argsort(both.bound, kind="stable")[:most])
        return both

    def _placed(self, labels: _Labels, step: Step, ms: float, *, on_vta: bool) -> _Labels:
        count = len(labels.top)
        ready = (
            labels.numbers[:, list(step.reads)].max(1) if step.reads else np.zeros(count, np.int64)
        )
        number = ready + (ready + on_vta) % 2
        opens = number > labels.top
        seen = np.concatenate([labels.numbers, number[:, None]], axis=1)
        merged = [seen[:, list(members)].max(1) for members in step.merges]
        hop = opens * self._table.hop_ms
        vta, arm, loads = labels.vta, labels.arm, labels.loads
        byte_ms = self._table.border_byte_ms
        for at, size in step.crossings:  # the VTA's thread maintains caches in both directions
            vta = vta + (labels.numbers[:, at] % 2 != on_vta) * (size * byte_ms)
        if on_vta:
            vta = vta + ms + hop + opens * self._table.launch_ms
            vta = vta + self._table.rows[step.row].result_bytes * byte_ms
        else:
            arm = arm + ms + hop
            loads = self._loaded(labels, number // 2, ms)
        return _Labels(
            numbers=np.stack(merged, 1) if merged else np.zeros((count, 0), np.int64),
            top=np.maximum(labels.top, number),
            vta=vta,
            arm=arm,
            loads=loads,
            parent=np.arange(count),
            on_vta=np.full(count, on_vta),
            bound=labels.bound,
        )

    def _loaded(self, labels: _Labels, stage: Ints, ms: float) -> Floats:
        """Return the loads with ``ms`` more in each label's ARM stage of this number."""
        loads = labels.loads.copy()
        every = np.arange(len(stage))
        if self._own:
            fits = stage < self._cores
            loads[every[fits], stage[fits]] += ms
            loads[~fits] = np.inf
            return loads
        last = labels.top // 2
        new = stage > last
        loads[new, 2] = np.maximum(loads[new, 1], loads[new, 2])
        loads[new, 1] = loads[new, 0]
        loads[new, 0] = ms
        loads[stage == last, 0] += ms
        loads[(stage == last - 1) & ~new, 1] += ms
        return loads  # the work of earlier stages is only part of the sum

    def _bound(self, labels: _Labels, done: int) -> Floats:
        """Return what the aim is at least, whatever becomes of the other rows."""
        if self._weight is not None:
            return self._rest.weighted(labels.vta, labels.arm, self._weight, done)
        if self._aim is Aim.INTERVAL:
            return self._interval(labels, done)
        if self._aim is Aim.LATENCY:
            return self._latency(labels, done)
        return self._busy(labels, done)

    def _busy(self, labels: _Labels, done: int) -> Floats:
        found: Floats = labels.vta + labels.arm + self._rest.alone[done]
        return found

    def _interval(self, labels: _Labels, done: int) -> Floats:
        least = self._rest.interval(labels.vta, labels.arm, done)
        threads = self._cores if self._own and self._divided else 1
        found: Floats = np.maximum(least, labels.loads.max(1) / threads + self._table.hop_ms)
        return found

    def _latency(self, labels: _Labels, done: int) -> Floats:
        found: Floats = labels.vta + labels.arm + self._rest.alone[done]
        if self._own and self._divided:
            worked = labels.loads.sum(1)
            hops = labels.arm - worked
            # Stages that may become light ones share no core.
            most = labels.loads.max(1) + self._rest.on_arm[done]
            may_be_light = labels.loads <= self._light * most[:, None]
            heavy = np.where(may_be_light, 0, labels.loads)
            shared = np.sqrt(heavy).sum(1) ** 2 / self._cores
            shared += (labels.loads - heavy).sum(1) / self._cores
            found = labels.vta + hops + shared + self._rest.shared[done]
        return found

    def _is_within(self, labels: _Labels, done: int) -> NDArray[np.bool_]:
        limits = self._limits
        good = np.ones(len(labels.top), bool)
        if limits.interval_ms < np.inf:
            good &= self._interval(labels, done) <= limits.interval_ms * _SLACK
            if self._own:
                good &= self._fits_cores(labels)
        if limits.latency_ms < np.inf:
            good &= self._latency(labels, done) <= limits.latency_ms * _SLACK
        if limits.busy_ms < np.inf:
            good &= self._busy(labels, done) <= limits.busy_ms * _SLACK
        if limits.stages is not None:
            good &= labels.top < limits.stages
        return good

    def _fits_cores(self, labels: _Labels) -> NDArray[np.bool_]:
        """Return whether there are enough cores to make every ARM stage as short as the limit."""
        most = max(self._limits.interval_ms * _SLACK - self._table.hop_ms, 1e-12)
        needed = np.ceil(labels.loads / most - 1e-9)
        if self._divided:
            needed[labels.loads <= self._light * most] = 0
        fits: NDArray[np.bool_] = needed.sum(1) <= self._cores
        if not self._divided:
            fits &= needed.max(1) <= 1
        return fits

    def _keys(self, labels: _Labels) -> Ints:
        """Return a number for each label, equal where the same can become of both."""
        if self._own or self._limits.stages is not None:
            parts = [labels.top, *labels.numbers.T]
        else:
            parts = [labels.top % 2, *(labels.top - each for each in labels.numbers.T)]
        shared = not self._own and self._weight is None and self._aim is Aim.INTERVAL
        if shared:  # with few ARM stages it may become no crew, and others count
            parts.append(np.minimum(labels.top // 2, self._cores))
        if shared and not self._limits.open_stages:
            share = labels.loads[:, 0] / self._limits.interval_ms
            parts.append((_CLASSES * np.minimum(share, 1)).astype(np.int64))
        with np.errstate(over="ignore"):
            return sum(
                (part * factor for part, factor in zip(parts, self._hash, strict=False)),
                start=np.zeros(len(labels.top), np.int64),
            )

    def _costs(self, labels: _Labels) -> Floats:
        """Return the costs by which labels are compared, float64[n, m]."""
        if self._weight is not None:
            return labels.bound[:, None]
        if self._own and self._aim is not Aim.BUSY:
            return np.column_stack([labels.vta, labels.loads])
        if self._aim is Aim.INTERVAL and self._limits.open_stages:
            return np.column_stack([labels.vta, labels.arm, labels.loads[:, :2]])
        if self._aim is Aim.INTERVAL:
            return np.column_stack([labels.vta, labels.arm])
        return (labels.vta + labels.arm)[:, None]


class _Rest:
    """What the rows after each one take at least, if hops cost nothing."""

    def __init__(self, table: CostTable) -> None:
        rows = table.rows
        self._cores = table.board.arm_cores
        vta = np.array([np.inf if row.vta_ms is None else row.vta_ms for row in rows])
        arm = np.array([np.inf if row.arm_ms is None else row.arm_ms for row in rows])
        weights = np.array(WEIGHTS)
        least = np.minimum(
            _scaled(weights, vta), _scaled((1 - weights) / self._cores, arm)
        )  # [weights, rows]
        self._weighted = _sums_of_rest(least)
        self._weights = weights
        self.alone = _sums_of_rest(np.minimum(vta, arm)[None])[0]
        self.on_arm = _sums_of_rest(np.where(np.isinf(arm), 0, arm)[None])[0]
        self.shared = _sums_of_rest(np.minimum(vta, arm / self._cores)[None])[0]

    def interval(self, vta: Floats, arm: Floats, done: int) -> Floats:
        """Return the least time between frames, given the work of the first ``done`` rows."""
        weights = self._weights[:, None]
        each = weights * vta + (1 - weights) / self._cores * arm
        found: Floats = (each + self._weighted[:, done, None]).max(0)
        return found

    def weighted(self, vta: Floats, arm: Floats, weight: float, done: int) -> Floats:
        """Return the least weighted sum of both devices' work."""
        rest = self._weighted[int(np.searchsorted(self._weights, weight)), done]
        found: Floats = weight * vta + (1 - weight) / self._cores * arm + rest
        return found


def _scaled(factors: Floats, costs: Floats) -> Floats:
    """Return the outer product, in which an infinite cost stays infinite."""
    with np.errstate(invalid="ignore"):
        found: Floats = np.where(np.isinf(costs), np.inf, factors[:, None] * costs)
    return found


def _sums_of_rest(costs: Floats) -> Floats:
    """Return for float64[k, n] the sums of what follows each place, float64[k, n + 1]."""
    sums = np.cumsum(costs[:, ::-1], axis=1)[:, ::-1]
    return np.concatenate([sums, np.zeros((len(costs), 1))], axis=1)


def _joined(first: _Labels, second: _Labels) -> _Labels:
    return _Labels(
        numbers=np.concatenate([first.numbers, second.numbers]),
        top=np.concatenate([first.top, second.top]),
        vta=np.concatenate([first.vta, second.vta]),
        arm=np.concatenate([first.arm, second.arm]),
        loads=np.concatenate([first.loads, second.loads]),
        parent=np.concatenate([first.parent, second.parent]),
        on_vta=np.concatenate([first.on_vta, second.on_vta]),
        bound=np.concatenate([first.bound, second.bound]),
    )
