"""The planner of bursts, which all masters use."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Mux, Signal

from vta_rtl.dram.axi import BOUNDARY_BYTES, BURST_BEATS
from vta_rtl.dram.burst_planner import BurstPlanner

from .circuit import Circuit, signal_in
from .handshakes import stays


def bursts(bus_bytes: int) -> Circuit:
    """Bursts are legal, and together they are the beats of the rows: each once, in order."""
    circuit, planner = Circuit(), BurstPlanner(bus_bytes)
    m, inside = circuit.m, circuit.add(planner, "planner")
    beat_bits = bus_bytes.bit_length() - 1
    asks = planner.bursts
    circuit.free(planner.start, planner.row_beats, planner.rows, asks.ready)
    circuit.free(planner.address, planner.row_step_bytes)
    circuit.assume(~(planner.start & planner.busy))
    circuit.assume(~planner.start | (planner.address[:beat_bits] == 0))
    circuit.assume(~planner.start | (planner.row_step_bytes[:beat_bits] == 0))

    # What is to be asked for next: beat `column` of row `row`.
    rows, row, beats, column = Signal(16), Signal(16), Signal(33), Signal(33)
    row_address, step = Signal(32), Signal(32)
    begins = planner.start & (planner.rows != 0) & (planner.row_beats != 0)
    burst_beats = asks.payload.len + 1
    ends_row = column + burst_beats == beats
    with m.If(begins):
        m.d.sync += [rows.eq(planner.rows), beats.eq(planner.row_beats), row.eq(0), column.eq(0)]
        m.d.sync += [row_address.eq(planner.address), step.eq(planner.row_step_bytes)]
    with m.Elif(asks.valid & asks.ready):
        m.d.sync += column.eq(Mux(ends_row, 0, column + burst_beats))
        with m.If(ends_row):
            m.d.sync += [row.eq(row + 1), row_address.eq(row_address + step)]

    offset = Cat(asks.payload.address[:12], Const(0, 1))
    end = offset + (burst_beats << beat_bits)
    is_last = ends_row & (row + 1 == rows)
    circuit.claim("within 4 KiB", end <= BOUNDARY_BYTES, when=asks.valid)
    circuit.claim("at most 16 beats", burst_beats <= BURST_BEATS, when=asks.valid)
    circuit.claim("whole beats", asks.payload.address[:beat_bits] == 0, when=asks.valid)
    at = (row_address + (column << beat_bits))[:32]
    circuit.claim("the next beat in order", asks.payload.address == at, when=asks.valid)
    circuit.claim("no beat behind its row", column + burst_beats <= beats, when=asks.valid)
    circuit.claim("no row behind the last", row < rows, when=asks.valid)
    continues = circuit.past(asks.valid & ~(asks.ready & is_last))
    circuit.claim("busy until the last row's end", asks.valid == (continues | circuit.past(begins)))
    circuit.claim("busy says so", planner.busy == asks.valid)
    # What induction needs: the planner's own registers.
    left = signal_in(inside, "beats_left")
    circuit.claim("beats left", left == beats - column, when=asks.valid)
    circuit.claim("beats of a row", signal_in(inside, "row_beats") == beats, when=asks.valid)
    circuit.claim("rows left", signal_in(inside, "rows_left") == rows - row, when=asks.valid)
    start_of_row = signal_in(inside, "row_address")
    circuit.claim("start of the row", start_of_row == row_address, when=asks.valid)
    circuit.claim("step", signal_in(inside, "row_step_bytes") == step, when=asks.valid)
    places = Cat(row_address[:beat_bits], step[:beat_bits])
    circuit.claim("whole rows", places == 0, when=asks.valid)
    stays(circuit, "asks", asks)

    is_cut = asks.valid & (end == BOUNDARY_BYTES) & (burst_beats < BURST_BEATS) & ~ends_row
    circuit.reach("a burst that 4 KiB cut short", is_cut)
    circuit.reach("the second row ends", asks.valid & is_last & (row == 1))
    return circuit
