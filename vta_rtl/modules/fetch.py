"""The module that reads instructions and hands them out."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from vta_rtl.dram.axi import (
    ADDRESS_BITS,
    BURST_BEATS,
    beats_of_instruction,
    check_bus,
    read_bus,
)
from vta_rtl.dram.burst_planner import BurstPlanner
from vta_rtl.dram.elements import ElementGatherer
from vta_rtl.isa.layouts import INSTRUCTION_BITS
from vta_rtl.isa.router import InstructionRouter
from vta_stages.accelerator import Accelerator
from vta_stages.isa import instructions as isa

COUNT_BITS = 32
_BEATS = 2 * BURST_BEATS
"""Room for beats: one burst is handed out while the next is on its way."""


class Fetch(wiring.Component):
    """Reads ``count`` instructions from ``address`` in order, each to the queue of its module.

    Members: ``start`` In(1), for one cycle in which ``busy`` Out(1) is 0, with ``address`` In, in
    bytes and a multiple of 16, and ``count`` In; ``bus``, a master that reads; ``load``,
    ``compute`` and ``store`` Out, streams of instructions. A queue that is full delays what follows
    for the others, too, and ``stalled`` Out(1) is 1. With ``stop`` In(1) it soon asks for no more,
    and hands out what it has asked for.

    Only what finds room here is asked for, so answers never wait for a queue: on a port that
    answers several masters in order, an instruction's data may be behind them.

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
                "busy": Out(1),
                "stop": In(1),
                "stalled": Out(1),
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
        m.submodules.beats = beats = SyncFIFOBuffered(width=8 * self._bus_bytes, depth=_BEATS)
        asked = Signal(range(_BEATS + 1))  # for these there is room, until they leave it
        asks, leaves, may_ask = Signal(), Signal(), Signal()
        m.d.comb += [
            may_ask.eq(asked <= _BEATS - BURST_BEATS),
            self.bus.ar.valid.eq(planner.bursts.valid & may_ask),
            self.bus.ar.payload.eq(planner.bursts.payload),
            planner.bursts.ready.eq(self.bus.ar.ready & may_ask),
            asks.eq(self.bus.ar.valid & self.bus.ar.ready),
            leaves.eq(beats.r_rdy & beats.r_en),
        ]
        m.d.sync += asked.eq(asked + Mux(asks, planner.bursts.payload.len + 1, 0) - leaves)
        m.submodules.gatherer = gatherer = ElementGatherer(isa.INSTRUCTION_BYTES, self._bus_bytes)
        m.submodules.router = router = InstructionRouter(self._accelerator)
        m.d.comb += [
            planner.start.eq(self.start),
            planner.stop.eq(self.stop),
            planner.address.eq(self.address),
            planner.rows.eq(1),
            planner.row_beats.eq(self.count * beats_of_instruction(self._bus_bytes)),
            beats.w_en.eq(self.bus.r.valid),
            beats.w_data.eq(self.bus.r.payload.data),
            self.bus.r.ready.eq(beats.w_rdy),
            gatherer.beat.valid.eq(beats.r_rdy),
            gatherer.beat.payload.eq(beats.r_data),
            beats.r_en.eq(gatherer.beat.ready),
        ]
        instruction = Signal(INSTRUCTION_BITS)
        held = Signal()
        m.d.comb += [
            router.instruction.eq(instruction),
            gatherer.element.ready.eq(~held),
            # An instruction's first beats have left `beats`, but its last one is still asked for.
            self.busy.eq(planner.busy | (asked != 0) | held),
        ]
        with m.If(gatherer.element.valid & ~held):
            m.d.sync += [instruction.eq(gatherer.element.payload), held.eq(1)]
        m.d.comb += self.stalled.eq(held)
        for module in isa.Module:
            queue = getattr(self, module.name.lower())
            m.d.comb += queue.payload.eq(instruction)
            with m.If(held & (router.module == module)):
                m.d.comb += queue.valid.eq(1)
                with m.If(queue.ready):
                    m.d.sync += held.eq(0)
                    m.d.comb += self.stalled.eq(0)
        return m
