"""The accelerator is used through its registers alone, as a driver does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest
from amaranth.sim import SimulatorContext
from axi_lite_master import LiteMaster
from dram_model import DramModel
from numpy.typing import NDArray
from rtl_simulation import simulate

from vta_rtl.core import VtaCore
from vta_rtl.isa.names import MODULES, RUNNERS
from vta_rtl.registers.register_table import (
    BY_NAME,
    COMMAND_ABORT,
    MAGIC,
    REGISTERS,
    Control,
    Error,
    Interrupt,
    State,
    capability_word,
    configuration_hash,
    revision_word,
)
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instruction_buffer import encode
from vta_stages.isa.instructions import (
    Finish,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    Opcode,
    Store,
    element_bytes,
)

VECTORS = Path(__file__).parents[1] / "data" / "vta_vectors"
MOST_POLLS = 2_000
UNKNOWN_OPCODE = 7
ALL = 0xFFFF_FFFF


class Driver:
    """Accesses to registers by name, and what the C++ driver does with them."""

    def __init__(self, core: VtaCore, ctx: SimulatorContext) -> None:
        self.core = core
        self.ctx = ctx
        self._master = LiteMaster(core.registers)

    async def read(self, name: str) -> int:
        """Return a register."""
        return await self._master.read(self.ctx, BY_NAME[name].offset)

    async def write(self, name: str, value: int) -> None:
        """Write a register."""
        await self._master.write(self.ctx, BY_NAME[name].offset, value)

    async def start(self, address: int, count: int) -> None:
        """Start a program, in the order of ``HardwareDevice::start``."""
        await self.write("insn_count", count)
        await self.write("insn_addr", address)
        for module in RUNNERS:
            await self.write(f"{module}_control", Control.START | Control.AUTO_RESTART)
        await self.write("fetch_control", Control.START)

    async def wait(self, name: str, value: int) -> None:
        """Read a register until it has a value."""
        for _ in range(MOST_POLLS):
            if await self.read(name) == value:
                return
        raise AssertionError(f"{name} never becomes {value}")

    async def interrupted(self) -> None:
        """Wait for the interrupt."""
        for _ in range(20 * MOST_POLLS):
            if self.ctx.get(self.core.interrupt):
                return
            await self.ctx.tick()
        raise AssertionError("no interrupt")


def with_core(
    dram: NDArray[np.uint8],
    check: Callable[[Driver, DramModel], Awaitable[None]],
    accelerator: Accelerator | None = None,
) -> None:
    """Run a check beside a core with DRAM behind its masters."""
    core = VtaCore(accelerator or SMALL, bus_bytes=8)
    model = DramModel(contents=dram, bus_bytes=8, stall_percent=10)

    async def run(ctx: SimulatorContext) -> None:
        await check(Driver(core, ctx), model)

    readers = (core.fetch_bus, core.load_bus, core.weight_bus, core.compute_bus)
    masters = [*(model.reads_of(bus) for bus in readers), model.writes_of(core.store_bus)]
    simulate(core, run, background=masters)


SMALL = Accelerator(
    block_in=8,
    block_out=8,
    uop_buffer_bytes_log2=8,
    inp_buffer_bytes_log2=8,
    wgt_buffer_bytes_log2=9,
    acc_buffer_bytes_log2=8,
    command_queue_depth=4,
    token_queue_depth=2,
)


def program(*instructions: Instruction) -> NDArray[np.uint8]:
    """Return instructions as uint8[16 * n]."""
    return encode(SMALL, instructions).view(np.uint8).ravel()


def vector(name: str) -> tuple[NDArray[np.uint8], int, int, NDArray[np.uint8]]:
    """Return uint8 DRAM with a program, its address and length, and the DRAM that it leaves."""
    recorded = np.load(VECTORS / "0.0.2" / f"{name}.npz")
    before = recorded["dram_before"]
    address = -(-len(before) // 16) * 16
    room = np.zeros(address - len(before), np.uint8)
    dram = np.concatenate([before, room, recorded["insns"].view(np.uint8).ravel()])
    return dram, address, len(recorded["insns"]), recorded["dram_after"]


@pytest.mark.sim
def test_a_recorded_vector_runs_twice_through_registers_with_an_interrupt() -> None:
    dram, address, count, after = vector("22_gemm_loops")
    before = dram.copy()
    accelerator = Accelerator(revision="0.0.2")

    async def check(driver: Driver, model: DramModel) -> None:
        assert await driver.read("magic") == MAGIC
        assert await driver.read("revision") == revision_word(accelerator)
        assert await driver.read("configuration") == configuration_hash(accelerator, 8)
        assert await driver.read("capabilities") == capability_word(accelerator)
        await driver.write("interrupt_enable", Interrupt.DONE)
        cycles = []
        for _ in range(2):
            model.contents[:] = before
            assert await driver.read("state") == State.IDLE
            await driver.start(address, count)
            assert await driver.read("done") == 0, "done is cleared by the start"
            await driver.interrupted()
            assert await driver.read("done") == 1
            np.testing.assert_array_equal(model.contents[: len(after)], after)
            assert await driver.read("interrupt_status") == Interrupt.DONE
            assert await driver.read("error") == 0
            assert await driver.read("fetch_control") == Control.DONE | Control.IDLE
            assert await driver.read("fetch_control") == Control.IDLE
            await driver.write("interrupt_status", Interrupt.DONE)
            assert not driver.ctx.get(driver.core.interrupt)
            cycles.append(await driver.read("cycles"))
            for module in MODULES:
                busy = await driver.read(f"{module}_busy_cycles")
                stalled = await driver.read(f"{module}_stall_cycles")
                assert 0 < busy <= cycles[-1]
                assert stalled < cycles[-1]
            assert await driver.read("cycles") == cycles[-1], "the count stops at FINISH"
        assert cycles[1] < 2 * cycles[0], "the count begins at the start"

    with_core(dram, check, accelerator)


def test_each_register_has_its_reset_value() -> None:
    async def check(driver: Driver, model: DramModel) -> None:
        for register in REGISTERS:
            if register.reset is not None:
                assert await driver.read(register.name) == register.reset, register.name
        assert not driver.ctx.get(driver.core.interrupt)

    with_core(np.zeros(64, np.uint8), check)


def test_modules_run_only_what_their_start_bits_allow() -> None:
    """Without auto-restart, compute takes one instruction for each start."""

    async def check(driver: Driver, model: DramModel) -> None:
        await driver.write("insn_count", 3)
        await driver.write("fetch_control", Control.START)
        await driver.wait("fetch_control", Control.DONE | Control.IDLE)
        for _ in range(2):
            await driver.write("compute_control", Control.START)
            await driver.wait("compute_control", Control.IDLE)
            assert await driver.read("done") == 0
        await driver.write("compute_control", Control.START)
        await driver.wait("done", 1)
        await driver.write("compute_control", Control.START | Control.AUTO_RESTART)
        assert await driver.read("compute_control") == Control.START | Control.AUTO_RESTART
        await driver.write("compute_control", 0)
        assert await driver.read("compute_control") == Control.START

    no_steps = Gemm(uop_bgn=0, uop_end=0)
    with_core(program(no_steps, no_steps, Finish()), check)


def test_load_is_idle_when_the_load_that_it_was_started_for_has_ended() -> None:
    """A LOAD leaves the queue when it begins, so that others can begin beside it."""
    inp, wgt = (
        Load(memory_type=kind, sram_base=0, dram_base=0, x_size=count)
        for kind, count in ((MemoryType.INP, 32), (MemoryType.WGT, 1))
    )
    dram = np.zeros(0x200, np.uint8)
    dram[:48] = program(inp, wgt, Finish())

    async def check(driver: Driver, model: DramModel) -> None:
        await driver.write("insn_count", 3)
        await driver.write("fetch_control", Control.START)
        await driver.wait("fetch_control", Control.DONE | Control.IDLE)
        before = len(model.bursts)
        for expected in (before + 2, before + 3):  # a row of 256 bytes, one of 64
            await driver.write("load_control", Control.START)
            states = [await driver.read("load_control")]
            while states[-1] != Control.IDLE:
                states.append(await driver.read("load_control"))
            assert len(model.bursts) == expected
            assert Control.START | Control.IDLE not in states
            busy = await driver.read("load_busy_cycles")
            await driver.ctx.tick().repeat(50)
            assert await driver.read("load_busy_cycles") == busy
            assert len(model.bursts) == expected, "no other one begins"

    with_core(dram, check)


def test_an_unknown_opcode_aborts_and_the_next_start_clears_the_error() -> None:
    async def check(driver: Driver, model: DramModel) -> None:
        await driver.write("interrupt_enable", Interrupt.ERROR)
        await driver.start(0, 2)
        await driver.interrupted()
        await driver.wait("state", State.IDLE)
        assert await driver.read("error") == Error.UNKNOWN_OPCODE
        assert await driver.read("done") == 0
        assert await driver.read("interrupt_status") == Interrupt.ERROR | Interrupt.ABORTED
        await driver.write("interrupt_status", ALL)
        assert await driver.read("interrupt_status") == 0
        await driver.write("error", Error.LOAD_ANSWER)
        assert await driver.read("error") == Error.UNKNOWN_OPCODE
        await driver.start(16, 1)
        await driver.wait("done", 1)
        assert await driver.read("error") == 0

    dram = program(Finish(), Finish())
    dram[0] = UNKNOWN_OPCODE
    with_core(dram, check)


def test_instructions_outside_the_window_are_not_fetched() -> None:
    async def check(driver: Driver, model: DramModel) -> None:
        await driver.write("window_first", 0x100)
        await driver.write("window_last", 0x1FF)
        await driver.start(0xF0, 2)  # the first burst crosses the window's begin
        await driver.wait("state", State.IDLE)
        assert await driver.read("error") == Error.FETCH_OUTSIDE
        assert await driver.read("error_address") == 0xF0
        assert model.bursts == []
        await driver.write("error", Error.FETCH_OUTSIDE)
        assert await driver.read("error") == 0
        await driver.start(0x100, 1)
        await driver.wait("done", 1)
        assert await driver.read("error") == 0

    dram = np.zeros(0x200, np.uint8)
    dram[0x100:0x110] = program(Finish())
    with_core(dram, check)


def test_a_store_outside_the_window_changes_nothing() -> None:
    stores = Store(sram_base=0, dram_base=0x220 // 8, x_size=4, push_prev=True)
    dram = np.full(0x300, 0xAA, np.uint8)
    dram[:32] = program(stores, Finish(pop_next=True))

    async def check(driver: Driver, model: DramModel) -> None:
        before = model.contents.copy()
        await driver.write("window_last", 0x237)  # the last element is outside
        await driver.start(0, 2)
        await driver.wait("state", State.IDLE)
        assert await driver.read("error") == Error.STORE_OUTSIDE
        assert await driver.read("error_address") == 0x220
        assert await driver.read("done") == 0
        np.testing.assert_array_equal(model.contents, before)
        await driver.write("window_last", 0x23F)
        await driver.start(0, 2)
        await driver.wait("done", 1)
        assert np.flatnonzero(model.contents != before).tolist() == list(range(0x220, 0x240))

    with_core(dram, check)


@pytest.mark.parametrize("kind", [MemoryType.INP, MemoryType.WGT, MemoryType.UOP, MemoryType.ACC])
def test_a_load_outside_the_window_names_its_module(kind: MemoryType) -> None:
    ours = kind in (MemoryType.INP, MemoryType.WGT)
    loads = Load(memory_type=kind, sram_base=0, dram_base=64, x_size=2, push_next=ours)
    dram = np.zeros(0x1100, np.uint8)
    dram[:32] = program(loads, Finish(pop_prev=ours))

    async def check(driver: Driver, model: DramModel) -> None:
        await driver.write("window_last", 0x3F)
        await driver.start(0, 2)
        await driver.wait("state", State.IDLE)
        expected = Error.LOAD_OUTSIDE if ours else Error.COMPUTE_OUTSIDE
        assert await driver.read("error") == expected
        assert await driver.read("error_address") == 64 * element_bytes(SMALL, kind)
        assert [address for address, _ in model.bursts] == [0]

    with_core(dram, check)


@pytest.mark.parametrize("outside", [MemoryType.INP, MemoryType.WGT])
def test_an_error_of_one_load_ends_the_other_one_that_runs(outside: MemoryType) -> None:
    """Both masters of load come to rest, so that the next program finds it as after a reset."""
    kinds = (MemoryType.INP, MemoryType.WGT)
    far = {
        kind: 64 * element_bytes(SMALL, MemoryType.WGT) if kind is outside else 0 for kind in kinds
    }
    loads = [
        Load(
            memory_type=kind,
            sram_base=0,
            dram_base=far[kind] // element_bytes(SMALL, kind),
            x_size=512 // element_bytes(SMALL, kind) // 8,
            y_size=4,
            x_stride=1,
            push_next=kind is MemoryType.WGT,
        )
        for kind in kinds
    ]
    words = program(*loads, Finish(pop_prev=True))
    dram = np.zeros(0x2000, np.uint8)
    dram[: len(words)] = words

    async def check(driver: Driver, model: DramModel) -> None:
        for last, error in ((far[outside] - 1, Error.LOAD_OUTSIDE), (ALL, Error(0))):
            await driver.write("window_last", last)
            await driver.start(0, 3)
            await driver.wait("state", State.IDLE)
            assert await driver.read("error") == error
            assert await driver.read("error_address") == (far[outside] if error else 0)
            assert await driver.read("done") == (not error)
        assert await driver.read("load_busy_cycles") > 0

    with_core(dram, check)


def test_transfers_count_from_their_base_registers() -> None:
    kinds = (MemoryType.WGT, MemoryType.INP, MemoryType.UOP, MemoryType.ACC)
    loads = [
        Load(memory_type=k, sram_base=0, dram_base=2, x_size=2, push_next=k is MemoryType.INP)
        for k in kinds
    ]
    store = Store(sram_base=0, dram_base=2, x_size=2, push_prev=True)
    words = program(*loads, store, Finish(pop_prev=True, pop_next=True))
    dram = np.zeros(0x6000, np.uint8)
    dram[: len(words)] = words

    async def check(driver: Driver, model: DramModel) -> None:
        names = [kind.name.lower() for kind in (*kinds, MemoryType.OUT)]
        for page, name in enumerate(names, start=1):
            await driver.write(f"{name}_base", page << 12 | 0xFFF)  # bytes in a page do not count
        await driver.start(0, 6)
        await driver.wait("done", 1)
        assert await driver.read("error") == 0
        found = sorted(address for address, _ in model.bursts if address >= 0x1000)
        sizes = [element_bytes(SMALL, kind) for kind in (*kinds, MemoryType.OUT)]
        assert found == [(n << 12) + 2 * size for n, size in enumerate(sizes, start=1)]

    with_core(dram, check)


def test_an_error_answer_of_the_bus_aborts() -> None:
    core = VtaCore(SMALL, bus_bytes=8)

    async def run(ctx: SimulatorContext) -> None:
        driver = Driver(core, ctx)
        await driver.start(0, 1)
        await driver.wait("state", State.IDLE)
        assert await driver.read("error") == Error.FETCH_ANSWER
        assert await driver.read("done") == 0

    async def answer(ctx: SimulatorContext) -> None:
        bus = core.fetch_bus
        ctx.set(bus.ar.ready, 1)
        await ctx.tick().until(bus.ar.valid)
        ctx.set(bus.ar.ready, 0)
        for last in (0, 1):
            ctx.set(bus.r.payload, {"data": 0 if last else Opcode.FINISH, "resp": 2, "last": last})
            ctx.set(bus.r.valid, 1)
            await ctx.tick().until(bus.r.ready)
        ctx.set(bus.r.valid, 0)

    simulate(core, run, background=[answer])


def test_an_abort_ends_a_program_that_hangs_and_leaves_no_tokens() -> None:
    """Compute waits for a token of load that never comes, with its queue and fetch full."""

    async def check(driver: Driver, model: DramModel) -> None:
        await driver.write("interrupt_enable", Interrupt.ABORTED)
        await driver.start(0, 12)
        await driver.ctx.tick().repeat(300)
        assert await driver.read("state") == 0
        assert await driver.read("fetch_control") == Control.START
        assert await driver.read("compute_stall_cycles") > 200
        assert await driver.read("fetch_stall_cycles") > 100
        await driver.write("command", COMMAND_ABORT)
        await driver.interrupted()
        assert await driver.read("state") == State.IDLE
        assert await driver.read("interrupt_status") == Interrupt.ABORTED
        assert await driver.read("error") == 0
        assert await driver.read("done") == 0
        # The same again, with nothing left of the first time; then one that does not wait.
        await driver.start(0, 12)
        await driver.ctx.tick().repeat(300)
        assert await driver.read("done") == 0
        await driver.write("command", COMMAND_ABORT)
        await driver.wait("state", State.IDLE)
        await driver.start(12 * 16, 1)
        await driver.wait("done", 1)

    with_core(program(*[Finish(pop_prev=True)] * 12, Finish()), check)


def test_an_abort_ends_a_long_gemm_at_once() -> None:
    gemm = Gemm(uop_bgn=0, uop_end=32, iter_out=16_000, iter_in=16_000)

    async def check(driver: Driver, model: DramModel) -> None:
        await driver.start(0, 2)
        await driver.ctx.tick().repeat(100)
        await driver.write("command", COMMAND_ABORT)
        await driver.ctx.tick().repeat(40)
        assert await driver.read("state") == State.IDLE

    with_core(program(gemm, Finish()), check)
