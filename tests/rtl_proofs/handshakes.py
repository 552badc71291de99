"""AXI's handshakes: what is offered stays, unchanged, until it is taken (A3.2.1), and is offered
whether or not the other end is ready."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amaranth.hdl import Mux, Signal, Value

from vta_rtl.dram.loader import Loader
from vta_rtl.dram.storer import Storer
from vta_rtl.dram.window import ReadGuard, WriteGuard
from vta_rtl.modules.fetch import Fetch
from vta_rtl.registers.axi_lite import AxiLiteSlave
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import MemoryType

from .circuit import Circuit, signal_in


def stays(circuit: Circuit, name: str, channel: Any) -> None:
    """Claim that a channel keeps what it offers, and that an offer does not wait for ready: the
    other end may wait for the offer first."""

    def claim(what: str, held: Value, rule: Value) -> None:
        circuit.claim(f"{name} {what}", rule, when=held)

    _keeps(circuit, channel, claim)
    held = circuit.past(channel.valid & ~channel.ready)
    circuit.claim_independent(f"{name} does not wait for ready", channel.valid, channel.ready)
    circuit.reach(f"{name} waits and is taken", held & channel.valid & channel.ready)


def assume_it_stays(circuit: Circuit, channel: Any) -> None:
    """Assume the same of a channel whose other end is the accelerator."""
    _keeps(circuit, channel, lambda _, held, rule: circuit.assume(~held | rule))


def _keeps(circuit: Circuit, channel: Any, state: Callable[[str, Value, Value], None]) -> None:
    payload = Value.cast(channel.payload)
    held = circuit.past(channel.valid & ~channel.ready)
    state("stays offered", held, channel.valid)
    state("is the same", held, payload == circuit.past(payload))


def fetch(bus_bytes: int) -> Circuit:
    """The requests of fetch; its slave answers only what was asked for."""
    circuit, module = Circuit(), Fetch(Accelerator(), bus_bytes=bus_bytes)
    m, inside = circuit.m, circuit.add(module, "fetch")
    ar, r = module.bus.ar, module.bus.r
    circuit.free(module.start, module.stop, module.address, module.count, ar.ready, r.valid)
    circuit.free(r.payload, module.load.ready, module.compute.ready, module.store.ready)
    circuit.assume(~(module.start & module.busy))
    unanswered = Signal(range(64))
    beats = Mux(ar.valid & ar.ready, ar.payload.len + 1, 0)
    m.d.sync += unanswered.eq(unanswered + beats - (r.valid & r.ready))
    circuit.assume(~r.valid | (unanswered != 0))
    asked, level = signal_in(inside, "asked"), signal_in(inside, "beats.level")
    circuit.claim("room for all that is asked", asked <= 32)
    circuit.claim("beats are on their way or here", asked == unanswered + level)
    for queue in ("load", "compute", "store"):
        channel = getattr(module, queue)
        held = circuit.past(channel.valid & ~channel.ready)
        circuit.claim(f"an instruction for {queue} stays", channel.valid, when=held)
    stays(circuit, "ar", ar)
    return circuit


def load(kinds: tuple[MemoryType, ...], bus_bytes: int) -> Circuit:
    """The requests of a loader, for load or for compute."""
    circuit, loader = Circuit(), Loader(Accelerator(), kinds, bus_bytes=bus_bytes)
    inside = circuit.add(loader, "loader")
    circuit.free(loader.start, loader.instruction, loader.bus.ar.ready)
    circuit.free(loader.bus.r.valid, loader.bus.r.payload)
    circuit.free(*(getattr(loader, f"{kind.name.lower()}_base") for kind in kinds))
    circuit.assume(~(loader.start & (loader.busy | signal_in(inside, "planner.running"))))
    stays(circuit, "ar", loader.bus.ar)
    return circuit


def store(bus_bytes: int) -> Circuit:
    """Addresses and data of a storer."""
    circuit, storer = Circuit(), Storer(Accelerator(), bus_bytes=bus_bytes)
    circuit.add(storer, "storer")
    bus = storer.bus
    circuit.free(storer.start, storer.instruction, storer.out_base, storer.out.data)
    circuit.free(bus.aw.ready, bus.w.ready, bus.b.valid, bus.b.payload)
    circuit.assume(~(storer.start & storer.busy))
    stays(circuit, "aw", bus.aw)
    stays(circuit, "w", bus.w)
    return circuit


def read_guard(bus_bytes: int) -> Circuit:
    """A port for reads, behind the window, and the answers to its master."""
    circuit, guard = Circuit(), ReadGuard(bus_bytes)
    inside = circuit.add(guard, "guard")
    master, bus = guard.master, guard.bus
    circuit.free(master.ar.valid, master.ar.payload, master.r.ready)
    circuit.free(bus.ar.ready, bus.r.valid, bus.r.payload, guard.first, guard.last, guard.closed)
    assume_it_stays(circuit, master.ar)
    assume_it_stays(circuit, bus.r)
    # No answer without a request: in ANSWER, which begins without open requests, none comes.
    unanswered, state = signal_in(inside, "unanswered"), signal_in(inside, "fsm_state")
    circuit.assume(~bus.r.valid | (unanswered != 0))
    circuit.claim("at most 32 bursts are open", unanswered <= 32)
    circuit.claim("answers here while none is open", unanswered == 0, when=state.bool())
    circuit.claim("an offer has its place", unanswered < 32, when=signal_in(inside, "offered"))
    stays(circuit, "ar", bus.ar)
    stays(circuit, "r to the master", master.r)
    return circuit


def write_guard(bus_bytes: int) -> Circuit:
    """A port for writes, behind the window."""
    circuit, guard = Circuit(), WriteGuard(bus_bytes)
    circuit.add(guard, "guard")
    master, bus = guard.master, guard.bus
    circuit.free(master.aw.valid, master.aw.payload, master.w.valid, master.w.payload)
    circuit.free(bus.aw.ready, bus.w.ready, bus.b.valid, bus.b.payload)
    circuit.free(guard.first, guard.last, guard.closed)
    circuit.m.d.comb += master.b.ready.eq(1)
    assume_it_stays(circuit, master.aw)
    assume_it_stays(circuit, master.w)
    stays(circuit, "aw", bus.aw)
    stays(circuit, "w", bus.w)
    return circuit


def registers() -> Circuit:
    """The answers of the AXI-Lite slave."""
    circuit, slave = Circuit(), AxiLiteSlave()
    circuit.add(slave, "slave")
    bus = slave.bus
    circuit.free(bus.aw.valid, bus.aw.payload, bus.w.valid, bus.w.payload, bus.b.ready)
    circuit.free(bus.ar.valid, bus.ar.payload, bus.r.ready, slave.read_data)
    for channel in (bus.aw, bus.w, bus.ar):
        assume_it_stays(circuit, channel)
    stays(circuit, "b", bus.b)
    stays(circuit, "r", bus.r)
    return circuit
