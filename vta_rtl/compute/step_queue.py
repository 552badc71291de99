"""The steps between the loops and the accumulators."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2


class StepQueue(wiring.Component):
    """Gives each step to the accumulators a fixed time after it came, or later, in order.

    Members: ``valid``, ``dst`` and ``src`` In, a step that comes; ``next_valid``, ``next_dst`` and
    ``next_src`` Out, ``cycles`` later, until ``next_ready`` In is 1; ``hold`` Out(1), after which
    at most ``most_after_hold`` steps may come; ``busy`` Out(1), 1 while there is a step.

    As long as ``next_ready`` is 1, a step waits for ``cycles`` exactly. A step that was not taken
    costs a cycle, and ``hold`` does not cost another one.
    """

    def __init__(self, *, dst_bits: int, src_bits: int, cycles: int, most_after_hold: int) -> None:
        self._step = data.StructLayout({"dst": dst_bits, "src": src_bits})
        self._cycles = cycles
        # Steps that are on their way when it holds, and as many to give until new ones arrive.
        self._way = most_after_hold + cycles
        super().__init__(
            {
                "valid": In(1),
                "dst": In(dst_bits),
                "src": In(src_bits),
                "next_valid": Out(1),
                "next_dst": Out(dst_bits),
                "next_src": Out(src_bits),
                "next_ready": In(1),
                "hold": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        valid, step = self.valid, Signal(self._step)
        m.d.comb += [step.dst.eq(self.dst), step.src.eq(self.src)]
        valids = [valid]
        for cycle in range(self._cycles):
            delayed_valid, delayed = (
                Signal(name=f"valid_{cycle}"),
                Signal(self._step, name=f"step_{cycle}"),
            )
            m.d.sync += [delayed_valid.eq(valid), delayed.eq(step)]
            valid, step = delayed_valid, delayed
            valids.append(valid)

        depth = 1 << ceil_log2(2 * self._way + 2)
        m.submodules.late = late = SyncFIFO(width=len(step.as_value()), depth=depth)
        is_empty = Signal()
        oldest = Signal(self._step)
        m.d.comb += [
            is_empty.eq(late.level == 0),
            oldest.eq(Mux(is_empty, step.as_value(), late.r_data)),
            self.next_valid.eq(Mux(is_empty, valid, 1)),
            self.next_dst.eq(oldest.dst),
            self.next_src.eq(oldest.src),
            late.w_data.eq(step),
            late.w_en.eq(valid & ~(is_empty & self.next_ready)),
            late.r_en.eq(~is_empty & self.next_ready),
            self.hold.eq(late.level > self._way),
            self.busy.eq(Cat(valids).any() | ~is_empty),
        ]
        return m
