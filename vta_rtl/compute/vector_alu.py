"""The operations of ALU instructions on one accumulator element."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed

from vta_rtl.compute.alu_part import AluPart, choose
from vta_stages.isa.instructions import AluOp


class VectorAlu(AluPart):
    """Combinational: ``result[l] = op(dst[l], imm or src[l])`` in every lane.

    Members are those of :class:`~vta_rtl.compute.alu_part.AluPart`.

    Lanes and operations are those of :class:`~vta_stages.isa.instructions.AluOp`. SHR reads the low
    5 bits of its operand as a signed number, and shifts left by a negative one. ADD and shifts to
    the left wrap. An opcode that is no AluOp leaves ``dst`` as it is.
    """

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        alu = self._fields
        is_max, adds, shifts, keeps = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            is_max.eq(alu.alu_opcode == AluOp.MAX),
            adds.eq(alu.alu_opcode == AluOp.ADD),
            shifts.eq(alu.alu_opcode == AluOp.SHR),
            keeps.eq(alu.alu_opcode > AluOp.SHR),
        ]
        for lane in range(self._lanes):
            a = self.dst[lane]
            b = Signal(signed(32), name=f"operand_{lane}")
            m.d.comb += b.eq(Mux(alu.use_imm, alu.imm, self.src[lane]))
            total = self._total(m, lane, a, b, subtracts=~adds)
            picks_dst, picked = Signal(name=f"picks_dst_{lane}"), Signal(32, name=f"picked_{lane}")
            doubled = self._shifted_by_even(m, lane, a, b)
            # Four values and two bits to choose one of them are all that a LUT takes.
            choice = Signal(2, name=f"choice_{lane}")
            m.d.comb += [
                picks_dst.eq(keeps | (total[32] ^ is_max)),
                picked.eq(Mux(picks_dst, a, b)),
                choice.eq(Cat(Mux(shifts, b[0], adds), shifts)),
                self.result[lane].eq(
                    Mux(
                        choice[1],
                        Mux(choice[0], doubled[1:33], doubled[:32]),
                        Mux(choice[0], total[:32], picked),
                    )
                ),
            ]
        return m

    def _total(self, m: Module, lane: int, a: Value, b: Value, *, subtracts: Value) -> Value:
        """Return ``a + b`` or ``a - b``, 33 bits, from one adder for both.

        The lowest bits of what is added make the carry that a subtraction begins with.
        """
        total = Signal(34, name=f"total_{lane}")
        addend = b.as_unsigned() ^ subtracts.replicate(32)
        m.d.comb += total.eq(Cat(1, a, a[-1]) + Cat(subtracts, addend, addend[-1]))
        return total[1:]

    def _shifted_by_even(self, m: Module, lane: int, a: Value, b: Value) -> Value:
        """Return ``a`` shifted by all but the lowest bit of ``b``, with one bit more at the end.

        A shift to the left by 16 - n is one by 16, then one to the right by n. Without the one to
        the left, it is one to the right by 16 from a place that is 16 higher.
        """
        wide = Cat(Const(0, 16), a, a[-1].replicate(16))
        by_8 = Signal(39, name=f"shifted_by_8_{lane}")
        by_2 = Signal(33, name=f"shifted_by_2_{lane}")
        m.d.comb += [
            by_8.eq(choose(Cat(b[3], ~b[4]), [wide[n : n + 39] for n in (0, 8, 16, 24)])),
            by_2.eq(choose(b[1:3], [by_8[n : n + 33] for n in (0, 2, 4, 6)])),
        ]
        return by_2
