"""The registers of the table behind an AXI-Lite slave."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.registers.axi_lite import WORD_BITS, AxiLiteSlave, lite_bus
from vta_rtl.registers.register_table import REGISTERS, Access

STORED = tuple(register for register in REGISTERS if register.access is Access.STORED)
OTHERS = tuple(register for register in REGISTERS if register.access is not Access.STORED)


class RegisterBank(wiring.Component):
    """Keeps the registers that are stored, and passes accesses to the others on.

    Members: ``bus`` In, the AXI-Lite slave; ``stored`` Out, the values of stored registers by name;
    ``others`` In, what a read of the other registers gives; ``read`` Out, with a 1 for one cycle in
    which one of these is read; ``written`` Out, for one cycle the bits that a write sets to 1, and
    ``cleared`` Out, those that it sets to 0, also by name.

    Offsets without a register read 0, and a write there has no effect.
    """

    def __init__(self) -> None:
        words = data.StructLayout({register.name: WORD_BITS for register in OTHERS})
        super().__init__(
            {
                "bus": In(lite_bus()),
                "stored": Out(data.StructLayout({r.name: WORD_BITS for r in STORED})),
                "others": In(words),
                "read": Out(data.StructLayout({register.name: 1 for register in OTHERS})),
                "written": Out(words),
                "cleared": Out(words),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        m.submodules.slave = slave = AxiLiteSlave()
        wiring.connect(m, wiring.flipped(self.bus), slave.bus)
        ones = slave.write_data & slave.write_mask
        zeros = ~slave.write_data & slave.write_mask
        stored = {
            register.name: Signal(WORD_BITS, init=register.reset, name=register.name)
            for register in STORED
        }
        for register in STORED:
            value = stored[register.name]
            m.d.comb += self.stored[register.name].eq(value)
            with m.If(slave.write & (slave.write_offset[2:] == register.offset // 4)):
                m.d.sync += value.eq((value & ~zeros | ones) & register.mask)
        for register in OTHERS:
            name = register.name
            with m.If(slave.write & (slave.write_offset[2:] == register.offset // 4)):
                m.d.comb += [self.written[name].eq(ones), self.cleared[name].eq(zeros)]
        with m.Switch(slave.read_offset[2:]):
            for register in REGISTERS:
                name = register.name
                with m.Case(register.offset // 4):
                    if register.access is Access.STORED:
                        m.d.comb += slave.read_data.eq(stored[name])
                    else:
                        m.d.comb += slave.read_data.eq(self.others[name])
                        m.d.comb += self.read[name].eq(slave.read)
        return m
