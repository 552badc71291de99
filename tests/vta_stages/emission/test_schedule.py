"""Groups wait for the right groups, with as few tokens as possible and none left at the end."""

from __future__ import annotations

import pytest
from compiler_support import STOCK
from hypothesis import given, settings
from hypothesis import strategies as st

from vta_stages.emission.schedule import Extent, Group, Schedule
from vta_stages.errors import VerificationError
from vta_stages.isa.instruction_buffer import InstructionBuffer
from vta_stages.isa.instructions import MemoryType, Module, Token
from vta_stages.verification.ordering import check_tokens, order_instructions


def fill(buffer: InstructionBuffer, module: Module) -> None:
    if module is Module.LOAD:
        buffer.load(MemoryType.INP, sram_base=0, dram_base=0, x_size=1)
    elif module is Module.STORE:
        buffer.store(sram_base=0, dram_base=0, x_size=1)
    else:
        buffer.gemm(0, 1, reset=True)


def add(schedule: Schedule, module: Module, *after: Group | None, count: int = 1) -> Group:
    with schedule.group(module, after=after) as group:
        for _ in range(count):
            fill(schedule.buffer, module)
    return group


def test_tokens_are_at_the_ends_of_groups() -> None:
    buffer = InstructionBuffer(STOCK)
    schedule = Schedule(buffer)
    load = add(schedule, Module.LOAD, count=3)
    add(schedule, Module.COMPUTE, load, count=2)
    flags = [buffer.tokens(index) for index in range(5)]
    assert flags == [0, 0, Token.PUSH_NEXT, Token.POP_PREV, 0]


def test_a_wait_that_is_implied_takes_no_token() -> None:
    buffer = InstructionBuffer(STOCK)
    schedule = Schedule(buffer)
    first = add(schedule, Module.LOAD)
    second = add(schedule, Module.LOAD)
    add(schedule, Module.COMPUTE, first, second)
    add(schedule, Module.COMPUTE, first)
    assert [buffer.tokens(index) for index in range(4)] == [
        0,
        Token.PUSH_NEXT,
        Token.POP_PREV,
        0,
    ]


def touch(schedule: Schedule, module: Module, *touched: Extent) -> Group:
    with schedule.group(module, *touched) as group:
        fill(schedule.buffer, module)
    return group


def test_groups_wait_for_groups_that_touched_the_same_elements() -> None:
    buffer = InstructionBuffer(STOCK)
    schedule = Schedule(buffer)
    low, high = (Extent(MemoryType.WGT, first, 8) for first in (0, 8))
    touch(schedule, Module.LOAD, low)
    touch(schedule, Module.COMPUTE, low, Extent(MemoryType.OUT, 0, 4))
    touch(schedule, Module.LOAD, high)  # not used before
    touch(schedule, Module.LOAD, Extent(MemoryType.WGT, 4, 1))  # overwrites what compute read
    touch(schedule, Module.STORE, Extent(MemoryType.OUT, 3, 4))
    touch(schedule, Module.COMPUTE, Extent(MemoryType.OUT, 7, 1))  # after the stored elements
    touch(schedule, Module.COMPUTE, Extent(MemoryType.OUT, 6, 1))
    assert [buffer.tokens(index) for index in range(7)] == [
        Token.PUSH_NEXT,
        Token.POP_PREV | Token.PUSH_PREV | Token.PUSH_NEXT,
        0,
        Token.POP_NEXT,
        Token.POP_PREV | Token.PUSH_PREV,
        0,
        Token.POP_NEXT,
    ]


def test_uops_are_loaded_while_compute_waits() -> None:
    buffer = InstructionBuffer(STOCK)
    schedule = Schedule(buffer)
    inputs = Extent(MemoryType.INP, 0, 1)
    touch(schedule, Module.LOAD, inputs)
    with schedule.group(Module.COMPUTE, inputs):
        buffer.load(MemoryType.UOP, sram_base=0, dram_base=0, x_size=1)
        buffer.gemm(0, 1)
    assert [buffer.tokens(index) for index in range(3)] == [Token.PUSH_NEXT, 0, Token.POP_PREV]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_program_runs_in_an_order_that_respects_all_waits(data: st.DataObject) -> None:
    buffer = InstructionBuffer(STOCK)
    schedule = Schedule(buffer)
    groups: list[Group] = []
    waits: list[tuple[Group, Group]] = []
    for _ in range(data.draw(st.integers(1, 25))):
        module = data.draw(st.sampled_from(list(Module)))
        neighbours = [g for g in groups if abs(g.module - module) == 1]
        after = data.draw(st.lists(st.sampled_from(neighbours), max_size=3)) if neighbours else []
        groups.append(add(schedule, module, *after, count=data.draw(st.integers(1, 3))))
        waits += [(groups[-1], other) for other in after]

    def fault(index: int, what: str) -> VerificationError:
        return VerificationError(f"{index}: {what}")

    table = buffer.table()
    check_tokens(table, fault)
    ordering = order_instructions(table, fault)
    for group, other in waits:
        ended = ordering.clocks[group.first, other.module]
        assert ended > ordering.places[other.last]


def test_a_group_is_not_empty() -> None:
    schedule = Schedule(InstructionBuffer(STOCK))
    with pytest.raises(AssertionError, match="empty LOAD group"), schedule.group(Module.LOAD):
        pass
