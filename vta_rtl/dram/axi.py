"""The AXI channels of the accelerator's masters, as streams.

Each channel of AXI4 is a stream of its payload. What never changes is left to the board's wrapper:
bursts increment (``AxBURST`` 1), beats are as wide as the bus (``AxSIZE``) and written whole
(``WSTRB``), all of a master's transfers have the same ID, so they are answered in order, and
``AxCACHE``, ``AxPROT``, ``AxLOCK``, ``AxQOS`` and ``AxUSER`` say what the board's port needs.

Source: AMBA AXI and ACE Protocol Specification, ARM IHI 0022, A3.
"""

from __future__ import annotations

from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from vta_stages.accelerator import Accelerator
from vta_stages.errors import AcceleratorError
from vta_stages.isa.instructions import INSTRUCTION_BYTES

ADDRESS_BITS = 32
"""An instruction's 32-bit element index reaches 4 GiB at most, as on the published bitstreams."""

BURST_BEATS = 16
"""The longest burst: that of AXI3, which the ports of a Zynq-7000 speak."""

BOUNDARY_BYTES = 4096
"""A burst must not cross a multiple of this (A3.4.1)."""

BUS_BYTES = (8, 16)
"""The ports of a Zynq-7000 have 8 bytes, those of a ZynqMP up to 16."""


def check_bus(accelerator: Accelerator, bus_bytes: int) -> None:
    """Raise AcceleratorError if a bus does not fit the accelerator's elements."""
    if bus_bytes not in BUS_BYTES:
        raise AcceleratorError(
            f"accelerator {accelerator.configuration}: a bus of {bus_bytes} bytes, expected "
            f"{' or '.join(str(known) for known in BUS_BYTES)}"
        )
    sizes = {
        "inp": accelerator.inp_bytes,
        "wgt": accelerator.wgt_bytes,
        "out": accelerator.out_bytes,
    }
    name = min(sizes, key=sizes.__getitem__)
    if sizes[name] < bus_bytes:
        raise AcceleratorError(
            f"accelerator {accelerator.configuration}: {name} elements of {sizes[name]} bytes, "
            f"expected at least the bus's {bus_bytes}",
            hint="choose larger blocks or a narrower bus",
        )


def burst_layout() -> data.StructLayout:
    """Return the payload of the address channels: ``address`` in bytes, beats - 1 in ``len``."""
    return data.StructLayout({"address": ADDRESS_BITS, "len": 8})


def read_bus(bus_bytes: int) -> wiring.Signature:
    """Return the channels of a master that reads: ``ar`` Out, ``r`` In."""
    answer = data.StructLayout({"data": 8 * bus_bytes, "resp": 2, "last": 1})
    return wiring.Signature(
        {"ar": Out(stream.Signature(burst_layout())), "r": In(stream.Signature(answer))}
    )


def write_bus(bus_bytes: int) -> wiring.Signature:
    """Return the channels of a master that writes: ``aw`` and ``w`` Out, ``b`` In.

    All bytes of a beat are written, so there are no strobes.
    """
    beat = data.StructLayout({"data": 8 * bus_bytes, "last": 1})
    return wiring.Signature(
        {
            "aw": Out(stream.Signature(burst_layout())),
            "w": Out(stream.Signature(beat)),
            "b": In(stream.Signature(data.StructLayout({"resp": 2}))),
        }
    )


def beats_of_instruction(bus_bytes: int) -> int:
    """Return the beats of an instruction on a bus of ``bus_bytes`` bytes."""
    return INSTRUCTION_BYTES // bus_bytes
