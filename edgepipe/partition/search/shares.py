"""Operators that both devices should share: tried after the search has found a split.

The accelerator is the bottleneck of many splits while a core is idle. Then a half of one of its
operators goes to ARM, although the whole would take too long there:

    before   arm | vta  a, b, c | arm
    after    arm | vta  a, b.vta | arm  b.arm, b | vta  c | arm

The costs of halves are guessed at first, from those of the whole, and judged by the simulation that
judges splits. The most promising are then costed as the tiler would, and judged again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from edgepipe.partition.search.judge import Judge
from edgepipe.partition.search.split import Goal, Option, judged
from edgepipe.partition.search.table import CostTable, Placement, Row
from edgepipe.partition.sharing import ON_ARM, ON_VTA

_BUSY = 0.8  # of the time: an accelerator that is less busy is not worth another one's help
_LONGEST = 24  # operators on the accelerator that are tried
_SIZES = 16  # shares of each that are guessed
_OF_ONE = 2  # shares of one operator that are simulated
_SIMULATED = 8  # shares that are simulated by guessed costs
_COSTED = 3  # shares that are costed: the tiler takes up to half a second for each
_MOST_SHARED = 4  # operators of a network
_GAIN = 1.002  # what each of them must add


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfCosts:
    """What two halves of an operator and their join take, in ms; ARM's on one core."""

    vta_ms: float
    arm_ms: float
    join_ms: float
    joined_on_vta: bool


class Divider(Protocol):
    """Knows which operators can be shared, and what their halves cost."""

    def choices(self, name: str) -> Sequence[int]:
        """Return the output channels that ARM can have of an operator; none if it has no halves."""

    def guess(self, name: str, arm_channels: int) -> HalfCosts:
        """Return the costs as far as they are known without much work."""

    def cost(self, name: str, arm_channels: int) -> HalfCosts | None:
        """Return the costs, or None if a device cannot run its half."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The output channels on ARM by operator, and the split with and without them."""

    channels: Mapping[str, int]
    before: Option
    after: Option

    @property
    def gain(self) -> float:
        """How many times the frames per second of the split without them."""
        return self.before.interval_ms / self.after.interval_ms


def find_shares(
    table: CostTable,
    placement: Placement,
    goal: Goal,
    divider: Divider,
    most_slots: Callable[[int], int],
) -> Shares | None:
    """Return the shares with which a split has the most frames per second, or None without any.

    ``placement`` is the split of ``table``, and ``most_slots`` the frames in flight that the memory
    allows, at most those that are wanted. One operator after the other is shared, each where that
    gains the most, as long as the split keeps the limits of ``goal``.
    """
    now = _judged(table, placement, goal, most_slots)
    if now is None:
        return None
    before, found = now, dict[str, int]()
    while len(found) < _MOST_SHARED and now.estimate.vta_ms >= _BUSY * now.interval_ms:
        best: tuple[Option, CostTable, str, int] | None = None
        guesses = _promising(table, now, goal, divider, most_slots)
        for guess, name, arm_channels in guesses[:_COSTED]:
            if best is not None and guess.interval_ms >= best[0].interval_ms:
                break  # guesses are hardly ever too high
            costs = divider.cost(name, arm_channels)
            if costs is None:
                continue
            after, where = divided(table, now.estimate.placement, name, costs)
            option = _judged(after, where, goal, most_slots)
            if option is not None and (best is None or option.interval_ms < best[0].interval_ms):
                best = option, after, name, arm_channels
        if best is None or _GAIN * best[0].interval_ms > now.interval_ms:
            break
        now, table, name, arm_channels = best
        found[name] = arm_channels
    return Shares(channels=found, before=before, after=now) if found else None


def divided(
    table: CostTable, placement: Placement, name: str, costs: HalfCosts
) -> tuple[CostTable, Placement]:
    """Return a table and its placement with one row as two halves and their join."""
    rows: list[Row] = []
    on_vta: list[bool] = []
    number: list[int] = []  # of each row of the table in the new one
    for row, on in zip(table.rows, placement, strict=True):
        inputs = tuple(number[each] for each in row.inputs)
        if row.name == name:
            halves = (len(rows), len(rows) + 1)
            rows += (
                Row(name=name + ON_VTA, inputs=inputs, arm_ms=None, vta_ms=costs.vta_ms),
                Row(name=name + ON_ARM, inputs=inputs, arm_ms=costs.arm_ms, vta_ms=None),
            )
            on_vta += (True, False)
            inputs, on = halves, costs.joined_on_vta
            row = Row(
                name=name,
                inputs=inputs,
                arm_ms=None if on else costs.join_ms,
                vta_ms=costs.join_ms if on else None,
            )
        number.append(len(rows))
        rows.append(replace(row, inputs=inputs))
        on_vta.append(on)
    return CostTable(rows=tuple(rows), board=table.board), tuple(on_vta)


def _judged(
    table: CostTable, placement: Placement, goal: Goal, most_slots: Callable[[int], int]
) -> Option | None:
    return judged(Judge(table, lambda _, wanted: most_slots(wanted)), goal, placement)


def _promising(
    table: CostTable,
    now: Option,
    goal: Goal,
    divider: Divider,
    most_slots: Callable[[int], int],
) -> list[tuple[Option, str, int]]:
    """Return the shares of one more operator that gain the most by their guessed costs, best first.

    Those with the lowest floors are simulated.
    """
    placement = now.estimate.placement
    on_vta = [row for row, on in zip(table.rows, placement, strict=True) if on]
    floors: list[tuple[float, str, int]] = []
    for row in sorted(on_vta, key=lambda row: -(row.vta_ms or 0.0))[:_LONGEST]:
        choices = divider.choices(row.name)
        of_row = []
        for arm_channels in choices[:: -(-len(choices) // _SIZES) or 1]:
            costs = divider.guess(row.name, arm_channels)
            after, where = divided(table, placement, row.name, costs)
            of_row.append((Judge(after).estimate(where).floor_ms, row.name, arm_channels))
        floors += sorted(of_row)[:_OF_ONE]
    found = []
    for floor_ms, name, arm_channels in sorted(floors)[:_SIMULATED]:
        if floor_ms >= now.interval_ms:
            break
        after, where = divided(table, placement, name, divider.guess(name, arm_channels))
        option = _judged(after, where, goal, most_slots)
        if option is not None and option.interval_ms < now.interval_ms:
            found.append((option, name, arm_channels))
    return sorted(found, key=lambda each: each[0].interval_ms)
