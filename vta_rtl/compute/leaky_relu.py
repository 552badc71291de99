"""LEAKY, the extension of ALU instructions that does a leaky ReLU in one pass."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.isa.layouts import INSTRUCTION_BITS, instruction_layout
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import Opcode


class LeakyRelu(wiring.Component):
    """Combinational: ``result[l] = max(v, t >> second)`` with ``v = dst[l]``.

    Members: ``instruction`` In(128), a LEAKY; ``dst`` and ``src`` In and ``result`` Out,
    int32[batch * block_out].

    ``t`` is ``(v + src[l]) >> first``, without ``src`` if ``use_imm`` is set. ``v`` gets ``t`` in
    addition if bit 3 of the immediate is set. ``first`` is in bits 2:0 of the immediate and
    ``second`` in bits 6:4. Both sums wrap.
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
        first, adds, second = imm[0:3], imm[3], imm[4:7]
        for lane in range(self._lanes):
            total, branch, value, last = (
                Signal(signed(32), name=f"{name}_{lane}")
                for name in ("total", "branch", "value", "last")
            )
            m.d.comb += [
                total.eq(self.dst[lane] + Mux(alu.use_imm, 0, self.src[lane])),
                branch.eq(total >> first),
                value.eq(self.dst[lane] + Mux(adds, branch, 0)),
                last.eq(branch >> second),
                self.result[lane].eq(Mux(last > value, last, value)),
            ]
        return m
