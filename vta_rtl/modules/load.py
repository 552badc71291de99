"""The module that loads inputs and weights."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.buffers.ports import write_port
from vta_rtl.dram.axi import ADDRESS_BITS, read_bus
from vta_rtl.dram.loader import Loader
from vta_rtl.isa.layouts import INSTRUCTION_BITS
from vta_rtl.modules.instruction_control import (
    InstructionControl,
    control_members,
    token_port,
)
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import MemoryType


class LoadModule(wiring.Component):
    """Runs the load queue's instructions.

    Members: ``command`` In, a stream of instructions; ``next`` Out, the token port to compute;
    ``bus``, a master that reads; ``inp`` and ``wgt``, write ports; ``inp_base`` and ``wgt_base``
    In, where ``dram_base`` counts from, in bytes; ``active``, ``waiting`` and ``abort``, those of
    :class:`~vta_rtl.modules.instruction_control.InstructionControl`.

    It has no neighbour before it: an instruction's tokens to and from there are ignored.

    Raises AcceleratorError if the bus does not fit the accelerator.
    """

    def __init__(self, accelerator: Accelerator, *, bus_bytes: int) -> None:
        self._loader = (accelerator, (MemoryType.INP, MemoryType.WGT), bus_bytes)
        super().__init__(
            {
                "command": In(stream.Signature(INSTRUCTION_BITS)),
                "next": Out(token_port()),
                **control_members(),
                "bus": Out(read_bus(bus_bytes)),
                "inp_base": In(ADDRESS_BITS),
                "wgt_base": In(ADDRESS_BITS),
                "inp": Out(write_port(8 * accelerator.inp_bytes, accelerator.inp_depth)),
                "wgt": Out(write_port(8 * accelerator.wgt_bytes, accelerator.wgt_depth)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        accelerator, kinds, bus_bytes = self._loader
        m.submodules.control = control = InstructionControl()
        for name in ("active", "waiting"):
            m.d.comb += getattr(self, name).eq(getattr(control, name))
        m.d.comb += control.abort.eq(self.abort)
        m.submodules.loader = loader = Loader(accelerator, kinds, bus_bytes=bus_bytes)
        wiring.connect(m, wiring.flipped(self.command), control.command)
        wiring.connect(m, control.next, wiring.flipped(self.next))
        for name in ("bus", "inp", "wgt"):
            wiring.connect(m, getattr(loader, name), wiring.flipped(getattr(self, name)))
        m.d.comb += [
            control.prev.pop_valid.eq(1),
            control.prev.push_ready.eq(1),
            loader.start.eq(control.start),
            loader.inp_base.eq(self.inp_base),
            loader.wgt_base.eq(self.wgt_base),
            loader.instruction.eq(self.command.payload),
            control.busy.eq(loader.busy),
        ]
        return m
