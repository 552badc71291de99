"""The guards: no burst with a byte outside the window reaches a port."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Const, Fragment, Signal, Value

from vta_rtl.dram.window import ReadGuard, WriteGuard

from .circuit import Circuit, memory_in, signal_in
from .handshakes import assume_it_stays


def _is_inside(circuit: Circuit, guard: Any, burst: Any, bus_bytes: int) -> Value:
    """Say it otherwise than the guard does: with an end that has room for all of its bits."""
    end = Signal(34, name="end")
    circuit.m.d.comb += end.eq(burst.address + ((burst.len + 1) * bus_bytes) - 1)
    return (burst.address >= guard.first) & (end <= guard.last)


def _with_window(circuit: Circuit, guard: Any) -> None:
    """Give the guard any window, which stays: registers change it only while the core is idle."""
    circuit.m.d.comb += [
        guard.first.eq(circuit.any_constant(32)),
        guard.last.eq(circuit.any_constant(32)),
    ]
    circuit.free(guard.closed)


def reads(bus_bytes: int) -> Circuit:
    """Reads pass only if they are inside; the others get as many beats as they asked for."""
    circuit, guard = Circuit(), ReadGuard(bus_bytes)
    m, inside = circuit.m, circuit.add(guard, "guard")
    master, bus = guard.master, guard.bus
    _with_window(circuit, guard)
    circuit.free(master.ar.valid, master.ar.payload, master.r.ready)
    circuit.free(bus.ar.ready, bus.r.valid, bus.r.payload)
    assume_it_stays(circuit, master.ar)
    passes = _is_inside(circuit, guard, master.ar.payload, bus_bytes)
    circuit.claim("outside nothing is offered to the port", passes, when=bus.ar.valid)
    payload = Value.cast(bus.ar.payload) == Value.cast(master.ar.payload)
    circuit.claim("what passes is the same", payload, when=bus.ar.valid)
    taken = master.ar.valid & master.ar.ready
    through = bus.ar.valid & bus.ar.ready
    refused = taken & ~through
    circuit.claim("what the port takes is taken once", taken, when=through)
    circuit.claim("refused is outside", ~passes, when=refused & ~guard.closed)
    circuit.claim("and is reported", guard.refused == (refused & ~guard.closed))
    owed = Signal(9)  # beats of a refused burst that its master has not got
    answered = (owed != 0) & master.r.valid & master.r.ready
    m.d.sync += owed.eq(owed - answered)
    with m.If(refused):
        m.d.sync += owed.eq(master.ar.payload.len + 1)
    circuit.claim("a refused burst is answered at once", master.r.valid, when=owed != 0)
    zeros = (master.r.payload.data == 0) & (master.r.payload.resp == 3)
    circuit.claim("with zeros and an error", zeros, when=owed != 0)
    circuit.claim("the last beat says so", master.r.payload.last == (owed == 1), when=owed != 0)
    circuit.claim("and then the next burst", ~(taken & (owed != 0)))
    state, left = signal_in(inside, "fsm_state"), signal_in(inside, "beats_left")
    circuit.claim("answers while beats are owed", state.bool() == (owed != 0))
    circuit.claim("beats left", left == owed - 1, when=owed != 0)
    offered = signal_in(inside, "offered")
    circuit.claim("offered is inside", passes & master.ar.valid & ~state, when=offered)
    circuit.reach("a burst up to the window's end", through & guard.last.all() & passes)
    circuit.reach("a refused burst of three beats ends", circuit.past(owed == 3) & (owed == 2))
    waited = circuit.past(bus.ar.valid)
    circuit.reach("a burst waits while the core is aborted", waited & guard.closed & through)
    return circuit


def writes(bus_bytes: int) -> Circuit:
    """Addresses of writes pass only if they are inside."""
    circuit, guard = Circuit(), WriteGuard(bus_bytes)
    inside = circuit.add(guard, "guard")
    master, bus = guard.master, guard.bus
    _with_window(circuit, guard)
    circuit.free(master.aw.valid, master.aw.payload, master.w.valid, master.w.payload)
    circuit.free(bus.aw.ready, bus.w.ready, bus.b.valid, bus.b.payload)
    circuit.m.d.comb += master.b.ready.eq(1)
    passes = _is_inside(circuit, guard, bus.aw.payload, bus_bytes)
    circuit.claim("outside nothing is offered to the port", passes, when=bus.aw.valid)
    asks = _is_inside(circuit, guard, master.aw.payload, bus_bytes)
    circuit.claim("passes what is inside", signal_in(inside, "inside") == (asks & ~guard.closed))
    refused = master.aw.valid & master.aw.ready & ~asks
    circuit.claim("refused is reported", guard.refused, when=refused & ~guard.closed)
    waiting = _waiting_burst(circuit, inside, master.aw.payload)
    is_waiting = signal_in(inside, "addresses.inner_level") != 0
    is_inside = _is_inside(circuit, guard, waiting, bus_bytes)
    circuit.claim("what waits is inside", is_inside, when=is_waiting)
    circuit.reach("a burst passes", bus.aw.valid & bus.aw.ready)
    circuit.reach("a refused burst behind one that passes", circuit.past(bus.aw.valid) & refused)
    return circuit


def data_of_writes(bus_bytes: int) -> Circuit:
    """Data of writes go where their address went: a port gets beats for its own bursts only."""
    circuit, guard = Circuit(), WriteGuard(bus_bytes)
    m, inside = circuit.m, circuit.add(guard, "guard")
    master, bus = guard.master, guard.bus
    _with_window(circuit, guard)
    circuit.free(master.aw.valid, master.aw.payload, master.w.valid, master.w.payload)
    circuit.free(bus.aw.ready, bus.w.ready, bus.b.valid, bus.b.payload)
    m.d.comb += master.b.ready.eq(1)
    assume_it_stays(circuit, master.aw)
    assume_it_stays(circuit, master.w)
    followed = circuit.any_constant(4)  # the number of any burst
    asked, sent, passed = Signal(4), Signal(4), Signal()
    is_asked = Signal()
    taken = master.aw.valid & master.aw.ready
    m.d.sync += asked.eq(asked + taken)
    with m.If(taken & (asked == followed)):
        # What this is, the proof of addresses says.
        m.d.sync += [is_asked.eq(1), passed.eq(signal_in(inside, "inside"))]
    circuit.assume(asked != 15)
    moves = master.w.valid & master.w.ready
    is_its = sent == followed
    m.d.sync += sent.eq(sent + (moves & master.w.payload.last))
    circuit.claim("data wait for their address", is_asked, when=moves & is_its)
    reaches = bus.w.valid & bus.w.ready
    circuit.claim(
        "data of a refused burst are dropped", ~bus.w.valid, when=is_its & is_asked & ~passed
    )
    circuit.claim("other data reach the port", reaches == moves, when=is_its & is_asked & passed)
    same = Value.cast(bus.w.payload) == Value.cast(master.w.payload)
    circuit.claim("unchanged", same, when=bus.w.valid)
    dropped = moves & is_its & ~passed & (followed == 1)
    circuit.reach("data are dropped behind data that passed", dropped & circuit.past(reaches))
    return circuit


def _waiting_burst(circuit: Circuit, inside: Fragment, like: Any) -> Any:
    """Return the address that waits behind the one which the port is offered."""
    content = memory_in(circuit, inside, "addresses.storage", Const(0))
    burst = Signal.like(like, name="waiting")
    circuit.m.d.comb += Value.cast(burst).eq(content)
    return burst
