"""The core on a board of models: DRAM behind its masters, a processor at its registers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, First, RisingEdge
from cocotbext.axi import (
    AxiLiteBus,
    AxiLiteMaster,
    AxiRamRead,
    AxiRamWrite,
    AxiReadBus,
    AxiResp,
    AxiWriteBus,
)
from cocotbext.axi.sparse_memory import SparseMemory
from numpy.typing import NDArray

from vta_rtl.dram.axi import BOUNDARY_BYTES, BURST_BEATS
from vta_rtl.isa.names import BASES, MASTERS, WRITER
from vta_rtl.registers.register_table import BY_NAME, Error

IMAGE = 0x10_0000
PROGRAM = 0x80_0000
WINDOW_BYTES = 0x100_0000
MOST_CYCLES = 60_000
_ALL = 7
_START, _AUTO_RESTART = 1, 0x80


class Board:
    """The core, its clock and its neighbours. Every burst is looked at."""

    def __init__(self, dut: Any, bus_bytes: int) -> None:
        self.dut = dut
        self.bus_bytes = bus_bytes
        self.bursts: dict[str, list[tuple[int, int]]] = {master: [] for master in MASTERS}
        self.faults: dict[str, AxiResp] = {}
        """By master, what its next answer says instead of OKAY."""
        self._clock = Clock(dut.aclk, 10, unit="ns")
        self._memory = SparseMemory(1 << 32)
        self._rams: dict[str, Any] = {}

    async def start(self) -> None:
        """Start clock and models, and reset the core."""
        dut = self.dut
        self._clock.start()
        dut.aresetn.value = 0
        bus = AxiLiteBus.from_prefix(dut, "s_axi_control")
        self.registers = AxiLiteMaster(bus, dut.aclk, dut.aresetn, reset_active_level=False)
        for master in MASTERS:
            kind, ram = (AxiWriteBus, AxiRamWrite) if master == WRITER else (AxiReadBus, AxiRamRead)
            bus = kind.from_prefix(dut, f"m_axi_{master}")
            self._rams[master] = ram(
                bus, dut.aclk, dut.aresetn, reset_active_level=False, mem=self._memory
            )
            self._answer_with_faults(master)
            cocotb.start_soon(self._watch(master))
        await ClockCycles(dut.aclk, 4)
        dut.aresetn.value = 1
        await ClockCycles(dut.aclk, 4)
        await self.write("window_first", IMAGE)
        await self.write("window_last", IMAGE + WINDOW_BYTES - 1)
        await self.write("interrupt_enable", _ALL)

    async def write(self, name: str, value: int) -> None:
        """Write a register."""
        await self.registers.write_dword(BY_NAME[name].offset, value)

    async def read(self, name: str) -> int:
        """Read a register."""
        return int(await self.registers.read_dword(BY_NAME[name].offset))

    def pause(self, percent: int) -> None:
        """Let each side of each channel pause at random for so many percent of the cycles."""

        def pauses(seed: str) -> Iterator[bool]:
            draw = random.Random(seed)
            while True:
                yield draw.randrange(100) < percent

        ends = {
            "registers write": self.registers.write_if,
            "registers read": self.registers.read_if,
        }
        ends |= self._rams
        for name, end in ends.items():
            for channel in ("aw", "w", "b", "ar", "r"):
                model = getattr(end, f"{channel}_channel", None)
                if model is not None:
                    model.set_pause_generator(pauses(f"{name} {channel}"))

    async def run(
        self, words: NDArray[np.uint64], dram: NDArray[np.uint8]
    ) -> tuple[Error, NDArray[np.uint8]]:
        """Run a program on an image of memory; return the error register and the image after it."""
        self._memory.write(IMAGE, dram.tobytes())
        self._memory.write(PROGRAM, words.astype("<u8").tobytes())
        await self.write("interrupt_status", _ALL)
        for base in BASES:
            await self.write(f"{base}_base", IMAGE)
        await self.write("insn_count", len(words))
        await self.write("insn_addr", PROGRAM)
        for module in ("load", "compute", "store"):
            await self.write(f"{module}_control", _START | _AUTO_RESTART)
        await self.write("fetch_control", _START)
        if not int(self.dut.irq.value):
            ended = RisingEdge(self.dut.irq)
            late = ClockCycles(self.dut.aclk, MOST_CYCLES)
            assert await First(ended, late) is ended, "the program does not end"
        while not await self.read("state") & 1:
            pass
        error = Error(await self.read("error"))
        return error, np.frombuffer(self._memory.read(IMAGE, dram.nbytes), np.uint8)

    def _answer_with_faults(self, master: str) -> None:
        """Let ``faults`` change a master's next answer."""
        channel, name = (
            (self._rams[master].b_channel, "bresp")
            if master == WRITER
            else (self._rams[master].r_channel, "rresp")
        )
        send = channel.send

        async def send_with_faults(answer: Any) -> None:
            if master in self.faults:
                setattr(answer, name, self.faults.pop(master))
            await send(answer)

        channel.send = send_with_faults

    async def _watch(self, master: str) -> None:
        """Note the bursts of a master, and check them and its data."""
        channel = "aw" if master == WRITER else "ar"

        def signal(name: str) -> int:
            return int(getattr(self.dut, f"m_axi_{master}_{name}").value)

        lengths: list[int] = []
        beat = sent = 0
        held: dict[str, int] = {}
        while True:
            await FallingEdge(self.dut.aclk)
            if not int(self.dut.aresetn.value):
                continue
            for name, payload in ((channel, ("addr", "len")), ("w", ("data", "last"))):
                if name == "w" and master != WRITER:
                    continue
                now = {f"{name}{part}": signal(f"{name}{part}") for part in payload}
                if f"{name}valid" in held:
                    assert signal(f"{name}valid"), f"{master}: {name} takes back its offer"
                    assert all(held[k] == v for k, v in now.items()), f"{master}: {name} changes"
                held = {k: v for k, v in held.items() if not k.startswith(name)}
                if signal(f"{name}valid") and not signal(f"{name}ready"):
                    held |= now | {f"{name}valid": 1}
            if signal(f"{channel}valid") and signal(f"{channel}ready"):
                address, beats = signal(f"{channel}addr"), signal(f"{channel}len") + 1
                assert beats <= BURST_BEATS
                assert signal(f"{channel}burst") == 1
                assert 1 << signal(f"{channel}size") == self.bus_bytes
                last = address + beats * self.bus_bytes - 1
                assert address // BOUNDARY_BYTES == last // BOUNDARY_BYTES, "crosses 4 KiB"
                assert address >= IMAGE and last < IMAGE + WINDOW_BYTES
                self.bursts[master].append((address, beats))
                lengths.append(beats)
            if master == WRITER and signal("wvalid") and signal("wready"):
                beat += 1
                if signal("wlast"):
                    sent += 1
                    ended, beat = beat, 0
                    if sent <= len(lengths):
                        assert ended == lengths[sent - 1], "last is at another beat than len says"
