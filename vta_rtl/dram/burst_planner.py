"""Cut rows of DRAM into bursts."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.dram.axi import ADDRESS_BITS, BOUNDARY_BYTES, BURST_BEATS, burst_layout

ROWS_BITS = 16
ROW_BEATS_BITS = 33
_LENGTH_BITS = BURST_BEATS.bit_length() - 1


class BurstPlanner(wiring.Component):
    """Names the bursts of ``rows`` rows of ``row_beats`` beats, in order, one a cycle.

    Members: ``start`` In(1), for one cycle in which ``busy`` Out(1) is 0. In that cycle:
    ``address`` In, the first row's byte address, a multiple of the bus's bytes; ``row_beats`` In;
    ``rows`` In; ``row_step_bytes`` In, from one row to the next. ``bursts`` Out, a stream of
    :func:`~vta_rtl.dram.axi.burst_layout`; ``stop`` In(1), with which the burst that is offered is
    the last one. Without rows or beats there is no burst.

    A burst has at most ``BURST_BEATS`` beats, is part of one row, and does not cross a multiple of
    ``BOUNDARY_BYTES``. ``row_beats`` has ``row_beats_bits``.
    """

    def __init__(self, bus_bytes: int, *, row_beats_bits: int = ROW_BEATS_BITS) -> None:
        self._bus_bytes = bus_bytes
        self._row_beats_bits = row_beats_bits
        super().__init__(
            {
                "start": In(1),
                "stop": In(1),
                "busy": Out(1),
                "address": In(ADDRESS_BITS),
                "row_beats": In(row_beats_bits),
                "rows": In(ROWS_BITS),
                "row_step_bytes": In(ADDRESS_BITS),
                "bursts": Out(stream.Signature(burst_layout())),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        running = Signal()
        address = Signal(ADDRESS_BITS)
        row_address = Signal(ADDRESS_BITS)
        row_step_bytes = Signal(ADDRESS_BITS)
        row_beats = Signal(self._row_beats_bits)
        beats_left = Signal(self._row_beats_bits)
        rows_left = Signal(ROWS_BITS)

        # A burst's length is as few levels of logic as it can be: whole paths begin with it. So
        # lengths are one less than beats, as in AXI, and comparisons look at a few low bits.
        beat_bits = self._bus_bytes.bit_length() - 1
        place = address[beat_bits : BOUNDARY_BYTES.bit_length() - 1]
        length, room, left = Signal(_LENGTH_BITS), Signal(_LENGTH_BITS), Signal(_LENGTH_BITS)
        is_short, ends_row = Signal(), Signal()
        m.d.comb += [
            # Up to the boundary, if that is within a burst: 16 - place beats.
            room.eq(Mux(place[_LENGTH_BITS:].all(), ~place[:_LENGTH_BITS], BURST_BEATS - 1)),
            # What is left, if that is no more than a burst.
            left.eq(beats_left[:_LENGTH_BITS] - 1),
            is_short.eq(
                ~beats_left[_LENGTH_BITS + 1 :].any()
                & ~(beats_left[_LENGTH_BITS] & beats_left[:_LENGTH_BITS].any())
            ),
            ends_row.eq(is_short & (left <= room)),
            length.eq(Mux(ends_row, left, room)),
            self.bursts.valid.eq(running),
            self.bursts.payload.address.eq(address),
            self.bursts.payload.len.eq(length),
            self.busy.eq(running),
        ]
        behind = Signal(ADDRESS_BITS - beat_bits + 1)
        left_behind, next_row = Signal(self._row_beats_bits), Signal(ADDRESS_BITS)
        m.d.comb += [
            # Of as many beats as length + 1: the lowest bits of what is added make the carry.
            behind.eq(Cat(1, address[beat_bits:]) + Cat(1, length)),
            left_behind.eq(
                beats_left + ~Cat(length, Const(0, self._row_beats_bits - _LENGTH_BITS))
            ),
            next_row.eq(row_address + row_step_bytes),
        ]
        with m.If(self.start & (self.rows != 0) & (self.row_beats != 0)):
            m.d.sync += [
                running.eq(1),
                address.eq(self.address),
                row_address.eq(self.address),
                row_step_bytes.eq(self.row_step_bytes),
                row_beats.eq(self.row_beats),
                beats_left.eq(self.row_beats),
                rows_left.eq(self.rows),
            ]
        with m.Elif(running & self.bursts.ready):
            with m.If(ends_row):
                m.d.sync += [
                    address.eq(next_row),
                    row_address.eq(next_row),
                    beats_left.eq(row_beats),
                    rows_left.eq(rows_left - 1),
                    running.eq(rows_left != 1),
                ]
            with m.Else():
                m.d.sync += [address[beat_bits:].eq(behind[1:]), beats_left.eq(left_behind)]
            with m.If(self.stop):
                m.d.sync += running.eq(0)
        return m
