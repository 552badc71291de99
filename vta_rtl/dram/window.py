"""Guards between a master and its port: no burst leaves the allowed window of addresses."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from vta_rtl.dram.axi import ADDRESS_BITS, burst_layout, read_bus, write_bus

_BURSTS_IN_FLIGHT = 32
_WAITING_ADDRESSES = 2

RESP_ERROR_BIT = 1
"""SLVERR and DECERR have this bit, OKAY and EXOKAY do not (A3.4.4)."""

DECERR = 3


def _members(bus: wiring.Signature) -> dict[str, wiring.Member]:
    return {
        "master": In(bus),
        "bus": Out(bus),
        "first": In(ADDRESS_BITS),
        "last": In(ADDRESS_BITS),
        "closed": In(1),
        "refused": Out(1),
        "address": Out(ADDRESS_BITS),
        "failed": Out(1),
    }


def _inside(m: Module, guard: wiring.Component, burst: data.View, bus_bytes: int) -> Value:
    """Return whether a burst may pass.

    Its length comes last, from the end of a long path, so it is only compared: with the bytes from
    its address to the window's end.
    """
    behind = Cat(Const(bus_bytes - 1), burst.len)  # bytes behind the first one
    room = Signal(signed(ADDRESS_BITS + 1))  # negative if its address is outside
    m.d.comb += room.eq(guard.last - burst.address)
    near = room[: len(behind)]
    far = room[len(behind) : ADDRESS_BITS]
    fits = ~room[-1] & (far.any() | (behind <= near))
    return ~guard.closed & (burst.address >= guard.first) & fits


class ReadGuard(wiring.Component):
    """Passes the bursts of a master that reads on, if all of their bytes are in a window.

    Members: ``master`` In and ``bus`` Out, the channels to the master and to the port; ``first``
    and ``last`` In, the lowest and the highest byte address of the window; ``closed`` In(1), with
    which nothing more passes; ``refused`` Out(1), 1 for one cycle for each burst outside the window
    while not ``closed``, with ``address`` Out, that of the burst; ``failed`` Out(1), 1 for one
    cycle for each beat that the port answers with an error.

    A burst that does not pass is answered here with zeros and DECERR, in its turn. So a master ends
    its work even then. A burst that the port has been offered stays offered.
    """

    def __init__(self, bus_bytes: int) -> None:
        self._bus_bytes = bus_bytes
        super().__init__(_members(read_bus(bus_bytes)))

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        master, bus = self.master, self.bus
        inside = _inside(m, self, master.ar.payload, self._bus_bytes)
        unanswered = Signal(range(_BURSTS_IN_FLIGHT + 1))
        offered = Signal()
        passes, answered = Signal(), Signal()
        m.d.comb += [
            bus.ar.payload.eq(master.ar.payload),
            self.address.eq(master.ar.payload.address),
            answered.eq(bus.r.valid & bus.r.ready & bus.r.payload.last),
            self.failed.eq(bus.r.valid & bus.r.ready & bus.r.payload.resp[RESP_ERROR_BIT]),
        ]
        m.d.sync += offered.eq(bus.ar.valid & ~bus.ar.ready)
        m.d.sync += unanswered.eq(unanswered + passes - answered)
        beats_left = Signal(8)
        with m.FSM():
            with m.State("PASS"):
                m.d.comb += [
                    bus.ar.valid.eq(
                        master.ar.valid & (offered | (inside & (unanswered != _BURSTS_IN_FLIGHT)))
                    ),
                    passes.eq(bus.ar.valid & bus.ar.ready),
                    master.ar.ready.eq(passes),
                    master.r.valid.eq(bus.r.valid),
                    master.r.payload.eq(bus.r.payload),
                    bus.r.ready.eq(master.r.ready),
                ]
                # Answers are in order, so those of earlier bursts come first.
                with m.If(master.ar.valid & ~offered & ~inside & (unanswered == 0)):
                    m.d.comb += [master.ar.ready.eq(1), self.refused.eq(~self.closed)]
                    m.d.sync += beats_left.eq(master.ar.payload.len)
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += [
                    master.r.valid.eq(1),
                    master.r.payload.resp.eq(DECERR),
                    master.r.payload.last.eq(beats_left == 0),
                ]
                with m.If(master.r.ready):
                    m.d.sync += beats_left.eq(beats_left - 1)
                    with m.If(beats_left == 0):
                        m.next = "PASS"
        return m


class WriteGuard(wiring.Component):
    """Passes the bursts of a master that writes on, if all of their bytes are in a window.

    Members: those of :class:`ReadGuard`, with channels to write. ``failed`` is 1 for one cycle for
    each burst that the port answers with an error.

    The data of a burst that does not pass are dropped, and its answer is DECERR. Data wait for
    their own address to reach the guard, never for the port to take it. Answers come in the port's
    order, those of dropped bursts in between; the master must take an answer whenever there is one.
    """

    def __init__(self, bus_bytes: int) -> None:
        self._bus_bytes = bus_bytes
        super().__init__(_members(write_bus(bus_bytes)))

    def elaborate(self, platform: object) -> Module:
        """Return the circuit."""
        m = Module()
        master, bus = self.master, self.bus
        m.submodules.addresses = addresses = SyncFIFOBuffered(
            width=burst_layout().size, depth=_WAITING_ADDRESSES
        )
        # For each burst whose data are to come: whether it passes.
        m.submodules.passing = passing = SyncFIFOBuffered(width=1, depth=_BURSTS_IN_FLIGHT)
        inside = Signal()
        taken = master.aw.valid & master.aw.ready
        m.d.comb += [
            inside.eq(_inside(m, self, master.aw.payload, self._bus_bytes)),
            master.aw.ready.eq(addresses.w_rdy & passing.w_rdy),
            addresses.w_en.eq(taken & inside),
            addresses.w_data.eq(master.aw.payload),
            passing.w_en.eq(taken),
            passing.w_data.eq(inside),
            bus.aw.valid.eq(addresses.r_rdy),
            bus.aw.payload.eq(addresses.r_data),
            addresses.r_en.eq(bus.aw.ready),
            self.refused.eq(taken & ~inside & ~self.closed),
            self.address.eq(master.aw.payload.address),
        ]
        passes, drops = Signal(), Signal()
        ends = master.w.valid & master.w.ready & master.w.payload.last
        m.d.comb += [
            passes.eq(passing.r_rdy & passing.r_data),
            drops.eq(passing.r_rdy & ~passing.r_data),
            bus.w.valid.eq(master.w.valid & passes),
            bus.w.payload.eq(master.w.payload),
            master.w.ready.eq((passes & bus.w.ready) | drops),
            passing.r_en.eq(ends),
        ]
        dropped = Signal(range(_BURSTS_IN_FLIGHT + 1))  # bursts that have no answer yet
        answers_here = Signal()
        m.d.comb += [
            answers_here.eq(~bus.b.valid & (dropped != 0)),
            master.b.valid.eq(bus.b.valid | answers_here),
            bus.b.ready.eq(master.b.ready),
            self.failed.eq(bus.b.valid & bus.b.ready & bus.b.payload.resp[RESP_ERROR_BIT]),
        ]
        with m.If(bus.b.valid):
            m.d.comb += master.b.payload.eq(bus.b.payload)
        with m.Else():
            m.d.comb += master.b.payload.resp.eq(Const(DECERR, 2))
        m.d.sync += dropped.eq(dropped + (ends & drops) - (answers_here & master.b.ready))
        return m
