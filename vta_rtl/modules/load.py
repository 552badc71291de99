"""The module that loads inputs and weights."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.buffers.ports import write_port
from vta_rtl.dram.axi import ADDRESS_BITS, read_bus
from vta_rtl.dram.loader import Loader
from vta_rtl.isa.layouts import INSTRUCTION_BITS, instruction_layout, whole_field
from vta_rtl.modules.instruction_control import control_members, token_port
from vta_rtl.modules.overlapped_control import OverlappedControl
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import MemoryType, Opcode

_BUSES = {MemoryType.INP: "bus", MemoryType.WGT: "weight_bus"}


class LoadModule(wiring.Component):
    """Runs the load queue's instructions: a LOAD of inputs and one of weights at the same time.

    Members: ``command`` In, a stream of instructions; ``next`` Out, the token port to compute;
    ``bus`` and ``weight_bus``, masters that read, for inputs and for weights; ``inp`` and ``wgt``,
    write ports; ``inp_base`` and ``wgt_base`` In, where ``dram_base`` counts from, in bytes;
    ``active``, ``waiting`` and ``abort``, those of
    :class:`~vta_rtl.modules.overlapped_control.OverlappedControl`.

    It has no neighbour before it: an instruction's tokens to and from there are ignored.

    Raises AcceleratorError if the bus does not fit the accelerator.
    """

    def __init__(self, accelerator: Accelerator, *, bus_bytes: int) -> None:
        self._accelerator = accelerator
        self._loaders = {kind: Loader(accelerator, (kind,), bus_bytes=bus_bytes) for kind in _BUSES}
        super().__init__(
            {
                "command": In(stream.Signature(INSTRUCTION_BITS)),
                "next": Out(token_port()),
                **control_members(),
                **{name: Out(read_bus(bus_bytes)) for name in _BUSES.values()},
                "inp_base": In(ADDRESS_BITS),
                "wgt_base": In(ADDRESS_BITS),
                "inp": Out(write_port(8 * accelerator.inp_bytes, accelerator.inp_depth)),
                "wgt": Out(write_port(8 * accelerator.wgt_bytes, accelerator.wgt_depth)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        names = {kind: kind.name.lower() for kind in self._loaders}
        m.submodules.control = control = OverlappedControl(tuple(names.values()))
        wiring.connect(m, wiring.flipped(self.command), control.command)
        wiring.connect(m, control.next, wiring.flipped(self.next))
        load = data.View(instruction_layout(self._accelerator, Opcode.LOAD), self.command.payload)
        m.d.comb += [
            control.unit.eq(whole_field(load, "memory_type") == MemoryType.WGT),
            control.abort.eq(self.abort),
            self.active.eq(control.active),
            self.waiting.eq(control.waiting),
        ]
        for kind, loader in self._loaders.items():
            name = names[kind]
            m.submodules[f"{name}_loader"] = loader
            unit = getattr(control, name)
            m.d.comb += [
                loader.start.eq(unit.start),
                loader.instruction.eq(unit.instruction),
                unit.busy.eq(loader.busy),
                getattr(loader, f"{name}_base").eq(getattr(self, f"{name}_base")),
            ]
            wiring.connect(m, getattr(loader, name), wiring.flipped(getattr(self, name)))
            wiring.connect(m, loader.bus, wiring.flipped(getattr(self, _BUSES[kind])))
        return m
