"""The DSP cell of an FPGA, and what stands for it in simulation."""

from __future__ import annotations

from enum import Enum

from amaranth.hdl import C, Cat, ClockSignal, Instance, Value


class ProductCell(Enum):
    """What the products are made of."""

    BEHAVIOURAL = "behavioural"
    """Products that a simulator computes; synthesis takes one multiplier for each."""
    DSP48E1 = "dsp48e1"
    """The DSP cell of 7 series, such as Zynq-7000."""
    DSP48E2 = "dsp48e2"
    """The DSP cell of UltraScale+, such as Zynq UltraScale+ MPSoC."""


def dsp_cell(
    cell: ProductCell,
    *,
    a: Value,
    b: Value,
    p: Value,
    before: tuple[Value, int] | None = None,
) -> Instance:
    """Return an FPGA's cell with ``p = a * b``, signed and without a register.

    With ``before``, a value d and a constant c, it is ``p = (d + a) * b + c``, and factors, product
    and sum have a register each. ``p`` has 48 bits, ``b`` at most 18; ``a`` and ``d`` have no more
    bits than :func:`port_bits`.
    """
    first = cell is ProductCell.DSP48E1
    adds = before is not None
    d, c = before or (C(0, port_bits(cell)), 0)
    inputs = {
        "CLK": ClockSignal() if adds else C(0, 1),
        "A": _sign_extended(a, 30),
        "B": _sign_extended(b, 18),
        "C": C(c, 48),
        "D": d,
        "INMODE": C(0b00100 if adds else 0, 5),  # D + A, or A
        "OPMODE": C(0b0110101 if adds else 0b0000101, 7 if first else 9),  # C + product, or product
        "ALUMODE": C(0, 4),
        "CARRYINSEL": C(0, 3),
        **{name: C(1, 1) for name in _ENABLED},
        **{name: C(0, bits) for name, bits in _UNUSED_INPUTS.items()},
    }
    sections = {"USE_DPORT": "TRUE" if adds else "FALSE"}
    if not first:
        sections = {"AMULTSEL": "AD" if adds else "A", "BMULTSEL": "B", "PREADDINSEL": "A"}
    parameters = {
        **dict.fromkeys(_REGISTERS, int(adds)),
        **dict.fromkeys(_NO_REGISTERS, 0),
        **sections,
        "USE_MULT": "MULTIPLY",
    }
    return Instance(
        cell.name,
        *(("p", name, value) for name, value in parameters.items()),
        *(("i", name, value) for name, value in inputs.items()),
        ("o", "P", p),
    )


def port_bits(cell: ProductCell) -> int:
    """Return the bits of the multiplier's wider factor."""
    return 25 if cell is ProductCell.DSP48E1 else 27


_REGISTERS = ("AREG", "BREG", "DREG", "MREG", "PREG", "ACASCREG", "BCASCREG")
_NO_REGISTERS = (
    *("ADREG", "CREG", "ALUMODEREG", "CARRYINREG", "CARRYINSELREG", "INMODEREG", "OPMODEREG"),
)
_ENABLED = ("CEA2", "CEB2", "CED", "CEM", "CEP")
_UNUSED_INPUTS = {
    **{"ACIN": 30, "BCIN": 18, "PCIN": 48, "CARRYIN": 1, "CARRYCASCIN": 1, "MULTSIGNIN": 1},
    **dict.fromkeys(("CEA1", "CEB1", "CEAD", "CEC", "CEALUMODE", "CECARRYIN"), 1),
    **dict.fromkeys(("CECTRL", "CEINMODE", "RSTA", "RSTB", "RSTC", "RSTD", "RSTM", "RSTP"), 1),
    **dict.fromkeys(("RSTALLCARRYIN", "RSTALUMODE", "RSTCTRL", "RSTINMODE"), 1),
}


def _sign_extended(value: Value, bits: int) -> Value:
    return Cat(value, value[-1].replicate(bits - len(value)))
