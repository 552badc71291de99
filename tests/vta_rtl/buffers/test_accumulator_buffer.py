"""The accumulator buffer takes a write and two reads in a cycle, if not all are in one bank."""

from __future__ import annotations

import random

from amaranth.sim import SimulatorContext
from rtl_simulation import simulate

from vta_rtl.buffers.accumulator_buffer import AccumulatorBuffer
from vta_rtl.buffers.ports import READ_CYCLES
from vta_stages.accelerator import Accelerator

ELEMENTS = 16
CYCLES = 2000
UNKNOWN = -1


def is_served(write: int | None, reads: tuple[int, int]) -> bool:
    """Whether the second read means something."""
    first, second = reads
    return write is None or first == second or len({write % 2, first % 2, second % 2}) == 2


def test_random_writes_and_reads_are_those_of_a_list() -> None:
    buffer = AccumulatorBuffer(Accelerator(acc_buffer_bytes_log2=10))
    draw = random.Random(1)
    elements = [draw.getrandbits(512) for _ in range(ELEMENTS)]

    async def check(ctx: SimulatorContext) -> None:
        for n, element in enumerate(elements):
            ctx.set(buffer.row(n), element)
        expected: list[tuple[int, int]] = []
        compared = 0
        for cycle in range(CYCLES):
            reads = draw.randrange(ELEMENTS), draw.randrange(ELEMENTS)
            write = draw.randrange(ELEMENTS) if draw.random() < 0.6 else None
            ctx.set(buffer.read_0.address, reads[0])
            ctx.set(buffer.read_1.address, reads[1])
            ctx.set(buffer.write.enable, write is not None)
            second = elements[reads[1]] if is_served(write, reads) else UNKNOWN
            expected.append((elements[reads[0]], second))
            if write is not None:
                elements[write] = draw.getrandbits(512)
                ctx.set(buffer.write.address, write)
                ctx.set(buffer.write.data, elements[write])
            await ctx.tick()
            if cycle + 1 < READ_CYCLES:
                continue
            first, second = expected[cycle + 1 - READ_CYCLES]
            assert ctx.get(buffer.read_0.data) == first
            if second != UNKNOWN:
                assert ctx.get(buffer.read_1.data) == second
                compared += 1
        assert compared > CYCLES / 2

    simulate(buffer, check)
