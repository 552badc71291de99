"""Two int8 products in one DSP cell."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.compute.dsp_cell import ProductCell, dsp_cell, port_bits

PAIR_CYCLES = 3
"""Cycles from the factors to their products: the cell's registers for factors, product and sum."""


class ProductPairs(wiring.Component):
    """``upper[n] = a[n] * w[n]`` and ``lower[n] = b[n] * w[n]``, new ones each cycle.

    Members: ``a``, ``b`` and ``w`` In, int8[pairs]; ``upper`` and ``lower`` Out, int16[pairs],
    ``PAIR_CYCLES`` after their factors.

    A DSP cell multiplies ``(a << shift) + b``, which its pre-adder makes, by ``w``, and adds half
    of the lower field, ``1 << (shift - 1)``. The lower product is then never negative in its
    field and takes nothing from the upper one, and its sign bit is the opposite of the field's
    top bit. ``shift`` is 16 where the multiplier's port has 25 bits, and 18 where it has 27.
    """

    def __init__(self, pairs: int, cell: ProductCell) -> None:
        self._pairs = pairs
        self._cell = cell
        factors = data.ArrayLayout(signed(8), pairs)
        products = data.ArrayLayout(signed(16), pairs)
        super().__init__(
            {
                "a": In(factors),
                "b": In(factors),
                "w": In(factors),
                "upper": Out(products),
                "lower": Out(products),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        if self._cell is ProductCell.BEHAVIOURAL:
            self._behaviour(m)
        else:
            for n in range(self._pairs):
                self._instance(m, n)
        return m

    def _behaviour(self, m: Module) -> None:
        # One signal for all pairs simulates faster than a signal for each.
        factors = [Signal.like(self.a, name=f"{name}_register") for name in "abw"]
        for register, value in zip(factors, (self.a, self.b, self.w), strict=True):
            m.d.sync += register.eq(value)
        a, b, w = factors
        for name, factor, result in (("upper", a, self.upper), ("lower", b, self.lower)):
            product = Signal.like(result, name=f"{name}_product")
            products = [(factor[n] * w[n])[:16] for n in range(self._pairs)]
            m.d.sync += [product.as_value().eq(Cat(products)), result.eq(product)]

    def _instance(self, m: Module, n: int) -> None:
        shift = 16 if self._cell is ProductCell.DSP48E1 else 18
        shifted = Signal(signed(port_bits(self._cell)), name=f"shifted_{n}")
        total = Signal(48, name=f"total_{n}")
        m.d.comb += [
            shifted.eq(self.a[n] << shift),
            self.lower[n].eq(Cat(total[:15], ~total[shift - 1])),
            self.upper[n].eq(total[shift : shift + 16]),
        ]
        m.submodules[f"cell_{n}"] = dsp_cell(
            self._cell,
            a=self.b[n],
            b=self.w[n],
            p=total,
            before=(shifted, 1 << (shift - 1)),
        )
