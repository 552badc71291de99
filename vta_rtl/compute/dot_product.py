"""The products of a GEMM step and their sums."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.compute.dsp_cell import ProductCell
from vta_rtl.compute.product_pairs import PAIR_CYCLES, ProductPairs
from vta_stages.accelerator import Accelerator

_LEVELS_PER_CYCLE = 2
"""Levels of an adder tree between two registers."""


def product_cycles(accelerator: Accelerator) -> int:
    """Return the cycles from the operands of a step to its sums."""
    return PAIR_CYCLES + -(-_levels(accelerator) // _LEVELS_PER_CYCLE)


def _levels(accelerator: Accelerator) -> int:
    return accelerator.block_in.bit_length() - 1


class DotProduct(wiring.Component):
    """``sums[b, o]`` = sum over k of ``inp[b, k] * wgt[o, k]``, a new one each cycle.

    Members: ``inp`` In, int8[batch, block_in]; ``wgt`` In, int8[block_out, block_in]; ``sums`` Out,
    signed[batch, block_out], ``product_cycles(accelerator)`` after its operands. The sums
    are exact.

    An input and the weights of two outputs make a pair of products, in one cell.
    """

    def __init__(self, accelerator: Accelerator, *, cell: ProductCell) -> None:
        self._accelerator = accelerator
        self._cell = cell
        row = data.ArrayLayout(signed(8), accelerator.block_in)
        sums = data.ArrayLayout(signed(16 + _levels(accelerator)), accelerator.block_out)
        super().__init__(
            {
                "inp": In(data.ArrayLayout(row, accelerator.batch)),
                "wgt": In(data.ArrayLayout(row, accelerator.block_out)),
                "sums": Out(data.ArrayLayout(sums, accelerator.batch)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        a = self._accelerator
        # The last output has no partner if there is an odd number of them, which is 1.
        outputs = range(0, a.block_out, 2)
        indices = [(b, o, k) for b in range(a.batch) for o in outputs for k in range(a.block_in)]
        m.submodules.pairs = pairs = ProductPairs(len(indices), self._cell)
        products: dict[tuple[int, int], list[Value]] = {}
        for n, (b, o, k) in enumerate(indices):
            m.d.comb += [pairs.w[n].eq(self.inp[b][k]), pairs.b[n].eq(self.wgt[o][k])]
            products.setdefault((b, o), []).append(pairs.lower[n])
            if o + 1 < a.block_out:
                m.d.comb += pairs.a[n].eq(self.wgt[o + 1][k])
                products.setdefault((b, o + 1), []).append(pairs.upper[n])
        for (b, o), terms in products.items():
            m.d.comb += self.sums[b][o].eq(_tree(m, terms, f"sum_{b}_{o}"))
        return m


def _tree(m: Module, terms: list[Value], name: str) -> Value:
    """Return the sum of terms, with a register after every few levels and after the last."""
    level = 0
    while len(terms) > 1:
        terms = [one + other for one, other in zip(terms[::2], terms[1::2], strict=True)]
        level += 1
        if level % _LEVELS_PER_CYCLE == 0 or len(terms) == 1:
            terms = _registers(m, terms, f"{name}_level_{level}")
    return terms[0]


def _registers(m: Module, values: list[Value], name: str) -> list[Value]:
    # One signal for all of them simulates faster than a signal for each.
    registers = Signal(data.ArrayLayout(values[0].shape(), len(values)), name=name)
    m.d.sync += registers.as_value().eq(Cat(values))
    return [registers[n] for n in range(len(values))]
