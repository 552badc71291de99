"""The addition and the shift that REQUANTISE, TABLE and LEAKY begin with."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal

from vta_rtl.compute.alu_part import AluPart, choose, sum_of
from vta_rtl.isa.layouts import whole_field
from vta_stages.isa.instructions import REQUANTISING, AluOp, alu_operations

CONSTANT_FROM = 5
"""The lowest bit of a REQUANTISE's constant in a lane of ``src``; its distance is below."""

DISTANCE_BITS = 4
"""Bits of a distance that the shift is for: the low ones of a REQUANTISE's, all of a LEAKY's."""


class ShiftedSum(AluPart):
    """Combinational: ``result[l] = (dst[l] + addend) >> distance``. The sum wraps.

    Members are those of :class:`~vta_rtl.compute.alu_part.AluPart`. For LEAKY the addend is a lane
    of ``src``, and the distance is in bits 2:0 of the immediate. For the others a lane of ``src``
    has the addend, signed, above bit 4, and the distance in bits 3:0. With ``use_imm`` the addend
    is 0, and the distance is in bits 3:0 of the immediate.

    An accelerator without LEAKY, or with nothing else, has what it needs of this.
    """

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        alu = self._fields
        has = set(alu_operations(self._accelerator))
        leaks, takes_src, takes_constant = Signal(), Signal(), Signal()
        if has.isdisjoint(REQUANTISING):
            m.d.comb += leaks.eq(1)
        elif AluOp.LEAKY in has:
            m.d.comb += leaks.eq(whole_field(alu, "alu_opcode") == AluOp.LEAKY)
        stated = Signal(DISTANCE_BITS)
        imm = alu.imm.as_unsigned()
        m.d.comb += [
            takes_src.eq(leaks & ~alu.use_imm),
            takes_constant.eq(~leaks & ~alu.use_imm),
            stated.eq(Cat(imm[: DISTANCE_BITS - 1], ~leaks & imm[DISTANCE_BITS - 1])),
        ]
        for lane in range(self._lanes):
            operand = self.src[lane].as_unsigned()
            constant = Cat(operand[CONSTANT_FROM:], operand[-1].replicate(CONSTANT_FROM))
            addend = Signal(32, name=f"addend_{lane}")
            summed = Signal(32, name=f"summed_{lane}")
            distance = Signal(DISTANCE_BITS, name=f"distance_{lane}")
            m.d.comb += [
                # With dst, these are five inputs: the LUT that the carry chain has for each bit.
                addend.eq(
                    takes_src.replicate(32) & operand | takes_constant.replicate(32) & constant
                ),
                summed.eq(sum_of(self.dst[lane].as_unsigned(), addend)),
                distance.eq(Mux(takes_constant, operand, stated)),
            ]
            wide = Cat(summed, summed[-1].replicate(15))
            by_4 = Signal(35, name=f"shifted_by_4_{lane}")
            m.d.comb += [
                by_4.eq(choose(distance[2:], [wide[n : n + 35] for n in (0, 4, 8, 12)])),
                self.result[lane].eq(choose(distance[:2], [by_4[n : n + 32] for n in range(4)])),
            ]
        return m
