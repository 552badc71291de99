"""A token queue counts what entered and did not leave, up to its depth."""

from __future__ import annotations

import random

import pytest
from amaranth.sim import SimulatorContext
from rtl_simulation import simulate

from vta_rtl.queues.token_queue import TokenQueue


def test_an_empty_queue_offers_no_token() -> None:
    queue = TokenQueue(4)

    async def check(ctx: SimulatorContext) -> None:
        assert not ctx.get(queue.pop_valid)
        ctx.set(queue.push_valid, 1)
        assert not ctx.get(queue.pop_valid), "a token can leave in the cycle after it entered"
        await ctx.tick()
        assert ctx.get(queue.pop_valid)

    simulate(queue, check)


def test_a_full_queue_takes_no_token() -> None:
    queue = TokenQueue(3)

    async def check(ctx: SimulatorContext) -> None:
        ctx.set(queue.push_valid, 1)
        for _ in range(3):
            assert ctx.get(queue.push_ready)
            await ctx.tick()
        await ctx.tick().repeat(5)
        assert not ctx.get(queue.push_ready)
        ctx.set(queue.push_valid, 0)
        ctx.set(queue.pop_ready, 1)
        for _ in range(3):
            assert ctx.get(queue.pop_valid)
            await ctx.tick()
        assert not ctx.get(queue.pop_valid)

    simulate(queue, check)


@pytest.mark.parametrize("depth", [1, 2, 5, 1024])
def test_no_token_is_lost_or_made(depth: int) -> None:
    queue = TokenQueue(depth)
    draw = random.Random(depth)

    async def check(ctx: SimulatorContext) -> None:
        count = 0
        for cycle in range(4000):
            push_chance = 0.9 if cycle // 1500 % 2 == 0 else 0.1  # fills up, then runs empty
            push, pop = draw.random() < push_chance, draw.random() > push_chance
            ctx.set(queue.push_valid, push)
            ctx.set(queue.pop_ready, pop)
            assert ctx.get(queue.push_ready) == (count < depth)
            assert ctx.get(queue.pop_valid) == (count > 0)
            count += (push and count < depth) - (pop and count > 0)
            await ctx.tick()

    simulate(queue, check)


def test_clear_removes_all_tokens() -> None:
    queue = TokenQueue(3)

    async def check(ctx: SimulatorContext) -> None:
        ctx.set(queue.push_valid, 1)
        await ctx.tick().repeat(3)
        ctx.set(queue.clear, 1)
        await ctx.tick()
        assert not ctx.get(queue.pop_valid)
        assert ctx.get(queue.push_ready)

    simulate(queue, check)
