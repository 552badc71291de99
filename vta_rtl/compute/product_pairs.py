"""Two int8 products in one DSP cell."""

from __future__ import annotations

from enum import Enum

from amaranth.hdl import C, Cat, ClockSignal, Instance, Module, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

PAIR_CYCLES = 3
"""Cycles from the factors to their products: the cell's registers for factors, product and sum."""


class ProductCell(Enum):
    """What the products are made of."""

    BEHAVIOURAL = "behavioural"
    """Products that a simulator computes; synthesis takes one multiplier for each."""
    DSP48E1 = "dsp48e1"
    """The DSP cell of 7 series, such as Zynq-7000."""
    DSP48E2 = "dsp48e2"
    """The DSP cell of UltraScale+, such as Zynq UltraScale+ MPSoC."""


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
        first = self._cell is ProductCell.DSP48E1
        shift, port_bits = (16, 25) if first else (18, 27)
        shifted = Signal(signed(port_bits), name=f"shifted_{n}")
        total = Signal(48, name=f"total_{n}")
        m.d.comb += [
            shifted.eq(self.a[n] << shift),
            self.lower[n].eq(Cat(total[:15], ~total[shift - 1])),
            self.upper[n].eq(total[shift : shift + 16]),
        ]
        inputs = {
            "CLK": ClockSignal(),
            "A": _sign_extended(self.b[n], 30),
            "B": _sign_extended(self.w[n], 18),
            "C": C(1 << (shift - 1), 48),
            "D": shifted,
            "INMODE": C(0b00100, 5),  # D + A
            "OPMODE": C(0b0110101, 7 if first else 9),  # C + product
            "ALUMODE": C(0, 4),
            "CARRYINSEL": C(0, 3),
            **{name: C(1, 1) for name in _ENABLED},
            **{name: C(0, bits) for name, bits in _UNUSED_INPUTS.items()},
        }
        parameters = _REGISTERS | (_SECTIONS_E1 if first else _SECTIONS_E2)
        m.submodules[f"cell_{n}"] = Instance(
            self._cell.name,
            *(("p", name, value) for name, value in parameters.items()),
            *(("i", name, value) for name, value in inputs.items()),
            ("o", "P", total),
        )


_REGISTERS = {
    **dict.fromkeys(("AREG", "BREG", "DREG", "MREG", "PREG", "ACASCREG", "BCASCREG"), 1),
    **dict.fromkeys(("ADREG", "CREG", "ALUMODEREG", "CARRYINREG", "CARRYINSELREG"), 0),
    **dict.fromkeys(("INMODEREG", "OPMODEREG"), 0),
}
_SECTIONS_E1 = {"USE_DPORT": "TRUE", "USE_MULT": "MULTIPLY"}
_SECTIONS_E2 = {"AMULTSEL": "AD", "BMULTSEL": "B", "PREADDINSEL": "A", "USE_MULT": "MULTIPLY"}
_ENABLED = ("CEA2", "CEB2", "CED", "CEM", "CEP")
_UNUSED_INPUTS = {
    **{"ACIN": 30, "BCIN": 18, "PCIN": 48, "CARRYIN": 1, "CARRYCASCIN": 1, "MULTSIGNIN": 1},
    **dict.fromkeys(("CEA1", "CEB1", "CEAD", "CEC", "CEALUMODE", "CECARRYIN"), 1),
    **dict.fromkeys(("CECTRL", "CEINMODE", "RSTA", "RSTB", "RSTC", "RSTD", "RSTM", "RSTP"), 1),
    **dict.fromkeys(("RSTALLCARRYIN", "RSTALUMODE", "RSTCTRL", "RSTINMODE"), 1),
}


def _sign_extended(value: Value, bits: int) -> Value:
    return Cat(value, value[-1].replicate(bits - len(value)))
