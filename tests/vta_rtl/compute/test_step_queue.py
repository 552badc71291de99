"""Steps come out in order after a fixed time, and no cycle is lost to what holds them."""

from __future__ import annotations

import random

import pytest
from amaranth.sim import SimulatorContext
from rtl_simulation import simulate

from vta_rtl.compute.step_queue import StepQueue

CYCLES = 5
WAY = 3  # cycles from hold to the last step that comes in spite of it
STEPS = 300


def run(ready_percent: int, gap_percent: int = 0) -> tuple[list[int], list[int], int]:
    """Return the steps that came out, the cycle of each, and between the first and the last one the
    cycles in which a step would have been taken but none was there.

    Steps come as ``hold`` allows.
    """
    queue = StepQueue(dst_bits=11, src_bits=12, cycles=CYCLES, most_after_hold=WAY)
    draw = random.Random(ready_percent)
    found: list[int] = []
    cycles: list[int] = []
    idle = 0

    async def check(ctx: SimulatorContext) -> None:
        on_the_way: list[int | None] = [None] * WAY
        nonlocal idle
        begun = cycle = 0
        while len(found) < STEPS:
            begins = not ctx.get(queue.hold) and begun < STEPS
            begins = begins and draw.random() * 100 >= gap_percent
            on_the_way.append(begun if begins else None)
            begun += begins
            step = on_the_way.pop(0)
            ctx.set(queue.valid, step is not None)
            ctx.set(queue.dst, step or 0)
            ctx.set(queue.src, (step or 0) * 5)
            ready = draw.random() * 100 < ready_percent
            ctx.set(queue.next_ready, ready)
            idle += ready and bool(found) and not ctx.get(queue.next_valid)
            if ready and ctx.get(queue.next_valid):
                found.append(ctx.get(queue.next_dst))
                cycles.append(cycle)
                assert ctx.get(queue.next_src) == found[-1] * 5 % 4096
            await ctx.tick()
            cycle += 1
            assert cycle < 20 * STEPS
        ctx.set(queue.valid, 0)
        await ctx.tick()
        assert not ctx.get(queue.busy)

    simulate(queue, check)
    return found, cycles, idle


def test_a_step_that_is_taken_at_once_waits_for_the_cycles() -> None:
    found, cycles, _ = run(100)
    assert found == list(range(STEPS))
    assert cycles == [WAY + CYCLES + n for n in range(STEPS)]


@pytest.mark.parametrize("ready_percent", [20, 50, 90])
@pytest.mark.parametrize("gap_percent", [0, 40])
def test_no_step_is_lost_or_doubled(ready_percent: int, gap_percent: int) -> None:
    found, _, _ = run(ready_percent, gap_percent)
    assert found == list(range(STEPS))


@pytest.mark.parametrize("ready_percent", [20, 50, 90])
def test_only_refused_cycles_are_lost(ready_percent: int) -> None:
    _, _, idle = run(ready_percent)
    assert idle == 0
