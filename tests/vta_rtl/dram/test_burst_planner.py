"""Bursts cover the rows, in order, and keep AXI's rules."""

from __future__ import annotations

import itertools

import pytest
from amaranth.sim import SimulatorContext
from hypothesis import given, settings
from hypothesis import strategies as st
from rtl_simulation import simulate

from vta_rtl.dram.axi import BOUNDARY_BYTES, BURST_BEATS
from vta_rtl.dram.burst_planner import BurstPlanner

Rows = tuple[int, int, int, int]
"""The first address and the beats of a row, how many rows, and the bytes between their starts."""


def planned(bus_bytes: int, transfers: list[Rows]) -> list[list[tuple[int, int]]]:
    """Return each transfer's bursts, as addresses and beats."""
    planner = BurstPlanner(bus_bytes)
    plans: list[list[tuple[int, int]]] = []

    async def run(ctx: SimulatorContext) -> None:
        for address, row_beats, rows, row_step_bytes in transfers:
            ctx.set(planner.address, address)
            ctx.set(planner.row_beats, row_beats)
            ctx.set(planner.rows, rows)
            ctx.set(planner.row_step_bytes, row_step_bytes)
            ctx.set(planner.start, 1)
            await ctx.tick()
            ctx.set(planner.start, 0)
            plans.append([])
            for cycle in itertools.count():
                if not ctx.get(planner.busy):
                    break
                is_taken = cycle % 3 != 1
                ctx.set(planner.bursts.ready, is_taken)
                if is_taken:
                    burst = planner.bursts.payload
                    plans[-1].append((ctx.get(burst.address), ctx.get(burst.len) + 1))
                await ctx.tick()

    simulate(planner, run)
    return plans


rows = st.tuples(
    st.integers(0, 3 * BOUNDARY_BYTES), st.integers(0, 600), st.integers(0, 5), st.integers(0, 9000)
)


def beats_of_rows(transfer: Rows, bus_bytes: int) -> list[int]:
    address, row_beats, count, step = transfer
    return [
        address + n * step + beat * bus_bytes for n in range(count) for beat in range(row_beats)
    ]


@pytest.mark.parametrize("bus_bytes", [8, 16])
@settings(max_examples=40)  # each builds a simulation
@given(st.lists(rows, min_size=1, max_size=3))
def test_bursts_are_the_rows_in_order(bus_bytes: int, drawn: list[Rows]) -> None:
    aligned = [(a // 16 * 16, beats, n, step // 16 * 16) for a, beats, n, step in drawn]
    for transfer, bursts in zip(aligned, planned(bus_bytes, aligned), strict=True):
        found = [address + n * bus_bytes for address, beats in bursts for n in range(beats)]
        assert found == beats_of_rows(transfer, bus_bytes)
        for address, beats in bursts:
            assert beats <= BURST_BEATS
            last = address + beats * bus_bytes - 1
            assert address // BOUNDARY_BYTES == last // BOUNDARY_BYTES


def test_a_row_is_cut_at_a_multiple_of_4096_bytes() -> None:
    assert planned(16, [(4096 - 3 * 16, 20, 1, 0)]) == [[(4048, 3), (4096, 16), (4352, 1)]]


def test_a_row_can_be_repeated() -> None:
    assert planned(8, [(64, 2, 3, 0)]) == [[(64, 2), (64, 2), (64, 2)]]


def test_a_stop_ends_after_the_burst_that_is_offered() -> None:
    planner = BurstPlanner(8)

    async def run(ctx: SimulatorContext) -> None:
        ctx.set(planner.row_beats, 600)
        ctx.set(planner.rows, 5)
        ctx.set(planner.start, 1)
        await ctx.tick()
        ctx.set(planner.start, 0)
        ctx.set(planner.stop, 1)
        for _ in range(3):
            assert ctx.get(planner.bursts.valid)
            await ctx.tick()
        ctx.set(planner.bursts.ready, 1)
        await ctx.tick()
        assert not ctx.get(planner.bursts.valid)
        assert not ctx.get(planner.busy)

    simulate(planner, run)
