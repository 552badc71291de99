"""REQUANTISE, the extension of ALU instructions that adds, shifts and clips in one pass."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.isa.layouts import INSTRUCTION_BITS, instruction_layout
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import Opcode

_DISTANCE_BITS = 5
_BOUND_BITS = 8


class Requantiser(wiring.Component):
    """Combinational: ``result[l] = clip((dst[l] + constant) >> distance, low, high)``.

    Members: ``instruction`` In(128), a REQUANTISE; ``dst`` and ``src`` In and ``result`` Out,
    int32[batch * block_out].

    A lane of ``src`` has the distance in bits 4:0 and the constant, signed, above it. The immediate
    has ``low`` in bits 7:0 and ``high`` in bits 15:8, both int8; where ``low`` is above ``high``,
    all results are ``high``. With ``use_imm`` the constant is 0, the distance is in bits 4:0 of the
    immediate, and these bits of ``low`` are 0. The sum wraps.
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
        imm = alu.imm.as_unsigned()
        stated, low, high = (Signal(signed(_BOUND_BITS), name=n) for n in ("stated", "low", "high"))
        distance_or_low = Mux(alu.use_imm, 0, imm[:_DISTANCE_BITS])
        m.d.comb += [
            stated.eq(Cat(distance_or_low, imm[_DISTANCE_BITS:_BOUND_BITS])),
            high.eq(imm[_BOUND_BITS:]),
            low.eq(Mux(stated > high, high, stated)),
        ]
        for lane in range(self._lanes):
            operand = self.src[lane]
            constant = Signal(signed(32 - _DISTANCE_BITS), name=f"constant_{lane}")
            distance = Signal(_DISTANCE_BITS, name=f"distance_{lane}")
            total = Signal(signed(32), name=f"total_{lane}")
            shifted = Signal(signed(32), name=f"shifted_{lane}")
            small = Signal(signed(_BOUND_BITS), name=f"small_{lane}")
            m.d.comb += [
                constant.eq(Mux(alu.use_imm, 0, operand >> _DISTANCE_BITS)),
                distance.eq(Mux(alu.use_imm, imm, operand)),
                total.eq(self.dst[lane] + constant),
                shifted.eq(total >> distance),
                small.eq(shifted),
            ]
            above = Signal(name=f"above_{lane}")
            below = Signal(name=f"below_{lane}")
            # What has more bits than a bound is beyond it; the others are compared in few bits.
            is_small = Signal(name=f"is_small_{lane}")
            upper = shifted[_BOUND_BITS - 1 :]
            m.d.comb += [
                is_small.eq(upper.all() | ~upper.any()),
                above.eq(Mux(is_small, small > high, ~shifted[-1])),
                below.eq(Mux(is_small, small < low, shifted[-1])),
                self.result[lane].eq(Mux(above, high, Mux(below, low, small))),
            ]
        return m
