"""STORE instructions."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from vta_rtl.buffers.ports import READ_CYCLES, read_port
from vta_rtl.dram.axi import ADDRESS_BITS, burst_layout, check_bus, write_bus
from vta_rtl.dram.burst_planner import BurstPlanner
from vta_rtl.isa.layouts import INSTRUCTION_BITS, instruction_layout
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import Opcode

_BUFFERED_ELEMENTS = 8
_BURSTS_IN_FLIGHT = 16
_WAITING_ADDRESSES = 2
_MOST_COLUMNS = (1 << 16) - 1


class Storer(wiring.Component):
    """Runs one STORE at a time.

    Members: ``start`` In(1), for one cycle in which ``busy`` Out(1) is 0; ``instruction`` In(128),
    which the caller holds until ``busy`` is 0 again; ``bus``, a master that writes; ``out``, a read
    port of the out buffer; ``out_base`` In, the byte address that ``dram_base`` counts from, a
    multiple of an element.

    Addresses of bursts do not wait for their data or for answers, up to ``_BURSTS_IN_FLIGHT`` of
    them, and data do not wait for their address: a slave may take either first (A3.3.1). ``busy``
    stays 1 until every burst is answered, so what is in DRAM then includes it.

    Raises AcceleratorError if the bus is wider than an out element.
    """

    def __init__(self, accelerator: Accelerator, *, bus_bytes: int) -> None:
        check_bus(accelerator, bus_bytes)
        self._accelerator = accelerator
        self._bus_bytes = bus_bytes
        super().__init__(
            {
                "start": In(1),
                "instruction": In(INSTRUCTION_BITS),
                "busy": Out(1),
                "bus": Out(write_bus(bus_bytes)),
                "out": Out(read_port(8 * accelerator.out_bytes, accelerator.out_depth)),
                "out_base": In(ADDRESS_BITS),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        store = data.View(instruction_layout(self._accelerator, Opcode.STORE), self.instruction)
        out_bytes, bus_bytes = self._accelerator.out_bytes, self._bus_bytes
        row_bits = (_MOST_COLUMNS * (out_bytes // bus_bytes)).bit_length()
        m.submodules.planner = planner = BurstPlanner(bus_bytes, row_beats_bits=row_bits)
        m.d.comb += [
            planner.start.eq(self.start),
            planner.address.eq(self.out_base + store.dram_base * out_bytes),
            planner.row_beats.eq(store.x_size * (out_bytes // bus_bytes)),
            planner.rows.eq(store.y_size),
            planner.row_step_bytes.eq(store.x_stride * out_bytes),
        ]
        lengths, unanswered = self._addresses(m, planner)
        elements, reading = self._elements(m, store)

        # Elements to beats; the planned lengths say which beat ends its burst.
        beats_per_element = out_bytes // bus_bytes
        part = Signal(range(max(2, beats_per_element)))
        beat = Signal(8)
        parts = data.View(data.ArrayLayout(8 * bus_bytes, beats_per_element), elements.r_data)
        ends_burst = beat == lengths.r_data
        sent = self.bus.w.valid & self.bus.w.ready
        m.d.comb += [
            self.bus.w.valid.eq(elements.r_rdy & lengths.r_rdy),
            self.bus.w.payload.data.eq(parts[part] if beats_per_element > 1 else parts[0]),
            self.bus.w.payload.last.eq(ends_burst),
            elements.r_en.eq(sent & (part == beats_per_element - 1)),
            lengths.r_en.eq(sent & ends_burst),
        ]
        with m.If(sent):
            m.d.sync += [part.eq(part + 1), beat.eq(beat + 1)]
            with m.If(part == beats_per_element - 1):
                m.d.sync += part.eq(0)
            with m.If(ends_burst):
                m.d.sync += beat.eq(0)
        m.d.comb += self.busy.eq(planner.busy | reading | elements.r_rdy | (unanswered != 0))
        return m

    def _addresses(self, m: Module, planner: BurstPlanner) -> tuple[SyncFIFOBuffered, Signal]:
        """Send planned bursts; return their lengths, and how many bursts have no answer yet."""
        m.submodules.lengths = lengths = SyncFIFOBuffered(width=8, depth=_BURSTS_IN_FLIGHT)
        m.submodules.addresses = addresses = SyncFIFOBuffered(
            width=burst_layout().size, depth=_WAITING_ADDRESSES
        )
        unanswered = Signal(range(_BURSTS_IN_FLIGHT + 1))
        planned, answered = Signal(), Signal()
        m.d.comb += [
            planner.bursts.ready.eq(
                lengths.w_rdy & addresses.w_rdy & (unanswered != _BURSTS_IN_FLIGHT)
            ),
            planned.eq(planner.bursts.valid & planner.bursts.ready),
            lengths.w_en.eq(planned),
            lengths.w_data.eq(planner.bursts.payload.len),
            addresses.w_en.eq(planned),
            addresses.w_data.eq(planner.bursts.payload),
            self.bus.aw.valid.eq(addresses.r_rdy),
            self.bus.aw.payload.eq(addresses.r_data),
            addresses.r_en.eq(self.bus.aw.ready),
            self.bus.b.ready.eq(1),
            answered.eq(self.bus.b.valid),
        ]
        m.d.sync += unanswered.eq(unanswered + planned - answered)
        return lengths, unanswered

    def _elements(self, m: Module, store: data.View) -> tuple[SyncFIFOBuffered, Signal]:
        """Read the out buffer ahead; return the elements, and whether there are more to come."""
        m.submodules.elements = elements = SyncFIFOBuffered(
            width=8 * self._accelerator.out_bytes, depth=_BUFFERED_ELEMENTS
        )
        running, x, y, address = Signal(), Signal(16), Signal(16), Signal(16)
        # A read may only start if its element will find room: count those on their way, too.
        read = Signal()
        on_their_way = [read]
        for cycle in range(READ_CYCLES):
            arriving = Signal(name=f"arriving_{cycle}")
            m.d.sync += arriving.eq(on_their_way[-1])
            on_their_way.append(arriving)
        room = elements.w_level + sum(on_their_way[1:]) < _BUFFERED_ELEMENTS
        m.d.comb += [
            read.eq(running & room),
            self.out.address.eq(address),
            elements.w_en.eq(on_their_way[-1]),
            elements.w_data.eq(self.out.data),
        ]
        with m.If(self.start & (store.x_size != 0) & (store.y_size != 0)):
            m.d.sync += [running.eq(1), x.eq(1), y.eq(1), address.eq(store.sram_base)]
        with m.Elif(read):
            m.d.sync += [address.eq(address + 1), x.eq(x + 1)]
            with m.If(x == store.x_size):
                m.d.sync += [x.eq(1), y.eq(y + 1), running.eq(y != store.y_size)]
        reading = Signal()
        m.d.comb += reading.eq(running | (sum(on_their_way[1:]) != 0) | (elements.w_level != 0))
        return elements, reading
