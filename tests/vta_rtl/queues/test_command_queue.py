"""A command queue gives back the instructions that it took, in their order."""

from __future__ import annotations

import random

import pytest
from amaranth.sim import SimulatorContext
from rtl_simulation import simulate

from vta_rtl.isa.layouts import INSTRUCTION_BITS
from vta_rtl.queues.command_queue import CommandQueue


def test_a_queue_holds_as_many_instructions_as_its_depth() -> None:
    queue = CommandQueue(8)

    async def fill(ctx: SimulatorContext) -> None:
        taken = 0
        ctx.set(queue.push.valid, 1)
        for _ in range(20):
            taken += ctx.get(queue.push.ready)
            await ctx.tick()
        assert taken == 8

    simulate(queue, fill)


@pytest.mark.parametrize("depth", [1, 2, 7, 512])
@pytest.mark.parametrize("push_percent", [30, 100])
@pytest.mark.parametrize("pop_percent", [30, 100])
def test_instructions_leave_in_order(depth: int, push_percent: int, pop_percent: int) -> None:
    queue = CommandQueue(depth)
    draw = random.Random(f"{depth} {push_percent} {pop_percent}")
    sent = [draw.getrandbits(INSTRUCTION_BITS) for _ in range(700)]

    async def push(ctx: SimulatorContext) -> None:
        for instruction in sent:
            while draw.randrange(100) >= push_percent:
                await ctx.tick()
            ctx.set(queue.push.payload, instruction)
            ctx.set(queue.push.valid, 1)
            await ctx.tick().until(queue.push.ready)
            ctx.set(queue.push.valid, 0)

    async def pop(ctx: SimulatorContext) -> None:
        received = []
        while len(received) < len(sent):
            ready = draw.randrange(100) < pop_percent
            ctx.set(queue.pop.ready, ready)
            *_, valid, instruction = await ctx.tick().sample(queue.pop.valid, queue.pop.payload)
            if ready and valid:
                received.append(instruction)
        assert received == sent

    simulate(queue, push, pop)


def test_an_instruction_counts_from_its_push_until_it_leaves() -> None:
    queue = CommandQueue(4)

    async def check(ctx: SimulatorContext) -> None:
        assert ctx.get(queue.empty)
        ctx.set(queue.push.valid, 1)
        await ctx.tick()
        ctx.set(queue.push.valid, 0)
        for _ in range(5):
            assert not ctx.get(queue.empty)
            await ctx.tick()
        ctx.set(queue.pop.ready, 1)
        assert ctx.get(queue.pop.valid)
        await ctx.tick()
        assert ctx.get(queue.empty)

    simulate(queue, check)
