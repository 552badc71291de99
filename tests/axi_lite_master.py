"""An AXI-Lite master for Amaranth's simulator: reads and writes with chosen waits."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.sim import SimulatorContext

MOST_CYCLES = 20


@dataclass(frozen=True, slots=True)
class LiteMaster:
    """One transfer at a time on ``bus``, the slave's port. Each ends within ``MOST_CYCLES``."""

    bus: object

    async def write(
        self,
        ctx: SimulatorContext,
        offset: int,
        value: int,
        *,
        strobes: int = 0xF,
        address_wait_cycles: int = 0,
        data_wait_cycles: int = 0,
        answer_wait_cycles: int = 0,
    ) -> None:
        """Write a word, offering its address and data after their waits, and take the answer."""
        bus = self.bus
        ctx.set(bus.aw.payload, offset)
        ctx.set(bus.w.payload, {"data": value, "strb": strobes})
        # Cycles until each is offered; None once it is taken.
        waits = {bus.aw: address_wait_cycles, bus.w: data_wait_cycles}
        for _ in range(MOST_CYCLES):
            for channel, cycles in waits.items():
                ctx.set(channel.valid, cycles == 0)
            taken = [c for c, cycles in waits.items() if cycles == 0 and ctx.get(c.ready)]
            assert not ctx.get(bus.b.valid), "an answer before address and data"
            await ctx.tick()
            waits = {c: max(0, n - 1) for c, n in waits.items() if c not in taken}
            for channel in taken:
                ctx.set(channel.valid, 0)
            if not waits:
                break
        assert not waits, "address or data are not taken"
        assert await self._answer(ctx, bus.b, answer_wait_cycles) == 0

    async def read(self, ctx: SimulatorContext, offset: int, *, answer_wait_cycles: int = 0) -> int:
        """Return the word at an offset, taking the answer after a wait."""
        bus = self.bus
        ctx.set(bus.ar.payload, offset)
        ctx.set(bus.ar.valid, 1)
        for _ in range(MOST_CYCLES):
            taken = ctx.get(bus.ar.ready)
            await ctx.tick()
            if taken:
                break
        assert taken, "the address is not taken"
        ctx.set(bus.ar.valid, 0)
        answer = await self._answer(ctx, bus.r, answer_wait_cycles)
        assert answer >> 32 == 0, "an error answer"
        return answer

    async def _answer(self, ctx: SimulatorContext, channel: object, wait_cycles: int) -> int:
        """Return an answer's payload, which must not change while it waits."""
        for _ in range(MOST_CYCLES):
            if ctx.get(channel.valid):
                break
            await ctx.tick()
        answer = ctx.get(channel.payload.as_value())
        for _ in range(wait_cycles):
            assert ctx.get(channel.valid)
            assert ctx.get(channel.payload.as_value()) == answer
            await ctx.tick()
        assert ctx.get(channel.valid), "no answer"
        assert ctx.get(channel.payload.as_value()) == answer
        ctx.set(channel.ready, 1)
        await ctx.tick()
        ctx.set(channel.ready, 0)
        return answer
