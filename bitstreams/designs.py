"""What a bitstream of our own is on each board: FPGA, clock, bus, addresses, interrupt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from vta_rtl.compute.dsp_cell import ProductCell


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A board's design.

    ``board`` names the board's file, ``part`` the FPGA as Vivado spells it. ``clock_hz`` is an
    estimate of what tools reach, which nobody has tried. ``registers_base`` is where the board's
    overlay expects the registers, ``interrupt`` the number of the shared interrupt (SPI).
    """

    board: str
    part: str
    cell: ProductCell
    bus_bytes: int
    clock_hz: int
    registers_base: int
    interrupt: int


def _zynqmp(board: str, part: str) -> Design:
    return Design(
        board=board,
        part=part,
        cell=ProductCell.DSP48E2,
        bus_bytes=16,
        clock_hz=200_000_000,
        registers_base=0xA000_0000,
        interrupt=89,
    )


def _zynq7(cell: ProductCell, clock_hz: int) -> Design:
    return Design(
        board="pynq-z2",
        part="xc7z020clg400-1",
        cell=cell,
        bus_bytes=8,
        clock_hz=clock_hz,
        registers_base=0x43C0_0000,
        interrupt=29,
    )


DESIGNS: Mapping[str, Design] = MappingProxyType(
    {
        "ultra96": _zynqmp("ultra96", "xczu3eg-sbva484-1-e"),
        "kv260": _zynqmp("kv260", "xck26-sfvc784-2LV-c"),
        "zcu104": _zynqmp("zcu104", "xczu7ev-ffvc1156-2-e"),
        "pynq-z2": _zynq7(ProductCell.DSP48E1, 100_000_000),
        # openXC7 leaves constants of DSP cells out, so its design has its products in LUTs.
        "pynq-z2-openxc7": _zynq7(ProductCell.BEHAVIOURAL, 50_000_000),
    }
)

REFERENCE_CLOCK_HZ = 100_000_000
"""The clock that boot code gives the FPGA (FCLK0, PL0), from which designs make theirs."""
