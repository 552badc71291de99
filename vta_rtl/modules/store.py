"""The module that stores results."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.buffers.ports import read_port
from vta_rtl.dram.axi import ADDRESS_BITS, write_bus
from vta_rtl.dram.storer import Storer
from vta_rtl.isa.layouts import INSTRUCTION_BITS
from vta_rtl.modules.instruction_control import (
    InstructionControl,
    control_members,
    token_port,
)
from vta_stages.accelerator import Accelerator


class StoreModule(wiring.Component):
    """Runs the store queue's instructions.

    Members: ``command`` In, a stream of instructions; ``prev`` Out, the token port to compute;
    ``bus``, a master that writes; ``out``, a read port; ``out_base`` In, where ``dram_base`` counts
    from, in bytes; ``active``, ``waiting`` and ``abort``, those of
    :class:`~vta_rtl.modules.instruction_control.InstructionControl`.

    It has no neighbour after it: an instruction's tokens to and from there are ignored.

    Raises AcceleratorError if the bus does not fit the accelerator.
    """

    def __init__(self, accelerator: Accelerator, *, bus_bytes: int) -> None:
        self._accelerator = accelerator
        self._bus_bytes = bus_bytes
        super().__init__(
            {
                "command": In(stream.Signature(INSTRUCTION_BITS)),
                "prev": Out(token_port()),
                **control_members(),
                "bus": Out(write_bus(bus_bytes)),
                "out_base": In(ADDRESS_BITS),
                "out": Out(read_port(8 * accelerator.out_bytes, accelerator.out_depth)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        m.submodules.control = control = InstructionControl()
        for name in ("active", "waiting"):
            m.d.comb += getattr(self, name).eq(getattr(control, name))
        m.d.comb += control.abort.eq(self.abort)
        m.submodules.storer = storer = Storer(self._accelerator, bus_bytes=self._bus_bytes)
        wiring.connect(m, wiring.flipped(self.command), control.command)
        wiring.connect(m, control.prev, wiring.flipped(self.prev))
        for name in ("bus", "out"):
            wiring.connect(m, getattr(storer, name), wiring.flipped(getattr(self, name)))
        m.d.comb += [
            control.next.pop_valid.eq(1),
            control.next.push_ready.eq(1),
            storer.start.eq(control.start),
            storer.out_base.eq(self.out_base),
            storer.instruction.eq(self.command.payload),
            control.busy.eq(storer.busy),
        ]
        return m
