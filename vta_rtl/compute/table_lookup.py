"""TABLE, the extension of ALU instructions whose results go through a table to the out buffer."""

from __future__ import annotations

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.buffers.ports import write_port
from vta_rtl.isa.layouts import INSTRUCTION_BITS, instruction_layout, whole_field
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import AluOp, MemoryType, Opcode, buffer_depth, element_bytes

_RESULT_BITS = 8


class TableLookup(wiring.Component):
    """The table, between the engine and the out buffer.

    Members: ``instruction`` In(128), the one that runs; ``results`` In and ``out`` Out, write ports
    of the out buffer; ``table`` In, a write port for elements of TABLE, four entries each. In a
    TABLE instruction each lane of ``out`` is the entry for that of ``results``, in any other it is
    the result itself.

    Combinational from ``results`` to ``out``, so a table takes no cycle: it is read where results
    have left the accumulators' loop. Each lane has a copy of it, of LUTs.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self._layout = instruction_layout(accelerator, Opcode.ALU)
        self._lanes = accelerator.out_bytes
        self._element_bytes = element_bytes(accelerator, MemoryType.TABLE)
        self._depth = buffer_depth(accelerator, MemoryType.TABLE)
        out = write_port(8 * accelerator.out_bytes, accelerator.out_depth)
        super().__init__(
            {
                "instruction": In(INSTRUCTION_BITS),
                "table": In(write_port(8 * self._element_bytes, self._depth)),
                "results": In(out),
                "out": Out(out),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        m.submodules.entries = entries = memory.Memory(
            shape=data.ArrayLayout(_RESULT_BITS, self._element_bytes), depth=self._depth, init=[]
        )
        write = entries.write_port()
        m.d.comb += [
            write.en.eq(self.table.enable),
            write.addr.eq(self.table.address),
            write.data.eq(self.table.data),
        ]
        alu = data.View(self._layout, self.instruction)
        looks_up = Signal()
        m.d.comb += [
            looks_up.eq(
                (alu.opcode == Opcode.ALU) & (whole_field(alu, "alu_opcode") == AluOp.TABLE)
            ),
            self.out.enable.eq(self.results.enable),
            self.out.address.eq(self.results.address),
            self.out.data.eq(self.results.data),
        ]
        place_bits = (self._element_bytes - 1).bit_length()
        for lane in range(self._lanes):
            result = self.results.data.word_select(lane, _RESULT_BITS)
            read = entries.read_port(domain="comb")
            m.d.comb += read.addr.eq(result[place_bits:])
            entry = Array(read.data[n] for n in range(self._element_bytes))[result[:place_bits]]
            with m.If(looks_up):
                m.d.comb += self.out.data.word_select(lane, _RESULT_BITS).eq(entry)
        return m
