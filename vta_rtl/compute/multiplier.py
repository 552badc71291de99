"""MULTIPLY, the extension of ALU instructions that multiplies two accumulator elements."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value, signed

from vta_rtl.compute.alu_part import AluPart
from vta_rtl.compute.dsp_cell import ProductCell, dsp_cell
from vta_stages.accelerator import Accelerator

_FACTOR_BITS = 16


class Multiplier(AluPart):
    """Combinational: ``result[l]`` is the product of the low 16 bits of ``dst[l]`` and an operand.

    Members are those of :class:`~vta_rtl.compute.alu_part.AluPart`. The operand is ``src[l]``, or
    the immediate with ``use_imm``.

    Both factors are signed, so no product needs more than 32 bits. A lane takes one DSP cell, or
    with ``in_logic`` none, but about 300 LUTs.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        cell: ProductCell = ProductCell.BEHAVIOURAL,
        *,
        in_logic: bool = False,
    ) -> None:
        super().__init__(accelerator)
        self._cell = cell
        self._in_logic = in_logic

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        alu = self._fields
        for lane in range(self._lanes):
            first = Signal(signed(_FACTOR_BITS), name=f"first_{lane}")
            second = Signal(signed(_FACTOR_BITS), name=f"second_{lane}")
            m.d.comb += [
                first.eq(self.dst[lane]),
                second.eq(Mux(alu.use_imm, alu.imm, self.src[lane])),
            ]
            if self._in_logic:
                m.d.comb += self.result[lane].eq(_product_in_logic(m, lane, first, second))
            elif self._cell is ProductCell.BEHAVIOURAL:
                m.d.comb += self.result[lane].eq(first * second)
            else:
                product = Signal(48, name=f"product_{lane}")
                m.submodules[f"cell_{lane}"] = dsp_cell(self._cell, a=first, b=second, p=product)
                m.d.comb += self.result[lane].eq(product)
        return m


def _product_in_logic(m: Module, lane: int, first: Signal, second: Signal) -> Value:
    """Return the product as a tree of sums: one factor, shifted, for each bit of the other."""
    sums: list[Value] = []
    for place, bit in enumerate(second):
        # The highest bit counts negatively: -x is ~x + 1, and all these ones are added below.
        part = (first & bit.replicate(_FACTOR_BITS).as_signed()) << place
        sums.append(~part if place == _FACTOR_BITS - 1 else part)
    while len(sums) > 1:
        pairs = []
        for number, (a, b) in enumerate(zip(sums[::2], sums[1::2], strict=True)):
            total = Signal(signed(32), name=f"sum_{len(sums)}_{number}_{lane}")
            m.d.comb += total.eq(a + b)
            pairs.append(total)
        sums = pairs
    product = Signal(signed(32), name=f"product_{lane}")
    m.d.comb += product.eq(sums[0] + 1)
    return product
