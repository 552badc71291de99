"""REQUANTISE, the extension of ALU instructions that adds, shifts and clips in one pass."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, signed

from vta_rtl.compute.alu_part import AfterShift
from vta_rtl.compute.shifted_sum import CONSTANT_FROM, DISTANCE_BITS

_BOUND_BITS = 8


class Requantiser(AfterShift):
    """Combinational: ``result[l] = clip(shifted[l] >> distance, low, high)``.

    Members are those of :class:`~vta_rtl.compute.alu_part.AfterShift`. ``distance`` is 16 or 0, as
    bit 4 of ``src[l]`` says, or that of the immediate with ``use_imm``; the rest of it is in
    ``shifted``. The immediate has ``low`` in bits 7:0 and ``high`` in bits 15:8, both int8; where
    ``low`` is above ``high``, all results are ``high``. With ``use_imm`` bits 4:0 of ``low`` are 0.
    """

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        alu = self._fields
        imm = alu.imm.as_unsigned()
        stated, low, high = (Signal(signed(_BOUND_BITS), name=n) for n in ("stated", "low", "high"))
        distance_or_low = Mux(alu.use_imm, 0, imm[:CONSTANT_FROM])
        m.d.comb += [
            stated.eq(Cat(distance_or_low, imm[CONSTANT_FROM:_BOUND_BITS])),
            high.eq(imm[_BOUND_BITS:]),
            low.eq(Mux(stated > high, high, stated)),
        ]
        half = 1 << DISTANCE_BITS
        for lane in range(self._lanes):
            value = self.shifted[lane].as_unsigned()
            far = Signal(name=f"far_{lane}")
            small = Signal(signed(_BOUND_BITS), name=f"small_{lane}")
            m.d.comb += [
                far.eq(Mux(alu.use_imm, imm, self.src[lane].as_unsigned())[DISTANCE_BITS]),
                small.eq(Mux(far, value[half:], value)[:_BOUND_BITS]),
            ]
            above = Signal(name=f"above_{lane}")
            below = Signal(name=f"below_{lane}")
            # What has more bits than a bound is beyond it; the others are compared in few bits.
            is_small = Signal(name=f"is_small_{lane}")
            upper = value[half + _BOUND_BITS - 1 :]
            lower = value[_BOUND_BITS - 1 : half + _BOUND_BITS - 1]
            m.d.comb += [
                is_small.eq(
                    upper.all() & (far | lower.all()) | ~upper.any() & (far | ~lower.any())
                ),
                above.eq(Mux(is_small, small > high, ~value[-1])),
                below.eq(Mux(is_small, small < low, value[-1])),
                self.result[lane].eq(Mux(above, high, Mux(below, low, small))),
            ]
        return m
