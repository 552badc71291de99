"""What a search found, in words: the bound, the choice, the runners-up, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgepipe.names import printable
from edgepipe.partition.search.judge import Estimate
from edgepipe.partition.search.split import Goal, Option, Outcome
from edgepipe.partition.search.table import CostTable, Row

_CHOSEN, _RUNNER_UP, _BY_RULE = "chosen", "runner-up", "without a search"
_RUNNERS_UP = 3
_LITTLE = 1.25  # frames a second beside one frame at a time, below which pipelining gains little
_MOST_OF = 0.8  # of a frame's time, or of the work on ARM
_IDLE = 0.5
_MOST_NAMES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOption:
    """One way to split a network; all times are for a frame, in ms, by the model.

    ``name`` says where it is from. ``interval_ms`` is the time between frames with ``slots`` of
    them in flight, ``latency_ms`` that of a frame alone, ``loaded_ms`` that of a frame while frames
    keep coming. ``vta_ms`` and ``arm_ms`` are the work of the accelerator and of the cores with
    hops, the latter on one core. ``bound_ms`` is what the busier device alone would allow if hops
    cost nothing.
    """

    name: str
    stages: int
    on_vta: int
    slots: int
    interval_ms: float
    latency_ms: float
    loaded_ms: float
    vta_ms: float
    arm_ms: float
    bound_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOperator:
    """An operator that both devices share, with the output channels on ARM of all that it has."""

    name: str
    arm_channels: int
    channels: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """What shared operators add to a split: the time between frames in ms with and without them.

    Both are those of the compiled programs.
    """

    operators: tuple[SharedOperator, ...]
    interval_ms: float
    without_ms: float

    def line(self) -> str:
        """Return it as a sentence."""
        shared = ", ".join(
            f"{printable(each.name)} with {each.arm_channels} of {each.channels} channels on arm"
            for each in self.operators
        )
        return (
            f"shared by arm and vta: {shared}: a frame every {self.interval_ms:.2f} ms in place of "
            f"{self.without_ms:.2f}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitReport:
    """The chosen split, runners-up, and what would help.

    No placement makes what ``objective`` makes small less than ``bound_ms``, as long as no operator
    is shared. ``sharing`` is what shared operators add to the chosen split, None without any.
    """

    objective: str
    chosen: SplitOption
    runners_up: tuple[SplitOption, ...]
    bound_ms: float
    advice: tuple[str, ...]
    sharing: Sharing | None = None

    @property
    def rule_latency_ms(self) -> float:
        """The time of a frame alone without a search, or by the chosen split if that is it."""
        options = (*self.runners_up, self.chosen)
        return next((o for o in options if o.name == _BY_RULE), self.chosen).latency_ms

    def of_rule(self) -> SplitReport:
        """Return the report if the split without a search is built, because it is no slower."""
        rule = next((option for option in self.runners_up if option.name == _BY_RULE), None)
        if rule is None:
            return self
        others = (option for option in (self.chosen, *self.runners_up) if option is not rule)
        return replace(
            self,
            chosen=replace(rule, name=_CHOSEN),
            runners_up=tuple(replace(option, name=_RUNNER_UP) for option in others),
            advice=(),
        )

    def lines(self) -> tuple[str, ...]:
        """Return the report as sentences."""
        chosen = self.chosen
        lines = [
            f"split for {self.objective}: {_figures(chosen)}; the busier device alone allows "
            f"{chosen.bound_ms:.2f} ms"
        ]
        if self.bound_ms:
            lines.append(
                f"no placement takes less than {self.bound_ms:.2f} ms {_MEASURES[self.objective]}, "
                "by the model"
            )
        lines += [f"{option.name}: {_figures(option)}" for option in self.runners_up]
        shared = () if self.sharing is None else (self.sharing.line(),)
        return (*lines, *self.advice, *shared)


_MEASURES = {
    "throughput": "between frames",
    "latency": "for a frame alone",
    "energy-proxy": "of busy time",
}


def _figures(option: SplitOption) -> str:
    stages = f"{option.stages} stage{'s' * (option.stages > 1)}"
    return (
        f"{stages}, a frame every {option.interval_ms:.2f} ms with {option.slots} in flight, "
        f"{option.latency_ms:.2f} ms for one alone"
    )


def report(table: CostTable, goal: Goal, outcome: Outcome, rule: Option | None) -> SplitReport:
    """Return the report of a search; ``rule`` is the split without one, if it keeps the limits."""
    best = outcome.best
    rows = []
    if rule is not None and rule.estimate.placement != best.estimate.placement:
        rows.append(_option(_BY_RULE, table, rule))
    seen = {len(option.estimate.stages.devices) for option in (best, *([rule] if rule else []))}
    for option in outcome.others:
        stages = len(option.estimate.stages.devices)
        if stages not in seen and len(rows) < _RUNNERS_UP:
            seen.add(stages)
            rows.append(_option(_RUNNER_UP, table, option))
    return SplitReport(
        objective=goal.objective,
        chosen=_option(_CHOSEN, table, best),
        runners_up=tuple(rows),
        bound_ms=outcome.bound_ms,
        advice=tuple(_advice(table, best)),
    )


def _option(name: str, table: CostTable, option: Option) -> SplitOption:
    estimate = option.estimate
    return SplitOption(
        name=name,
        stages=len(estimate.stages.devices),
        on_vta=sum(estimate.placement),
        slots=option.slots,
        interval_ms=option.interval_ms,
        latency_ms=estimate.latency_ms,
        loaded_ms=option.loaded_ms,
        vta_ms=estimate.vta_ms,
        arm_ms=estimate.arm_ms,
        bound_ms=_bound_ms(table, estimate),
    )


def _bound_ms(table: CostTable, estimate: Estimate) -> float:
    vta, arm = (
        sum(
            ms
            for of, ms in zip(estimate.stages.devices, estimate.stages.alone_ms, strict=True)
            if of == device
        )
        for device in ("vta", "arm")
    )
    return max(vta, arm / table.board.arm_cores)


def _advice(table: CostTable, best: Option) -> list[str]:
    """Return what limits the pipeline and what to do, if it gains little or a device is idle."""
    estimate, interval_ms = best.estimate, best.interval_ms
    cores = table.board.arm_cores
    vta, arm = estimate.vta_ms / interval_ms, estimate.arm_ms / cores / interval_ms
    gain = estimate.latency_ms / interval_ms
    hops = len(estimate.stages.devices) * table.hop_ms
    said = []
    if gain < _LITTLE:
        said.append(
            f"pipelining gains little here: {gain:.2f} times the frames of one frame at a time"
        )
    if vta >= _MOST_OF and arm < _IDLE:
        said.append(
            f"the accelerator is busy for {100 * vta:.0f} % of the time and the cores for "
            f"{100 * arm:.0f} %: more stages do not help; a smaller picture, fewer channels or a "
            "faster accelerator do"
        )
    only_arm = [row for row in table.rows if row.vta_ms is None and row.arm_ms]
    fixed_ms = sum(row.arm_ms or 0.0 for row in only_arm)
    if arm >= _MOST_OF and vta < _IDLE and fixed_ms > _MOST_OF * estimate.arm_ms:
        said.append(
            f"the cores are busy for {100 * arm:.0f} % of the time and the accelerator for "
            f"{100 * vta:.0f} %, mostly with what runs on arm only: {_longest(only_arm)}; replace "
            "or leave out these operators"
        )
    if hops > (1 - _MOST_OF) * estimate.latency_ms:
        said.append(
            f"hops take {hops:.2f} of a frame's {estimate.latency_ms:.2f} ms: operators on arm "
            f"between those of the accelerator divide it into {len(estimate.stages.devices)} stages"
        )
    return said


def _longest(rows: Sequence[Row]) -> str:
    longest = sorted(rows, key=lambda row: -(row.arm_ms or 0.0))[:_MOST_NAMES]
    return ", ".join(f"{printable(row.name)} ({row.arm_ms:.2f} ms)" for row in longest)
