"""The operations of ALU instructions on one accumulator element."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.isa.layouts import INSTRUCTION_BITS, instruction_layout
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import AluOp, Opcode


class VectorAlu(wiring.Component):
    """Combinational: ``result[l] = op(dst[l], imm or src[l])`` in every lane.

    Members: ``instruction`` In(128), an ALU instruction; ``dst`` and ``src`` In and ``result`` Out,
    int32[batch * block_out].

    Lanes and operations are those of :class:`~vta_stages.isa.instructions.AluOp`. SHR reads the low
    5 bits of its operand as a signed number, and shifts left by a negative one. ADD and shifts to
    the left wrap. An opcode that is no AluOp leaves ``dst`` as it is.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self._layout = instruction_layout(accelerator, Opcode.ALU)
        self._lanes = accelerator.acc_bytes // 4
        element = data.ArrayLayout(signed(32), self._lanes)
        super().__init__(
            {
                "instruction": In(INSTRUCTION_BITS),
                "dst": In(element),
                "src": In(element),
                "result": Out(element),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        alu = data.View(self._layout, self.instruction)
        for lane in range(self._lanes):
            a, result = self.dst[lane], self.result[lane]
            b = Signal(signed(32), name=f"operand_{lane}")
            m.d.comb += b.eq(Mux(alu.use_imm, alu.imm, self.src[lane]))
            with m.Switch(alu.alu_opcode):
                with m.Case(AluOp.MIN):
                    m.d.comb += result.eq(Mux(a < b, a, b))
                with m.Case(AluOp.MAX):
                    m.d.comb += result.eq(Mux(a < b, b, a))
                with m.Case(AluOp.ADD):
                    m.d.comb += result.eq(a + b)
                with m.Case(AluOp.SHR):
                    left_shift = Signal(5, name=f"left_shift_{lane}")
                    m.d.comb += left_shift.eq(16 - b[:4])
                    m.d.comb += result.eq(Mux(b[4], a << left_shift, a >> b[:4]))
                with m.Default():
                    m.d.comb += result.eq(a)
        return m
