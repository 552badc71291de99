"""An AXI4-Lite slave: its channels as streams, and one access at a time for what is behind it.

Source: AMBA AXI and ACE Protocol Specification, ARM IHI 0022, B1. ``AxPROT`` is not looked at.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.registers.register_table import MAP_BYTES

OFFSET_BITS = MAP_BYTES.bit_length() - 1
WORD_BITS = 32


def lite_bus() -> wiring.Signature:
    """Return the channels of an AXI-Lite master: ``aw``, ``w``, ``ar`` Out, ``b``, ``r`` In.

    Addresses are byte offsets in the map, of ``OFFSET_BITS`` bits.
    """
    word = data.StructLayout({"data": WORD_BITS, "strb": WORD_BITS // 8})
    answer = data.StructLayout({"data": WORD_BITS, "resp": 2})
    return wiring.Signature(
        {
            "aw": Out(stream.Signature(OFFSET_BITS)),
            "w": Out(stream.Signature(word)),
            "b": In(stream.Signature(data.StructLayout({"resp": 2}))),
            "ar": Out(stream.Signature(OFFSET_BITS)),
            "r": In(stream.Signature(answer)),
        }
    )


class AxiLiteSlave(wiring.Component):
    """Turns transfers on the bus into reads and writes of one cycle.

    Members: ``bus`` In; ``write`` Out(1), 1 for one cycle with ``write_offset``, ``write_data`` and
    ``write_mask`` Out, whose bits are 1 where the strobes of their byte are; ``read`` Out(1), 1 for
    one cycle with ``read_offset`` Out, in which ``read_data`` In is taken.

    A write's address and data may come in either order or at once. All answers are OKAY: an error
    would stop a processor with a bus fault that names no register.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "bus": In(lite_bus()),
                "write": Out(1),
                "write_offset": Out(OFFSET_BITS),
                "write_data": Out(WORD_BITS),
                "write_mask": Out(WORD_BITS),
                "read": Out(1),
                "read_offset": Out(OFFSET_BITS),
                "read_data": In(WORD_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        bus = self.bus
        has_address, has_data, answers, has_answer = Signal(), Signal(), Signal(), Signal()
        strobes = Signal(WORD_BITS // 8)
        m.d.comb += [
            bus.aw.ready.eq(~has_address),
            bus.w.ready.eq(~has_data),
            bus.b.valid.eq(answers),
            # The answer of the write before may leave in the same cycle.
            self.write.eq(has_address & has_data & (~answers | bus.b.ready)),
            self.write_mask.eq(Cat(strobe.replicate(8) for strobe in strobes)),
        ]
        with m.If(bus.aw.valid & bus.aw.ready):
            m.d.sync += [has_address.eq(1), self.write_offset.eq(bus.aw.payload)]
        with m.If(bus.w.valid & bus.w.ready):
            m.d.sync += [
                has_data.eq(1),
                self.write_data.eq(bus.w.payload.data),
                strobes.eq(bus.w.payload.strb),
            ]
        with m.If(self.write):
            m.d.sync += [has_address.eq(0), has_data.eq(0), answers.eq(1)]
        with m.Elif(bus.b.ready):
            m.d.sync += answers.eq(0)

        m.d.comb += [
            bus.ar.ready.eq(~has_answer | bus.r.ready),
            bus.r.valid.eq(has_answer),
            self.read.eq(bus.ar.valid & bus.ar.ready),
            self.read_offset.eq(bus.ar.payload),
        ]
        with m.If(self.read):
            m.d.sync += [has_answer.eq(1), bus.r.payload.data.eq(self.read_data)]
        with m.Elif(bus.r.ready):
            m.d.sync += has_answer.eq(0)
        return m
