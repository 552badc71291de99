"""No store is lost: an arbitrary beat of an arbitrary STORE is followed to its address."""

from __future__ import annotations

from amaranth.hdl import Cat, Mux, Signal, Value
from amaranth.lib import data

from vta_rtl.buffers.ports import READ_CYCLES
from vta_rtl.dram.axi import BOUNDARY_BYTES, BURST_BEATS
from vta_rtl.dram.storer import Storer
from vta_rtl.isa.layouts import instruction_layout
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import Opcode

from .circuit import Circuit

_MOST_ELEMENTS = 3
_FIELD_BITS = {"dram_base": 10, "sram_base": 4, "x_size": 2, "y_size": 2, "x_stride": 4}


def stores(bus_bytes: int) -> Circuit:
    """One STORE of a few elements, from reset; every channel may wait in any cycle.

    The followed beat is part of any element of the instruction. The buffer holds any value there,
    and anything elsewhere. At the end it was written once, to its own address, with that value.
    """
    accelerator = Accelerator(
        block_in=8,
        block_out=8,
        uop_buffer_bytes_log2=10,
        inp_buffer_bytes_log2=12,
        wgt_buffer_bytes_log2=12,
        acc_buffer_bytes_log2=14,
    )
    circuit, storer = Circuit(), Storer(accelerator, bus_bytes=bus_bytes)
    m = circuit.m
    circuit.add(storer, "storer")
    bus, out_bytes = storer.bus, accelerator.out_bytes
    beats_per_element = out_bytes // bus_bytes
    # Narrow fields, all values of which are tried: a solver's time grows with them.
    layout = instruction_layout(accelerator, Opcode.STORE)
    store = Signal(layout, name="store")
    m.d.comb += [
        getattr(store, name).eq(circuit.any_constant(bits)) for name, bits in _FIELD_BITS.items()
    ]
    base = circuit.any_constant()
    begun = Signal()
    m.d.sync += begun.eq(1)
    m.d.comb += [
        storer.instruction.eq(store),
        storer.out_base.eq(base << 12),
        storer.start.eq(~begun),
    ]
    circuit.free(bus.aw.ready, bus.w.ready, bus.b.valid, bus.b.payload, storer.out.data)
    elements = Signal(4)
    m.d.comb += elements.eq(_times(store.y_size[:2], store.x_size[:2]))
    circuit.assume(elements <= _MOST_ELEMENTS)
    # Rows that overlap write some addresses twice.
    circuit.assume((store.y_size <= 1) | (store.x_stride >= store.x_size))

    # The followed beat.
    row, column = circuit.any_constant(2), circuit.any_constant(2)
    part = circuit.any_constant(1) if beats_per_element > 1 else 0
    circuit.assume((row < store.y_size) & (column < store.x_size))
    element, place, goal = Signal(16), Signal(32), Signal(32)
    stride = Signal(18)
    m.d.comb += stride.eq(_times(row, store.x_stride))
    m.d.comb += element.eq(store.sram_base + _times(row, store.x_size) + column)
    m.d.comb += place.eq((store.dram_base + stride + column) * beats_per_element + part)
    m.d.comb += goal.eq(storer.out_base + place * bus_bytes)
    value = circuit.any_constant(8 * bus_bytes)
    address: Value = storer.out.address
    for _ in range(READ_CYCLES):
        address = circuit.past(address)
    words = data.View(data.ArrayLayout(8 * bus_bytes, beats_per_element), storer.out.data)
    is_element = address == element[: len(address)]
    circuit.assume(~is_element | (words[part] == value))

    # What memory sees: the followed burst and beat in it may be any.
    number, beat_number = circuit.any_constant(3), circuit.any_constant(4)
    asked, sent, beat, answered = Signal(3), Signal(3), Signal(8), Signal(3)
    asks, sends = bus.aw.valid & bus.aw.ready, bus.w.valid & bus.w.ready
    beats = bus.aw.payload.len + 1
    all_asked, all_sent = Signal(8), Signal(8)
    m.d.sync += [
        asked.eq(asked + asks),
        sent.eq(sent + (sends & bus.w.payload.last)),
        answered.eq(answered + bus.b.valid),
        beat.eq(Mux(sends, Mux(bus.w.payload.last, 0, beat + 1), beat)),
        all_asked.eq(all_asked + Mux(asks, beats, 0)),
        all_sent.eq(all_sent + sends),
    ]
    circuit.assume(~bus.b.valid | ((answered != asked) & (answered != sent)))
    offset = Signal(32)
    m.d.comb += offset.eq((goal - bus.aw.payload.address) // bus_bytes)
    covers = asks & (goal >= bus.aw.payload.address) & (offset < beats)
    covered, is_its = Signal(2), Signal()
    with m.If(covers):
        is_number = (asked == number) & (offset == beat_number)
        m.d.sync += [covered.eq(covered + 1), is_its.eq(is_number)]
    written, is_right = Signal(2), Signal()
    with m.If(sends & (sent == number) & (beat == beat_number)):
        m.d.sync += [written.eq(written + 1), is_right.eq(bus.w.payload.data == value)]

    # The length of the followed burst, from its address and from its data.
    length, has_length, ended_at, has_ended = Signal(8), Signal(), Signal(8), Signal()
    with m.If(asks & (asked == number)):
        m.d.sync += [length.eq(bus.aw.payload.len), has_length.eq(1)]
    with m.If(sends & (sent == number) & bus.w.payload.last):
        m.d.sync += [ended_at.eq(beat), has_ended.eq(1)]

    done = begun & ~storer.busy & circuit.past(begun)
    circuit.claim("one address for each beat", covered <= 1)
    circuit.claim("written at most once", written <= 1)
    circuit.claim("written with its value", is_right, when=is_its & (written != 0))
    circuit.claim("in the end it has an address", covered == 1, when=done)
    circuit.claim("in the end it is written", written == 1, when=done & is_its)
    total = elements * beats_per_element
    circuit.claim("nothing else is written", (all_asked == total) & (all_sent == total), when=done)
    circuit.claim("all is answered", (answered == asked) & (answered == sent), when=done)
    is_all = (all_asked == total) & (all_sent == total) & (answered == asked) & (answered == sent)
    circuit.claim("it ends with its last answer", ~storer.busy, when=begun & is_all)
    circuit.claim("nothing follows", ~(bus.aw.valid | bus.w.valid), when=done)
    circuit.claim("last is the last of len", ended_at == length, when=has_length & has_ended)
    end = Cat(bus.aw.payload.address[:12], 0) + beats * bus_bytes
    is_legal = (end <= BOUNDARY_BYTES) & (beats <= BURST_BEATS)
    circuit.claim("bursts within 4 KiB", is_legal, when=bus.aw.valid)
    circuit.reach("a store of two rows ends", done & (store.y_size == 2))
    circuit.reach("a row across 4 KiB ends", done & (store.x_size == 2) & (asked == 2))
    circuit.reach("data before their address", (sent != 0) & (asked == 0))
    return circuit


def _times(row: Value, factor: Value) -> Value:
    """Return row * factor, as a choice of the few rows."""
    return Mux(row[1], factor << 1, 0) + Mux(row[0], factor, 0)
