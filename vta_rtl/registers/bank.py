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
    which one of these is read; ``written`` Out, with a 1 for one cycle in which one of these is
    written, also by name, and ``ones`` and ``zeros`` Out(32), the bits that a write sets to 1 and
    to 0.

    Offsets without a register read 0, and a write there has no effect.
    """

    def __init__(self) -> None:
        words = data.StructLayout({register.name: WORD_BITS for register in OTHERS})
        accesses = data.StructLayout({register.name: 1 for register in OTHERS})
        super().__init__(
            {
                "bus": In(lite_bus()),
                "stored": Out(data.StructLayout({r.name: WORD_BITS for r in STORED})),
                "others": In(words),
                "read": Out(accesses),
                "written": Out(accesses),
                "ones": Out(WORD_BITS),
                "zeros": Out(WORD_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        m.submodules.slave = slave = AxiLiteSlave()
        wiring.connect(m, wiring.flipped(self.bus), slave.bus)
        m.d.comb += [
            self.ones.eq(slave.write_data & slave.write_mask),
            self.zeros.eq(~slave.write_data & slave.write_mask),
        ]
        stored = {
            register.name: Signal(WORD_BITS, init=register.reset, name=register.name)
            for register in STORED
        }
        for register in STORED:
            value = stored[register.name]
            m.d.comb += self.stored[register.name].eq(value)
            is_meant = slave.write & (slave.write_offset[2:] == register.offset // 4)
            # By bytes, each with an enable, as a flip-flop has one: no gate for any bit.
            for low in range(0, WORD_BITS, 8):
                byte = slave.write_data[low : low + 8] & (register.mask >> low & 0xFF)
                with m.If(is_meant & slave.write_mask[low]):
                    m.d.sync += value[low : low + 8].eq(byte)
        for register in OTHERS:
            name = register.name
            with m.If(slave.write & (slave.write_offset[2:] == register.offset // 4)):
                m.d.comb += self.written[name].eq(1)
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
