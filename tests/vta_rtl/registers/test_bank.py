"""Each register of the table is read and written over AXI-Lite."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable

import pytest
from amaranth.sim import SimulatorContext
from axi_lite_master import LiteMaster
from rtl_simulation import simulate

from vta_rtl.registers.bank import OTHERS, STORED, RegisterBank
from vta_rtl.registers.register_table import BY_NAME, REGISTERS

Check = Callable[[SimulatorContext, RegisterBank, LiteMaster], Awaitable[None]]


def with_bank(check: Check) -> None:
    """Run a check beside a bank after its reset."""
    bank = RegisterBank()

    async def run(ctx: SimulatorContext) -> None:
        await check(ctx, bank, LiteMaster(bank.bus))

    simulate(bank, run)


def test_stored_registers_keep_the_bits_of_their_mask() -> None:
    async def check(ctx: SimulatorContext, bank: RegisterBank, master: LiteMaster) -> None:
        for register in STORED:
            assert await master.read(ctx, register.offset) == register.reset
        written = {}
        for number, register in enumerate(STORED):
            value = (0xA5C3_F96D * (2 * number + 1)) & 0xFFFF_FFFF
            await master.write(ctx, register.offset, value)
            written[register.name] = value & register.mask
        for register in STORED:  # no write changed another register
            assert await master.read(ctx, register.offset) == written[register.name]
            assert ctx.get(bank.stored[register.name]) == written[register.name]

    with_bank(check)


def test_other_registers_read_what_the_device_says_and_pass_writes_on() -> None:
    async def check(ctx: SimulatorContext, bank: RegisterBank, master: LiteMaster) -> None:
        for number, register in enumerate(OTHERS):
            ctx.set(bank.others[register.name], 0x8000_0000 + number)
        for number, register in enumerate(OTHERS):
            assert await master.read(ctx, register.offset) == 0x8000_0000 + number

    seen: list[tuple[str, int, int]] = []

    async def writes(ctx: SimulatorContext, bank: RegisterBank, master: LiteMaster) -> None:
        for register in OTHERS:
            await master.write(ctx, register.offset, 0x0F0F_1234, strobes=0b0101)

    bank = RegisterBank()

    async def run(ctx: SimulatorContext) -> None:
        await writes(ctx, bank, LiteMaster(bank.bus))

    async def watch(ctx: SimulatorContext) -> None:
        async for _, _, written, ones, zeros in ctx.tick().sample(
            bank.written.as_value(), bank.ones, bank.zeros
        ):
            names = [r.name for n, r in enumerate(OTHERS) if written >> n & 1]
            seen.extend((name, ones, zeros) for name in names)

    with_bank(check)
    simulate(bank, run, background=[watch])
    assert seen == [(register.name, 0x000F_0034, 0x00F0_00CB) for register in OTHERS]


def test_a_read_is_reported_to_its_register_once() -> None:
    bank = RegisterBank()
    seen: list[int] = []

    async def run(ctx: SimulatorContext) -> None:
        master = LiteMaster(bank.bus)
        for register in OTHERS:
            await master.read(ctx, register.offset, answer_wait_cycles=2)
        await master.read(ctx, STORED[0].offset)

    async def watch(ctx: SimulatorContext) -> None:
        async for _, _, read in ctx.tick().sample(bank.read.as_value()):
            if read:
                seen.append(read)

    simulate(bank, run, background=[watch])
    assert seen == [1 << number for number in range(len(OTHERS))]


def test_strobes_choose_the_bytes_that_change() -> None:
    async def check(ctx: SimulatorContext, bank: RegisterBank, master: LiteMaster) -> None:
        offset, before = BY_NAME["insn_count"].offset, 0x1122_3344
        for strobes in range(16):
            await master.write(ctx, offset, before)
            await master.write(ctx, offset, 0xAABB_CCDD, strobes=strobes)
            expected = sum(
                ((0xAABB_CCDD if strobes >> n & 1 else before) >> 8 * n & 0xFF) << 8 * n
                for n in range(4)
            )
            assert await master.read(ctx, offset) == expected

    with_bank(check)


def test_address_and_data_may_come_in_either_order_and_answers_wait() -> None:
    async def check(ctx: SimulatorContext, bank: RegisterBank, master: LiteMaster) -> None:
        offset = BY_NAME["insn_count"].offset
        waits = itertools.product((0, 1, 4), (0, 1, 4), (0, 1, 3))
        for number, (address_wait, data_wait, answer_wait) in enumerate(waits):
            await master.write(
                ctx,
                offset,
                number,
                address_wait_cycles=address_wait,
                data_wait_cycles=data_wait,
                answer_wait_cycles=answer_wait,
            )
            assert await master.read(ctx, offset, answer_wait_cycles=answer_wait) == number

    with_bank(check)


@pytest.mark.parametrize("waits", [(0,), (0, 2, 1)], ids=["at once", "with waits"])
def test_transfers_back_to_back_all_happen_in_order(waits: tuple[int, ...]) -> None:
    """All channels are offered without a pause, and answers are taken at once or after a wait."""
    bank = RegisterBank()
    bus, offset = bank.bus, BY_NAME["insn_count"].offset
    values = [0x100 + n for n in range(12)]

    async def offer(ctx: SimulatorContext, channel: object, payloads: list[object]) -> None:
        for payload in payloads:
            ctx.set(channel.payload, payload)
            ctx.set(channel.valid, 1)
            await ctx.tick().until(channel.ready)
        ctx.set(channel.valid, 0)

    async def addresses(ctx: SimulatorContext) -> None:
        await offer(ctx, bus.aw, [offset] * len(values))

    async def words(ctx: SimulatorContext) -> None:
        await offer(ctx, bus.w, [{"data": value, "strb": 0xF} for value in values])

    async def reads(ctx: SimulatorContext) -> None:
        await offer(ctx, bus.ar, [offset] * len(values))

    async def write_answers(ctx: SimulatorContext) -> None:
        for number in range(len(values)):
            await ctx.tick().repeat(waits[number % len(waits)] + 1)
            ctx.set(bus.b.ready, 1)
            await ctx.tick().until(bus.b.valid)
            ctx.set(bus.b.ready, 0)

    found: list[int] = []

    async def read_answers(ctx: SimulatorContext) -> None:
        for number in range(len(values)):
            await ctx.tick().repeat(waits[number % len(waits)] + 1)
            ctx.set(bus.r.ready, 1)
            (word,) = await ctx.tick().sample(bus.r.payload.data).until(bus.r.valid)
            found.append(word)
            ctx.set(bus.r.ready, 0)

    async def last(ctx: SimulatorContext) -> None:
        await ctx.tick().repeat(100)
        assert ctx.get(bank.stored.insn_count) == values[-1]
        assert not ctx.get(bus.b.valid)
        assert not ctx.get(bus.r.valid)

    simulate(bank, addresses, words, reads, write_answers, read_answers, last)
    assert len(found) == len(values)
    assert found == sorted(found), "a read must not see an older value than the one before it"


def test_other_offsets_read_zero_and_cannot_be_written() -> None:
    async def check(ctx: SimulatorContext, bank: RegisterBank, master: LiteMaster) -> None:
        known = {register.offset for register in REGISTERS}
        for offset in (0x004, 0x00C, 0x014, 0x1FC, 0x1004, 0x2010, 0x3FFC):
            assert offset not in known
            await master.write(ctx, offset, 0xFFFF_FFFF)
            assert await master.read(ctx, offset) == 0
        for register in STORED:
            assert await master.read(ctx, register.offset) == register.reset

    with_bank(check)
