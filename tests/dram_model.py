"""DRAM behind the AXI masters of vta_rtl, for Amaranth's simulator: latency, stalls, checks."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

import numpy as np
from amaranth.sim import SimulatorContext
from numpy.typing import NDArray
from rtl_simulation import Process

from vta_rtl.dram.axi import ADDRESS_BITS, BOUNDARY_BYTES, BURST_BEATS


class Driven:
    """A signal that is set only when it changes, which is most of a simulation's time."""

    def __init__(self, signal: object) -> None:
        self.signal = signal
        self.value = False

    def set(self, ctx: SimulatorContext, value: bool) -> None:
        """Drive the signal in this cycle."""
        if value != self.value:
            ctx.set(self.signal, value)
        self.value = value


class Offered:
    """What a master offers on a channel: it must stay until it is taken (A3.2.1)."""

    def __init__(self, channel: str) -> None:
        self._channel = channel
        self._kept: int | None = None

    def check(self, valid: int, payload: int, ready: bool) -> None:
        """Check the channel's signals of one cycle."""
        if self._kept is not None:
            assert valid, f"{self._channel}: valid fell before ready"
            assert payload == self._kept, f"{self._channel}: the payload changed before ready"
        self._kept = payload if valid and not ready else None


@dataclass(kw_only=True)
class DramModel:
    """Bytes that masters read and write.

    Answers come ``latency_cycles`` after their request, in order. In each cycle a channel pauses
    with ``stall_percent``. With ``address_waits_for_data``, an address of a write is taken only
    while its data wait, as a slave may do. Bursts are recorded as (address, beats) and checked
    against AXI's rules, and so is that nothing which waits changes.
    """

    contents: NDArray[np.uint8]
    bus_bytes: int
    latency_cycles: int = 5
    stall_percent: int = 0
    address_waits_for_data: bool = False
    seed: int = 0
    bursts: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed)

    def _goes_on(self) -> bool:
        return not self.stall_percent or self._draw.randrange(100) >= self.stall_percent

    def _accept(self, burst: int) -> tuple[int, int]:
        """Check and record a burst; return its address and beats."""
        # Taken apart here, because the simulator is slow at fields of signals.
        address, beats = burst & ((1 << ADDRESS_BITS) - 1), (burst >> ADDRESS_BITS) + 1
        size = beats * self.bus_bytes
        assert beats <= BURST_BEATS
        assert address % self.bus_bytes == 0
        assert address // BOUNDARY_BYTES == (address + size - 1) // BOUNDARY_BYTES
        assert address + size <= len(self.contents), "a burst ends outside DRAM"
        self.bursts.append((address, beats))
        return address, beats

    def reads_of(self, *buses: object) -> Process:
        """Return the process that answers masters that read, all of them in one order.

        So answers for one master wait behind those for another, as on a port that they share.
        """

        async def serve(ctx: SimulatorContext) -> None:
            await self._serve_reads(ctx, buses)

        return serve

    def writes_of(self, bus: object) -> Process:
        """Return the process that answers a master that writes."""

        async def serve(ctx: SimulatorContext) -> None:
            await self._serve_writes(ctx, bus)

        return serve

    async def _serve_reads(self, ctx: SimulatorContext, buses: tuple[object, ...]) -> None:
        sampled = [
            signal
            for bus in buses
            for signal in (bus.ar.valid, bus.ar.payload.as_value(), bus.r.ready)
        ]
        asks = [Offered(f"ar of master {n}") for n in range(len(buses))]
        readies = [Driven(bus.ar.ready) for bus in buses]
        valids = [Driven(bus.r.valid) for bus in buses]
        # (cycle of the answer, number of the master, address, beats)
        waiting: deque[tuple[int, int, int, int]] = deque()
        cycle, offered = 0, -1
        while True:
            for ready in readies:
                ready.set(ctx, self._goes_on())
            if offered < 0 and waiting and waiting[0][0] <= cycle and self._goes_on():
                _, offered, address, beats = waiting[0]  # and stays until it is taken
                beat = self.contents[address : address + self.bus_bytes]
                answer = buses[offered].r.payload
                ctx.set(answer.data, int.from_bytes(beat.tobytes(), "little"))
                ctx.set(answer.last, beats == 1)
            for n, valid in enumerate(valids):
                valid.set(ctx, n == offered)
            _, _, *values = await ctx.tick().sample(*sampled)
            if offered >= 0 and values[3 * offered + 2]:
                begin, master, at, beats = waiting.popleft()
                if beats > 1:
                    waiting.appendleft((begin, master, at + self.bus_bytes, beats - 1))
                offered = -1
            for n, ready in enumerate(readies):
                asked, burst = values[3 * n : 3 * n + 2]
                asks[n].check(asked, burst, ready.value)
                if ready.value and asked:
                    waiting.append((cycle + self.latency_cycles, n, *self._accept(burst)))
            cycle += 1

    async def _serve_writes(self, ctx: SimulatorContext, bus: object) -> None:
        # Data may come before their address.
        sampled = (
            *(bus.aw.valid, bus.aw.payload.as_value()),
            *(bus.w.valid, bus.w.payload.as_value(), bus.b.ready),
        )
        aw_ready, w_ready, b_valid = Driven(bus.aw.ready), Driven(bus.w.ready), Driven(bus.b.valid)
        addresses, data = Offered("aw"), Offered("w")
        asked: deque[tuple[int, int]] = deque()
        beats: deque[tuple[int, bool]] = deque()
        answers: deque[int] = deque()
        cycle, place, offered, has_data = 0, 0, False, False
        while True:
            waits = self.address_waits_for_data
            aw_ready.set(ctx, self._goes_on() and (has_data or not waits))
            w_ready.set(ctx, self._goes_on() and (bool(asked) or not waits))
            offered = bool(answers) and answers[0] <= cycle and (offered or self._goes_on())
            b_valid.set(ctx, offered)
            *_, aw, burst, w, beat, taken = await ctx.tick().sample(*sampled)
            addresses.check(aw, burst, aw_ready.value)
            data.check(w, beat, w_ready.value)
            has_data = bool(w) and not w_ready.value
            if offered and taken:
                answers.popleft()
                offered = False
            if aw_ready.value and aw:
                asked.append(self._accept(burst))
            if w_ready.value and w:
                data_bits = 8 * self.bus_bytes
                beats.append((beat & ((1 << data_bits) - 1), bool(beat >> data_bits)))
            while asked and beats:
                address, count = asked[0]
                value, last = beats.popleft()
                begin = address + place * self.bus_bytes
                content = value.to_bytes(self.bus_bytes, "little")
                self.contents[begin : begin + self.bus_bytes] = np.frombuffer(content, np.uint8)
                place += 1
                assert last == (place == count), "w.last does not match the burst's length"
                if last:
                    asked.popleft()
                    answers.append(cycle + self.latency_cycles)
                    place = 0
            cycle += 1
