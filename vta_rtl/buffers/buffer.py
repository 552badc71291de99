"""One of the accelerator's on-chip buffers."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In

from vta_rtl.buffers.ports import read_port, write_port
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import MemoryType, buffer_depth, element_bytes


class Buffer(wiring.Component):
    """A memory of elements with a write port and a read port, both for every cycle.

    Members: ``write`` and ``read`` (:mod:`vta_rtl.buffers.ports`). A read in the cycle of a write
    to the same element gives the old element. ``rows`` are the elements, for a simulator to set
    and get.
    """

    def __init__(self, accelerator: Accelerator, kind: MemoryType) -> None:
        bits, depth = 8 * element_bytes(accelerator, kind), buffer_depth(accelerator, kind)
        self._bits = bits
        self.rows = memory.MemoryData(shape=bits, depth=depth, init=[])
        super().__init__({"write": In(write_port(bits, depth)), "read": In(read_port(bits, depth))})

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        m.submodules.memory = rows = memory.Memory(self.rows)
        write = rows.write_port()
        m.d.comb += [
            write.en.eq(self.write.enable),
            write.addr.eq(self.write.address),
            write.data.eq(self.write.data),
        ]
        read = rows.read_port()
        output_register = Signal(self._bits)
        m.d.comb += [read.addr.eq(self.read.address), self.read.data.eq(output_register)]
        m.d.sync += output_register.eq(read.data)
        return m
