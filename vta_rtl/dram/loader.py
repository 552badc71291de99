"""LOAD instructions of the memory types that share a bus."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from vta_rtl.buffers.ports import write_port
from vta_rtl.buffers.uop_buffer import uop_write_port, uops_at_once
from vta_rtl.dram.axi import ADDRESS_BITS, check_bus, read_bus
from vta_rtl.dram.burst_planner import BurstPlanner
from vta_rtl.dram.elements import ElementGatherer, ElementSplitter
from vta_rtl.isa.layouts import INSTRUCTION_BITS, instruction_layout, whole_field
from vta_stages.accelerator import Accelerator, Extension
from vta_stages.isa.instructions import (
    PAD_UNIT,
    SINGLE_ROW,
    MemoryType,
    Opcode,
    buffer_depth,
    element_bytes,
    honours_pads,
)

_MOST_COLUMNS = (1 << 16) - 1


class Loader(wiring.Component):
    """Runs one LOAD at a time, of one of a few memory types.

    Members: ``start`` In(1), for one cycle in which ``busy`` Out(1) is 0; ``instruction`` In(128),
    which the caller holds until ``busy`` is 0 again; ``bus``, a master that reads; a write port for
    each memory type, called ``uop``, ``wgt``, ``inp``, ``acc``, ``acc8`` or ``table``, and
    ``uop_base`` and so on In, the byte address that its ``dram_base`` counts from, a multiple of
    its element and of the bus.

    Requests of bursts do not wait for data, so the memory's latency shows once in an instruction.
    Elements of pads are written, one a cycle, without a request; they hold zeros, or
    what the instruction says if the accelerator has PAD_VALUE. Which pads count is in
    :func:`~vta_stages.isa.instructions.honours_pads`; loads of UOP and TABLE are a single row. A
    LOAD of any other memory type does nothing.

    Raises AcceleratorError if the bus is wider than an input element.
    """

    def __init__(
        self, accelerator: Accelerator, kinds: tuple[MemoryType, ...], *, bus_bytes: int
    ) -> None:
        check_bus(accelerator, bus_bytes)
        self._accelerator = accelerator
        self._kinds = kinds
        self._bus_bytes = bus_bytes
        ports = {kind.name.lower(): Out(self._port(kind)) for kind in kinds}
        bases = {f"{kind.name.lower()}_base": In(ADDRESS_BITS) for kind in kinds}
        super().__init__(
            {
                "start": In(1),
                "instruction": In(INSTRUCTION_BITS),
                "busy": Out(1),
                "bus": Out(read_bus(bus_bytes)),
                **ports,
                **bases,
            }
        )

    def _port(self, kind: MemoryType) -> wiring.Signature:
        a = self._accelerator
        if kind is MemoryType.UOP:
            return uop_write_port(a, uops_at_once(a, self._bus_bytes))
        return write_port(8 * element_bytes(a, kind), buffer_depth(a, kind))

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        load = data.View(instruction_layout(self._accelerator, Opcode.LOAD), self.instruction)
        m.submodules.planner = planner = BurstPlanner(
            self._bus_bytes, row_beats_bits=self._row_beats_bits()
        )
        wiring.connect(m, planner.bursts, wiring.flipped(self.bus.ar))

        # The rectangle that is written: rows of elements, with pads around them.
        pads = {name: Signal(4, name=name) for name in ("y_0", "y_1", "x_0", "x_1")}
        rows = Signal(16)
        start = Signal()
        m.d.comb += [planner.start.eq(start), planner.rows.eq(rows)]
        columns_end, rows_end = Signal(17), Signal(17)
        width, height = Signal(17), Signal(17)
        m.d.comb += [
            columns_end.eq(pads["x_0"] + load.x_size),
            rows_end.eq(pads["y_0"] + rows),
            width.eq(columns_end + pads["x_1"]),
            height.eq(rows_end + pads["y_1"]),
        ]
        running, x, y = Signal(), Signal(17), Signal(17)
        next_x, next_y = Signal(17), Signal(17)
        # All kinds but uops write an element at a time.
        count = Signal(range(self._bus_bytes + 1), init=1)
        m.d.comb += [count.eq(1), next_x.eq(x + count), next_y.eq(y + 1)]
        address = Signal(16)
        in_rows = (y >= pads["y_0"]) & (y < rows_end)
        in_columns = (x >= pads["x_0"]) & (x < columns_end)
        is_data = in_rows & in_columns
        ends_row = next_x == width
        is_last = ends_row & (next_y == height)
        has_element, taken = Signal(), Signal()
        m.d.comb += [self.busy.eq(running), taken.eq(running & (has_element | ~is_data))]
        with m.If(start & (width != 0) & (height != 0)):
            m.d.sync += [running.eq(1), x.eq(0), y.eq(0), address.eq(load.sram_base)]
        with m.Elif(taken):
            m.d.sync += [address.eq(address + count), x.eq(next_x), running.eq(~is_last)]
            with m.If(ends_row):
                m.d.sync += [x.eq(0), y.eq(next_y)]

        base, offset = Signal(ADDRESS_BITS), Signal(ADDRESS_BITS)
        bus_bytes = self._bus_bytes
        m.d.comb += [
            planner.address.eq((base + offset) // bus_bytes * bus_bytes),
            rows.eq(load.y_size),
        ]
        memory = whole_field(load, "memory_type")
        for kind in self._kinds:
            with m.If(memory == kind):
                m.d.comb += [
                    start.eq(self.start),
                    base.eq(getattr(self, f"{kind.name.lower()}_base")),
                    offset.eq(load.dram_base * element_bytes(self._accelerator, kind)),
                ]
                if honours_pads(self._accelerator, kind):
                    m.d.comb += [
                        pad.eq(getattr(load, f"{name[0]}_pad_{name[2]}"))
                        for name, pad in pads.items()
                    ]
                elements = self._elements(m, kind, planner, load, is_last)
                m.d.comb += [
                    elements.beat.valid.eq(self.bus.r.valid),
                    elements.beat.payload.eq(self.bus.r.payload.data),
                    self.bus.r.ready.eq(elements.beat.ready),
                    # Not `taken`: a port's ready must not wait for its own valid in this cycle.
                    elements.element.ready.eq(running & is_data),
                    has_element.eq(elements.element.valid),
                ]
                if kind in SINGLE_ROW:
                    m.d.comb += rows.eq(1)
                if kind is MemoryType.UOP:
                    self._write_uops(m, elements, load, address, width - x, count, taken)
                    continue
                port = getattr(self, kind.name.lower())
                m.d.comb += port.enable.eq(taken)
            # Pads take a gate for each bit, so only where there are pads.
            if honours_pads(self._accelerator, kind):
                pad = self._pad(load, kind)
                m.d.comb += port.data.eq(Mux(is_data, elements.element.payload, pad))
            else:
                m.d.comb += port.data.eq(elements.element.payload)
            m.d.comb += port.address.eq(address)
        return m

    def _pad(self, load: data.View, kind: MemoryType) -> Value:
        """Return an element of pads."""
        if not self._accelerator.has(Extension.PAD_VALUE):
            return Const(0)
        bits = 32 if kind is MemoryType.ACC else 8
        lane = (load.pad_value * PAD_UNIT).as_unsigned()
        lane = Cat(lane, lane[-1].replicate(bits))[:bits]
        return lane.replicate(8 * element_bytes(self._accelerator, kind) // bits)

    def _write_uops(
        self,
        m: Module,
        elements: ElementSplitter,
        load: data.View,
        address: Value,
        left: Value,
        count: Signal,
        taken: Value,
    ) -> None:
        """Write the rest of a beat at once, if its uops have the same places there as in the
        buffer."""
        at_once = uops_at_once(self._accelerator, self._bus_bytes)
        place_bits = ceil_log2(at_once)
        place, same_places = Signal(place_bits), Signal()
        end = Signal(range(2 * at_once))
        m.d.comb += place.eq(address[:place_bits])
        if at_once == elements.elements_per_beat:
            m.d.comb += same_places.eq(load.dram_base[:place_bits] == load.sram_base[:place_bits])
        with m.If(same_places):
            m.d.comb += count.eq(Mux(left < at_once - place, left, at_once - place))
        m.d.comb += [
            elements.rest_too.eq(same_places),
            end.eq(place + count),
            self.uop.enable.eq(Cat(taken & (place <= n) & (n < end) for n in range(at_once))),
            self.uop.address.eq(address >> place_bits),
            self.uop.data.eq(
                Mux(
                    same_places,
                    elements.beat.payload,
                    elements.element.payload.replicate(at_once),
                )
            ),
        ]

    def _row_beats_bits(self) -> int:
        longest = max(element_bytes(self._accelerator, kind) for kind in self._kinds)
        return (_MOST_COLUMNS * max(1, longest // self._bus_bytes)).bit_length()

    def _elements(
        self,
        m: Module,
        kind: MemoryType,
        planner: BurstPlanner,
        load: data.View,
        is_last: Value,
    ) -> ElementGatherer | ElementSplitter:
        """Plan a memory type's bursts; return what makes its elements of their beats."""
        size_bytes, bus_bytes = element_bytes(self._accelerator, kind), self._bus_bytes
        if size_bytes >= bus_bytes:
            elements = ElementGatherer(size_bytes, bus_bytes)
            m.d.comb += planner.row_beats.eq(load.x_size * (size_bytes // bus_bytes))
        else:
            elements = ElementSplitter(size_bytes, bus_bytes)
            per_beat = elements.elements_per_beat
            first = load.dram_base % per_beat
            m.d.comb += [
                elements.start.eq(self.start),
                elements.first.eq(first),
                elements.is_last.eq(is_last),
                planner.row_beats.eq(
                    Mux(load.x_size == 0, 0, (first + load.x_size + per_beat - 1) // per_beat)
                ),
            ]
        m.submodules[f"{kind.name.lower()}_elements"] = elements
        m.d.comb += planner.row_step_bytes.eq(load.x_stride * size_bytes)
        return elements
