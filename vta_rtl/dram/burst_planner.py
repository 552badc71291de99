"""Cut rows of DRAM into bursts."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from vta_rtl.dram.axi import ADDRESS_BITS, BOUNDARY_BYTES, BURST_BEATS, burst_layout

ROWS_BITS = 16
ROW_BEATS_BITS = 33


class BurstPlanner(wiring.Component):
    """Names the bursts of ``rows`` rows of ``row_beats`` beats, in order, one a cycle.

    Members: ``start`` In(1), for one cycle in which ``busy`` Out(1) is 0. In that cycle:
    ``address`` In, the first row's byte address, a multiple of the bus's bytes; ``row_beats`` In;
    ``rows`` In; ``row_step_bytes`` In, from one row to the next. ``bursts`` Out, a stream of
    :func:`~vta_rtl.dram.axi.burst_layout`; ``stop`` In(1), with which the burst that is offered is
    the last one. Without rows or beats there is no burst.

    A burst has at most ``BURST_BEATS`` beats, is part of one row, and does not cross a multiple of
    ``BOUNDARY_BYTES``.
    """

    def __init__(self, bus_bytes: int) -> None:
        self._bus_bytes = bus_bytes
        super().__init__(
            {
                "start": In(1),
                "stop": In(1),
                "busy": Out(1),
                "address": In(ADDRESS_BITS),
                "row_beats": In(ROW_BEATS_BITS),
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
        row_beats = Signal(ROW_BEATS_BITS)
        beats_left = Signal(ROW_BEATS_BITS)
        rows_left = Signal(ROWS_BITS)

        boundary_beats = BOUNDARY_BYTES // self._bus_bytes
        beat_bits = self._bus_bytes.bit_length() - 1
        place = address[beat_bits : beat_bits + boundary_beats.bit_length() - 1]
        to_boundary = Signal(range(boundary_beats + 1))
        limit = Signal(range(BURST_BEATS + 1))
        beats = Signal(range(BURST_BEATS + 1))
        m.d.comb += [
            to_boundary.eq(boundary_beats - place),
            limit.eq(Mux(to_boundary < BURST_BEATS, to_boundary, BURST_BEATS)),
            beats.eq(Mux(beats_left < limit, beats_left, limit)),
            self.bursts.valid.eq(running),
            self.bursts.payload.address.eq(address),
            self.bursts.payload.len.eq(beats - 1),
            self.busy.eq(running),
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
            m.d.sync += [
                address.eq(address + beats * self._bus_bytes),
                beats_left.eq(beats_left - beats),
            ]
            with m.If(beats_left == beats):
                m.d.sync += [
                    address.eq(row_address + row_step_bytes),
                    row_address.eq(row_address + row_step_bytes),
                    beats_left.eq(row_beats),
                    rows_left.eq(rows_left - 1),
                    running.eq(rows_left != 1),
                ]
            with m.If(self.stop):
                m.d.sync += running.eq(0)
        return m
