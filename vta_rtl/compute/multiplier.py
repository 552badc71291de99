"""MULTIPLY, the extension of ALU instructions that multiplies two accumulator elements."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.isa.layouts import INSTRUCTION_BITS, instruction_layout
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import Opcode

_FACTOR_BITS = 16


class Multiplier(wiring.Component):
    """Combinational: ``result[l]`` is the product of the low 16 bits of ``dst[l]`` and an operand.

    Members: ``instruction`` In(128), a MULTIPLY; ``dst`` and ``src`` In and ``result`` Out,
    int32[batch * block_out]. The operand is ``src[l]``, or the immediate with ``use_imm``.

    Both factors are signed, so no product needs more than 32 bits. A lane takes one DSP cell.
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
            first = Signal(signed(_FACTOR_BITS), name=f"first_{lane}")
            second = Signal(signed(_FACTOR_BITS), name=f"second_{lane}")
            m.d.comb += [
                first.eq(self.dst[lane]),
                second.eq(Mux(alu.use_imm, alu.imm, self.src[lane])),
                self.result[lane].eq(first * second),
            ]
        return m
