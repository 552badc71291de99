"""Operators that both devices should share, found for made-up costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from cost_tables import board, chain
from hypothesis import given, settings
from hypothesis import strategies as st

from edgepipe.partition.search.judge import Judge, stage_numbers
from edgepipe.partition.search.shares import HalfCosts, divided, find_shares
from edgepipe.partition.search.split import Goal, judged
from edgepipe.partition.search.table import CostTable, Placement, Row

CHANNELS = 64


@dataclass
class Proportional:
    """Halves take their part of an operator's time, and joining them ``join_ms`` on ARM.

    ``vta_ms`` is added to the accelerator's half when it is costed, as if a guess were too low.
    """

    table: CostTable
    names: Sequence[str]
    join_ms: float = 0.01
    vta_ms: float = 0.0
    refused: Sequence[int] = ()
    on_vta: bool = False
    costed: list[str] = field(default_factory=list)

    def choices(self, name: str) -> Sequence[int]:
        return range(16, CHANNELS, 16) if name in self.names else ()

    def guess(self, name: str, arm_channels: int) -> HalfCosts:
        row = next(row for row in self.table.rows if row.name == name)
        part = arm_channels / CHANNELS
        assert row.vta_ms is not None
        arm_ms = 4 * row.vta_ms if row.arm_ms is None else row.arm_ms
        return HalfCosts(
            vta_ms=(1 - part) * row.vta_ms,
            arm_ms=part * arm_ms,
            join_ms=self.join_ms,
            joined_on_vta=self.on_vta,
        )

    def cost(self, name: str, arm_channels: int) -> HalfCosts | None:
        self.costed.append(name)
        if arm_channels in self.refused:
            return None
        found = self.guess(name, arm_channels)
        return HalfCosts(
            vta_ms=found.vta_ms + self.vta_ms,
            arm_ms=found.arm_ms,
            join_ms=found.join_ms,
            joined_on_vta=found.joined_on_vta,
        )


def body(hop_us: float = 50.0) -> tuple[CostTable, Placement]:
    """Return a network whose body takes the accelerator 20 ms, between two short ARM stages."""
    table = chain(
        (2.0, None), (12.0, 3.0), (40.0, 10.0), (20.0, 5.0), (8.0, 2.0), (1.0, None),
        on=board(hop_us=hop_us),
    )  # fmt: skip
    return table, (False, True, True, True, True, False)


def every(table: CostTable) -> list[str]:
    return [row.name for row in table.rows if row.vta_ms is not None]


def test_an_idle_core_takes_a_half_of_a_long_operator() -> None:
    table, placement = body()
    found = find_shares(table, placement, Goal(), Proportional(table, every(table)), lambda n: n)
    assert found is not None
    assert found.channels
    assert found.gain > 1.2
    assert found.after.interval_ms < 20 / 1.2
    # What it promises is what the divided table gives.
    after, where = table, placement
    for name, arm_channels in found.channels.items():
        costs = Proportional(table, every(table)).guess(name, arm_channels)
        after, where = divided(after, where, name, costs)
    again = judged(Judge(after), Goal(), where)
    assert again is not None
    assert again.interval_ms == found.after.interval_ms


def test_only_operators_that_can_be_shared_are_tried() -> None:
    table, placement = body()
    divider = Proportional(table, ["r3"])
    found = find_shares(table, placement, Goal(), divider, lambda n: n)
    assert found is not None
    assert found.channels.keys() == {"r3"} == {*divider.costed}
    assert find_shares(table, placement, Goal(), Proportional(table, []), lambda n: n) is None


def test_nothing_is_shared_where_it_gains_nothing() -> None:
    table, placement = body(hop_us=9000.0)
    divider = Proportional(table, ["r2", "r3"])  # in the middle, so two more stages
    assert find_shares(table, placement, Goal(), divider, lambda n: n) is None
    table, placement = body()
    slow_join = Proportional(table, every(table), join_ms=50.0)
    assert find_shares(table, placement, Goal(), slow_join, lambda n: n) is None
    too_low = Proportional(table, every(table), vta_ms=11.0)
    assert find_shares(table, placement, Goal(), too_low, lambda n: n) is None
    assert too_low.costed


def test_an_accelerator_that_is_not_busy_gets_no_help() -> None:
    table = chain((30.0, None), (4.0, 1.0), (30.0, None), on=board(cores=1))
    divider = Proportional(table, ["r1"])
    assert find_shares(table, (False, True, False), Goal(), divider, lambda n: n) is None
    assert not divider.costed


def test_shares_that_a_device_refuses_are_left_out() -> None:
    table, placement = body()
    all_refused = Proportional(table, every(table), refused=range(CHANNELS))
    assert find_shares(table, placement, Goal(), all_refused, lambda n: n) is None
    some = Proportional(table, ["r2"], refused=[16])
    found = find_shares(table, placement, Goal(), some, lambda n: n)
    assert found is not None
    assert found.channels["r2"] != 16


@pytest.mark.parametrize("limits", [{"stages": 3}, {"alone_ms": 23.2}, {"latency_ms": 24.0}])
def test_limits_of_a_split_stay(limits: Mapping[str, float]) -> None:
    """Halves in the middle need two more stages, and lengthen the time of a frame alone."""
    table, placement = body()
    goal = Goal(**limits)  # type: ignore[arg-type]
    divider = Proportional(table, ["r2"])
    assert judged(Judge(table), goal, placement) is not None
    assert find_shares(table, placement, Goal(), divider, lambda n: n) is not None
    assert find_shares(table, placement, goal, divider, lambda n: n) is None


def test_a_split_that_breaks_the_limits_is_not_shared() -> None:
    table, placement = body()
    divider = Proportional(table, every(table))
    assert find_shares(table, placement, Goal(stages=2), divider, lambda n: n) is None
    assert find_shares(table, placement, Goal(), divider, lambda _: 1) is None  # nothing overlaps


@given(st.integers(1, 4), st.booleans())
@settings(max_examples=20, deadline=None)
def test_halves_take_the_place_of_their_operator(at: int, on_vta: bool) -> None:
    table, placement = body()
    costs = HalfCosts(vta_ms=1.5, arm_ms=2.5, join_ms=0.5, joined_on_vta=on_vta)
    after, where = divided(table, placement, f"r{at}", costs)
    names = [row.name for row in after.rows]
    halves = [f"r{at}.vta", f"r{at}.arm"]
    assert names == [f"r{n}" for n in range(at)] + halves + [f"r{n}" for n in range(at, 6)]
    vta, arm, join = (after.rows[at + n] for n in range(3))
    assert (vta.vta_ms, vta.arm_ms, arm.arm_ms, arm.vta_ms) == (1.5, None, 2.5, None)
    assert (join.vta_ms, join.arm_ms) == ((0.5, None) if on_vta else (None, 0.5))
    assert where[at : at + 3] == (True, False, on_vta)
    assert vta.inputs == arm.inputs == (at - 1,)
    assert join.inputs == (at, at + 1)
    assert after.rows[at + 3].inputs == (at + 2,)
    assert all(
        row.inputs == old.inputs for row, old in zip(after.rows[:at], table.rows, strict=False)
    )
    numbers = stage_numbers(after, where)
    # What the first operator reads is on ARM, where its half does not wait for the other one.
    assert numbers[at : at + 2] == ((1, 2) if at > 1 else (1, 0))
    assert numbers[at + 2] >= max(numbers[at : at + 2])


def test_rows_that_read_several_others_follow_the_halves() -> None:
    rows = (
        Row(name="a", inputs=(), arm_ms=1.0, vta_ms=None),
        Row(name="b", inputs=(0,), arm_ms=4.0, vta_ms=1.0),
        Row(name="c", inputs=(0, 1), arm_ms=4.0, vta_ms=1.0),
    )
    costs = HalfCosts(vta_ms=0.5, arm_ms=2.0, join_ms=0.1, joined_on_vta=False)
    after, _ = divided(CostTable(rows=rows, board=board()), (False, True, True), "b", costs)
    assert after.rows[-1].inputs == (0, 3)
