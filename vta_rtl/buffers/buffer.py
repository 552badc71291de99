"""One of the accelerator's on-chip buffers."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In

from vta_rtl.buffers.ports import read_port, write_port
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import MemoryType, buffer_depth, element_bytes


class Buffer(wiring.Component):
    """A memory of elements with one write port and ``readers`` read ports, all of which can be used
    in every cycle.

    Members: ``write`` and ``read_0``, ``read_1``, ... (:mod:`vta_rtl.buffers.ports`). A read in the
    cycle of a write to the same element gives the old element. ``rows`` are the elements, for a
    simulator to set and get. Synthesis stores the buffer once per read port.
    """

    def __init__(self, accelerator: Accelerator, kind: MemoryType, *, readers: int = 1) -> None:
        bits, depth = 8 * element_bytes(accelerator, kind), buffer_depth(accelerator, kind)
        self._bits = bits
        self._readers = readers
        self.rows = memory.MemoryData(shape=bits, depth=depth, init=[])
        reads = {f"read_{n}": In(read_port(bits, depth)) for n in range(readers)}
        super().__init__({"write": In(write_port(bits, depth)), **reads})

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
        for n in range(self._readers):
            port = getattr(self, f"read_{n}")
            read = rows.read_port()
            output_register = Signal(self._bits, name=f"output_register_{n}")
            m.d.comb += [read.addr.eq(port.address), port.data.eq(output_register)]
            m.d.sync += output_register.eq(read.data)
        return m
