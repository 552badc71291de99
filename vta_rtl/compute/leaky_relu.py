"""LEAKY, the extension of ALU instructions that does a leaky ReLU in one pass."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, signed

from vta_rtl.compute.alu_part import AfterShift, choose, sum_of


class LeakyRelu(AfterShift):
    """Combinational: ``result[l] = max(v, t >> second)`` with ``v = dst[l]`` and
    ``t = shifted[l]``.

    Members are those of :class:`~vta_rtl.compute.alu_part.AfterShift`. ``v`` gets ``t`` in addition
    if bit 3 of the immediate is set, and wraps. ``second`` is in bits 6:4 of the immediate. ``src``
    is only in ``t``.
    """

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        imm = self._fields.imm.as_unsigned()
        adds, second = imm[3], imm[4:7]
        for lane in range(self._lanes):
            branch = self.shifted[lane].as_unsigned()
            value, last = (Signal(signed(32), name=f"{name}_{lane}") for name in ("value", "last"))
            by_3 = Signal(36, name=f"shifted_by_3_{lane}")
            wide = Cat(branch, branch[-1].replicate(7))
            m.d.comb += [
                value.eq(sum_of(self.dst[lane].as_unsigned(), branch & adds.replicate(32))),
                by_3.eq(choose(second[:2], [wide[n : n + 36] for n in range(4)])),
                # This choice has room in the LUTs of the comparison and of the result.
                last.eq(Mux(second[2], by_3[4:], by_3[:32])),
                self.result[lane].eq(Mux(value < last, last, value)),
            ]
        return m
