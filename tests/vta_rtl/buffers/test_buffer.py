"""A buffer gives an element two cycles after its address, the old one while it is written."""

from __future__ import annotations

from amaranth.sim import SimulatorContext
from rtl_simulation import simulate

from vta_rtl.buffers.buffer import Buffer
from vta_rtl.buffers.ports import READ_CYCLES
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import MemoryType


def test_a_reader_gets_its_element_in_every_cycle() -> None:
    buffer = Buffer(Accelerator(), MemoryType.ACC)

    async def check(ctx: SimulatorContext) -> None:
        for row in range(2048):
            ctx.set(buffer.rows[row], row << 500 | 3 * row)
        for row in range(100):
            ctx.set(buffer.read.address, row)
            await ctx.tick()
            if row >= READ_CYCLES:
                seen = row - READ_CYCLES + 1
                assert ctx.get(buffer.read.data) == seen << 500 | 3 * seen

    simulate(buffer, check)


def test_a_read_sees_writes_of_the_cycles_before_it() -> None:
    buffer = Buffer(Accelerator(), MemoryType.UOP)

    async def check(ctx: SimulatorContext) -> None:
        found = []
        ctx.set(buffer.read.address, 5)
        ctx.set(buffer.write.address, 5)
        for cycle in range(6):
            ctx.set(buffer.write.enable, cycle == 2)
            ctx.set(buffer.write.data, 99)
            await ctx.tick()
            found.append(ctx.get(buffer.read.data))
        # The write is done at the end of cycle 2, so the read of cycle 3 is the first to see it.
        assert found == [0, 0, 0, 0, 99, 99]

    simulate(buffer, check)
