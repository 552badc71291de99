"""A product of two int16 is the same in each cell, and in logic: all values by some others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from amaranth.hdl import C, Cat, Module, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import Out
from engine_on_buffers import SMALL
from test_product_pairs import CELL_MODELS
from verilated_check import run_check

from vta_rtl.compute.dsp_cell import ProductCell
from vta_rtl.compute.multiplier import Multiplier

EXTENDED = replace(SMALL, extensions=("multiply",))
LANES = 4
SPECIAL_BITS = 5
PATTERN = 0b0011_0101_1100_0001


class AllByMany(wiring.Component):
    """Counts the products that are wrong, for all first factors and 64 second ones.

    The second ones are a single bit in two lanes and a pattern in the others, at each place, and
    their complements. ``wrong`` has a count of 16 bits for each of ``ways``, which stays at its
    most. In every other lane ``src`` has the first factor.
    """

    ways = (*(cell.value for cell in ProductCell), "logic")

    def __init__(self) -> None:
        super().__init__({"done": Out(1), "wrong": Out(16 * len(self.ways))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        step = Signal(16 + SPECIAL_BITS + 1)
        first = Signal(signed(16))
        m.d.sync += step.eq(step + 1)
        m.d.comb += [self.done.eq(step[-1] & step[0]), first.eq(step[:16])]
        place, inverted = step[16:20], step[20]
        wrong: dict[str, list[Value]] = {way: [] for way in self.ways}
        parts = {cell.value: Multiplier(EXTENDED, cell) for cell in ProductCell}
        parts["logic"] = Multiplier(EXTENDED, in_logic=True)
        for lane in range(LANES):
            bits = C(1 if lane < LANES // 2 else PATTERN, 16)
            special = Signal(signed(16), name=f"special_{lane}")
            m.d.comb += special.eq((Cat(bits, bits) << place)[16:32] ^ inverted.replicate(16))
            dst, src = (first, special) if lane % 2 else (special, first)
            for way, part in parts.items():
                # What is above the factors has no meaning.
                m.d.comb += [part.dst[lane].eq(Cat(dst, ~dst)), part.src[lane].eq(Cat(src, dst))]
                wrong[way].append(part.result[lane] != first * special)
        for number, (way, part) in enumerate(parts.items()):
            m.submodules[way] = part
            count = self.wrong.word_select(number, 16)
            with m.If(~step[-1] & Cat(wrong[way]).any() & ~count.all()):
                m.d.sync += count.eq(count + 1)
        return m


def test_all_values_by_many_give_their_product_in_each_cell(tmp_path: Path) -> None:
    wrong, cycles = run_check(AllByMany(), tmp_path, CELL_MODELS)
    assert cycles >= 1 << 16 + SPECIAL_BITS
    found = {way: wrong >> 16 * n & 0xFFFF for n, way in enumerate(AllByMany.ways)}
    assert found == dict.fromkeys(found, 0)
