"""A module's queue of instructions."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from vta_rtl.isa.layouts import INSTRUCTION_BITS


class CommandQueue(wiring.Component):
    """A first-in first-out queue of ``depth`` instructions, in block RAM.

    Members: ``push`` In and ``pop`` Out, streams of 128 bits; ``empty`` Out(1). Fetch
    waits while ``push.ready`` is 0, so a queue that is full delays what follows for the
    other modules, too.
    """

    def __init__(self, depth: int) -> None:
        self._depth = depth
        shape = stream.Signature(INSTRUCTION_BITS)
        super().__init__({"push": In(shape), "pop": Out(shape), "empty": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        m.submodules.fifo = fifo = SyncFIFOBuffered(width=INSTRUCTION_BITS, depth=self._depth)
        wiring.connect(m, fifo.w_stream, wiring.flipped(self.push))
        wiring.connect(m, fifo.r_stream, wiring.flipped(self.pop))
        # An instruction that was just pushed counts, before it can leave.
        m.d.comb += self.empty.eq(fifo.level == 0)
        return m
