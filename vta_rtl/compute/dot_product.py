"""The products of a GEMM step and their sums."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vta_stages.accelerator import Accelerator

_LEVELS_PER_CYCLE = 2
"""Levels of an adder tree between two registers."""


def product_cycles(accelerator: Accelerator) -> int:
    """Return the cycles from the operands of a step to its sums."""
    return 1 + -(-_levels(accelerator) // _LEVELS_PER_CYCLE)


def _levels(accelerator: Accelerator) -> int:
    return accelerator.block_in.bit_length() - 1


class DotProduct(wiring.Component):
    """``sums[b, o]`` = sum over k of ``inp[b, k] * wgt[o, k]``, a new one each cycle.

    Members: ``inp`` In, int8[batch, block_in]; ``wgt`` In, int8[block_out, block_in]; ``sums`` Out,
    signed[batch, block_out], ``product_cycles(accelerator)`` after its operands. The sums
    are exact.

    One multiplication is one product here. Two in a DSP cell, which an FPGA of this size needs, do
    not exist yet.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
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
        for b in range(a.batch):
            for o in range(a.block_out):
                products = [self.inp[b][k] * self.wgt[o][k] for k in range(a.block_in)]
                m.d.comb += self.sums[b][o].eq(_tree(m, products, f"sum_{b}_{o}"))
        return m


def _tree(m: Module, products: list[Value], name: str) -> Value:
    """Return the sum of products, with registers after the products and between the levels."""
    terms, level = _registers(m, products, f"{name}_product"), 0
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
