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
            picks_dst = Signal(name=f"picks_dst_{lane}")
            shifted = Signal(signed(32), name=f"shifted_{lane}")
            m.d.comb += [
                picks_dst.eq((a < b) == (alu.alu_opcode == AluOp.MIN)),
                # A shift to the left by 16 - n is one by 16, then one to the right by n.
                shifted.eq(Mux(b[4], a << 16, a) >> b[:4]),
            ]
            with m.Switch(alu.alu_opcode):
                with m.Case(AluOp.MIN, AluOp.MAX):
                    m.d.comb += result.eq(Mux(picks_dst, a, b))
                with m.Case(AluOp.ADD):
                    m.d.comb += result.eq(a + b)
                with m.Case(AluOp.SHR):
                    m.d.comb += result.eq(shifted)
                with m.Default():
                    m.d.comb += result.eq(a)
        return m
