"""The module that reads instructions and hands them out."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.dram.axi import ADDRESS_BITS, beats_of_instruction, check_bus, read_bus
from vta_rtl.dram.burst_planner import BurstPlanner
from vta_rtl.dram.elements import ElementGatherer
from vta_rtl.isa.layouts import INSTRUCTION_BITS
from vta_rtl.isa.router import InstructionRouter
from vta_stages.accelerator import Accelerator
from vta_stages.isa import instructions as isa

COUNT_BITS = 32


class Fetch(wiring.Component):
    """Reads ``count`` instructions from ``address`` in order, each to the queue of its module.

    Members: ``start`` In(1), for one cycle, with ``address`` In, in bytes and a multiple of 16, and
    ``count`` In; ``bus``, a master that reads; ``load``, ``compute`` and ``store`` Out, streams of
    instructions. A queue that is full delays what follows for the others, too.

    Raises AcceleratorError if the bus does not fit the accelerator.
    """

    def __init__(self, accelerator: Accelerator, *, bus_bytes: int) -> None:
        check_bus(accelerator, bus_bytes)
        self._accelerator = accelerator
        self._bus_bytes = bus_bytes
        queue = Out(stream.Signature(INSTRUCTION_BITS))
        super().__init__(
            {
                "start": In(1),
                "address": In(ADDRESS_BITS),
                "count": In(COUNT_BITS),
                "bus": Out(read_bus(bus_bytes)),
                **{module.name.lower(): queue for module in isa.Module},
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        m.submodules.planner = planner = BurstPlanner(self._bus_bytes)
        wiring.connect(m, planner.bursts, wiring.flipped(self.bus.ar))
        m.submodules.gatherer = gatherer = ElementGatherer(isa.INSTRUCTION_BYTES, self._bus_bytes)
        m.submodules.router = router = InstructionRouter(self._accelerator)
        m.d.comb += [
            planner.start.eq(self.start),
            planner.address.eq(self.address),
            planner.rows.eq(1),
            planner.row_beats.eq(self.count * beats_of_instruction(self._bus_bytes)),
            gatherer.beat.valid.eq(self.bus.r.valid),
            gatherer.beat.payload.eq(self.bus.r.payload.data),
            self.bus.r.ready.eq(gatherer.beat.ready),
        ]
        instruction = Signal(INSTRUCTION_BITS)
        held = Signal()
        m.d.comb += [router.instruction.eq(instruction), gatherer.element.ready.eq(~held)]
        with m.If(gatherer.element.valid & ~held):
            m.d.sync += [instruction.eq(gatherer.element.payload), held.eq(1)]
        for module in isa.Module:
            queue = getattr(self, module.name.lower())
            m.d.comb += queue.payload.eq(instruction)
            with m.If(held & (router.module == module)):
                m.d.comb += queue.valid.eq(1)
                with m.If(queue.ready):
                    m.d.sync += held.eq(0)
        return m
