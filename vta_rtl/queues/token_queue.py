"""One of the four queues of tokens between neighbouring modules."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class TokenQueue(wiring.Component):
    """A counter of tokens, which carry no data. It holds at most ``depth`` of them.

    Members: ``push_valid`` In, ``push_ready`` Out, ``pop_valid`` Out, ``pop_ready`` In, each of one
    bit; ``clear`` In(1), which removes all tokens. A token enters or leaves in a cycle in which
    both signals of its side are 1. As in a stream, ready and valid depend on the number of tokens
    alone: a token pushed into an empty queue can leave in the next cycle, and a full queue takes
    none in the cycle in which one leaves.
    """

    def __init__(self, depth: int) -> None:
        self._depth = depth
        super().__init__(
            {
                "push_valid": In(1),
                "push_ready": Out(1),
                "pop_valid": Out(1),
                "pop_ready": In(1),
                "clear": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        count = Signal(range(self._depth + 1))
        m.d.comb += [
            self.push_ready.eq(count != self._depth),
            self.pop_valid.eq(count != 0),
        ]
        pushed = self.push_valid & self.push_ready
        popped = self.pop_valid & self.pop_ready
        with m.If(self.clear):
            m.d.sync += count.eq(0)
        with m.Elif(pushed & ~popped):
            m.d.sync += count.eq(count + 1)
        with m.Elif(popped & ~pushed):
            m.d.sync += count.eq(count - 1)
        return m
