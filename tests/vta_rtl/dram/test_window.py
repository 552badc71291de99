"""A guard passes bursts inside its window, and answers the others itself."""

from __future__ import annotations

import random

import numpy as np
import pytest
from amaranth.sim import SimulatorContext
from dram_model import DramModel
from rtl_simulation import simulate

from vta_rtl.dram.window import DECERR, ReadGuard, WriteGuard

BUS_BYTES = 8
FIRST, LAST = 0x1000, 0x1FFF
PLACES = (
    # address, beats, whether it may pass
    (0x1000, 16, True),
    (0x1FF8, 1, True),
    (0x1F80, 16, True),
    (0x0FF8, 1, False),
    (0x2000, 1, False),
    (0x1FF8, 2, False),  # only its end is outside
    (0x0000, 4, False),
    (0xFFFF_FFF8, 1, False),
    (0xFFFF_FFF8, 2, False),  # does not wrap
)


def bursts(count: int, seed: int) -> list[tuple[int, int, bool]]:
    """Return all places in a random order, and more of them."""
    draw = random.Random(seed)
    chosen = [*PLACES, *draw.choices(PLACES, k=count)]
    draw.shuffle(chosen)
    return chosen


def dram(stall_percent: int) -> DramModel:
    """Return DRAM whose bytes differ from their neighbours."""
    contents = (np.arange(0x3000) * 7 % 251).astype(np.uint8)
    return DramModel(
        contents=contents, bus_bytes=BUS_BYTES, latency_cycles=6, stall_percent=stall_percent
    )


@pytest.mark.parametrize("stall_percent", [0, 30])
def test_reads_outside_the_window_give_zeros_in_their_turn(stall_percent: int) -> None:
    guard, model = ReadGuard(BUS_BYTES), dram(stall_percent)
    asked = bursts(20, seed=stall_percent)
    refused: list[int] = []

    async def ask(ctx: SimulatorContext) -> None:
        ctx.set(guard.first, FIRST)
        ctx.set(guard.last, LAST)
        for address, beats, _ in asked:
            ctx.set(guard.master.ar.payload, {"address": address, "len": beats - 1})
            ctx.set(guard.master.ar.valid, 1)
            await ctx.tick().until(guard.master.ar.ready)
        ctx.set(guard.master.ar.valid, 0)

    async def take(ctx: SimulatorContext) -> None:
        draw, payload = random.Random(1), guard.master.r.payload
        for address, beats, passes in asked:
            for beat in range(beats):
                if draw.randrange(100) < stall_percent:
                    await ctx.tick()
                ctx.set(guard.master.r.ready, 1)
                *_, data, resp, last = (
                    await ctx.tick()
                    .sample(payload.data, payload.resp, payload.last)
                    .until(guard.master.r.valid)
                )
                ctx.set(guard.master.r.ready, 0)
                at = address + beat * BUS_BYTES
                stored = model.contents[at : at + BUS_BYTES].tobytes() if passes else bytes(8)
                assert data.to_bytes(BUS_BYTES, "little") == stored
                assert resp == (0 if passes else DECERR)
                assert last == (beat == beats - 1)

    async def watch(ctx: SimulatorContext) -> None:
        async for _, _, refuses, address, failed in ctx.tick().sample(
            guard.refused, guard.address, guard.failed
        ):
            assert not failed
            if refuses:
                refused.append(address)

    simulate(guard, ask, take, background=[model.reads_of(guard.bus), watch])
    assert model.bursts == [(address, beats) for address, beats, passes in asked if passes]
    assert refused == [address for address, _, passes in asked if not passes]


@pytest.mark.parametrize("stall_percent", [0, 30])
@pytest.mark.parametrize("address_waits_for_data", [False, True])
def test_writes_outside_the_window_are_dropped(
    stall_percent: int, address_waits_for_data: bool
) -> None:
    guard, model = WriteGuard(BUS_BYTES), dram(stall_percent)
    model.address_waits_for_data = address_waits_for_data
    before = model.contents.copy()
    asked = bursts(20, seed=stall_percent)
    words = random.Random(2)
    data = [[words.getrandbits(64) for _ in range(beats)] for _, beats, _ in asked]
    refused: list[int] = []
    answers: list[int] = []

    async def send_addresses(ctx: SimulatorContext) -> None:
        ctx.set(guard.first, FIRST)
        ctx.set(guard.last, LAST)
        for address, beats, _ in asked:
            ctx.set(guard.master.aw.payload, {"address": address, "len": beats - 1})
            ctx.set(guard.master.aw.valid, 1)
            await ctx.tick().until(guard.master.aw.ready)
        ctx.set(guard.master.aw.valid, 0)

    async def send_data(ctx: SimulatorContext) -> None:
        for burst in data:
            for place, word in enumerate(burst):
                last = place == len(burst) - 1
                ctx.set(guard.master.w.payload, {"data": word, "last": last})
                ctx.set(guard.master.w.valid, 1)
                await ctx.tick().until(guard.master.w.ready)
        ctx.set(guard.master.w.valid, 0)

    async def take(ctx: SimulatorContext) -> None:
        ctx.set(guard.master.b.ready, 1)
        for _ in asked:
            *_, resp = (
                await ctx.tick().sample(guard.master.b.payload.resp).until(guard.master.b.valid)
            )
            answers.append(resp)

    async def watch(ctx: SimulatorContext) -> None:
        async for _, _, refuses, address in ctx.tick().sample(guard.refused, guard.address):
            if refuses:
                refused.append(address)

    background = [model.writes_of(guard.bus), watch]
    simulate(guard, send_addresses, send_data, take, background=background)
    assert refused == [address for address, _, passes in asked if not passes]
    assert sorted(answers) == sorted(0 if passes else DECERR for _, _, passes in asked)
    for (address, _, passes), burst in zip(asked, data, strict=True):
        if passes:
            content = b"".join(word.to_bytes(BUS_BYTES, "little") for word in burst)
            before[address : address + len(content)] = np.frombuffer(content, np.uint8)
    np.testing.assert_array_equal(model.contents, before)


def test_a_closed_guard_passes_nothing_but_what_was_offered() -> None:
    guard = ReadGuard(BUS_BYTES)

    async def check(ctx: SimulatorContext) -> None:
        ctx.set(guard.last, 0xFFFF_FFFF)
        ctx.set(guard.master.ar.payload, {"address": 64, "len": 0})
        ctx.set(guard.master.ar.valid, 1)
        await ctx.tick()
        assert ctx.get(guard.bus.ar.valid)
        ctx.set(guard.closed, 1)
        for _ in range(3):
            assert ctx.get(guard.bus.ar.valid), "AXI: what is offered stays"
            await ctx.tick()
        ctx.set(guard.bus.ar.ready, 1)
        assert ctx.get(guard.master.ar.ready)
        await ctx.tick()
        for _ in range(3):  # the next one waits for the answer to the first
            assert not ctx.get(guard.bus.ar.valid)
            assert not ctx.get(guard.master.ar.ready)
            await ctx.tick()
        ctx.set(guard.master.r.ready, 1)
        ctx.set(guard.bus.r.payload, {"data": 5, "resp": 0, "last": 1})
        ctx.set(guard.bus.r.valid, 1)
        assert ctx.get(guard.master.r.payload.data) == 5
        await ctx.tick()
        ctx.set(guard.bus.r.valid, 0)
        assert ctx.get(guard.master.ar.ready)
        assert not ctx.get(guard.bus.ar.valid)
        assert not ctx.get(guard.refused), "an abort is no error of the program"
        await ctx.tick()
        ctx.set(guard.master.ar.valid, 0)
        assert ctx.get(guard.master.r.valid)
        assert ctx.get(guard.master.r.payload.last)

    simulate(guard, check)


@pytest.mark.parametrize(("resp", "fails"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_error_answers_are_reported(resp: int, fails: int) -> None:
    reads, writes = ReadGuard(BUS_BYTES), WriteGuard(BUS_BYTES)

    async def read(ctx: SimulatorContext) -> None:
        ctx.set(reads.bus.r.payload.resp, resp)
        ctx.set(reads.bus.r.valid, 1)
        assert not ctx.get(reads.failed), "not before it is taken"
        ctx.set(reads.master.r.ready, 1)
        assert ctx.get(reads.failed) == fails

    async def write(ctx: SimulatorContext) -> None:
        ctx.set(writes.bus.b.payload.resp, resp)
        ctx.set(writes.bus.b.valid, 1)
        assert not ctx.get(writes.failed)
        ctx.set(writes.master.b.ready, 1)
        assert ctx.get(writes.failed) == fails
        assert ctx.get(writes.master.b.payload.resp) == resp

    simulate(reads, read)
    simulate(writes, write)
