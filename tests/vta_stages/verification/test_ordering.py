"""The guarantees of tokens, compared with the closure of their happens-before relation."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vta_stages.accelerator import Accelerator
from vta_stages.errors import VerificationError
from vta_stages.isa.codec import InstructionTable, decode_table
from vta_stages.isa.instruction_buffer import encode
from vta_stages.isa.instructions import Alu, AluOp, Instruction, Load, MemoryType, Module, Store
from vta_stages.verification.ordering import check_tokens, order_instructions

STOCK = Accelerator()
# producer, consumer, the producer's flag, the consumer's flag
QUEUES = [
    (Module.LOAD, Module.COMPUTE, "push_next", "pop_prev"),
    (Module.COMPUTE, Module.LOAD, "push_prev", "pop_next"),
    (Module.COMPUTE, Module.STORE, "push_next", "pop_prev"),
    (Module.STORE, Module.COMPUTE, "push_prev", "pop_next"),
]


def fault(index: int, what: str) -> VerificationError:
    return VerificationError(f"instruction {index}: {what}")


def instruction(module: Module, flags: dict[str, bool]) -> Instruction:
    if module is Module.LOAD:
        return Load(memory_type=MemoryType.INP, sram_base=0, dram_base=0, x_size=1, **flags)
    if module is Module.STORE:
        return Store(sram_base=0, dram_base=0, x_size=1, **flags)
    return Alu(alu_opcode=AluOp.ADD, uop_bgn=0, uop_end=1, use_imm=True, **flags)


@st.composite
def ordered_programs(draw: st.DrawFn) -> tuple[InstructionTable, set[tuple[int, int]]]:
    """Draw a program in which an earlier instruction pushes each token, and its direct order."""
    modules = draw(st.lists(st.sampled_from(list(Module)), min_size=1, max_size=14))
    flags: list[dict[str, bool]] = [{} for _ in modules]
    edges: set[tuple[int, int]] = set()
    for producer, consumer, push, pop in QUEUES:
        pushes = [i for i, m in enumerate(modules) if m is producer and draw(st.booleans())]
        pops: list[int] = []
        for pushed in pushes:
            after = max([pushed, *pops])
            later = [i for i, m in enumerate(modules) if m is consumer and i > after]
            if not later:
                break
            pops.append(draw(st.sampled_from(later)))
        for pushed, popped in zip(pushes, pops, strict=False):
            flags[pushed][push] = flags[popped][pop] = True
            edges.add((pushed, popped))
    for module in Module:
        edges.update(pairwise(i for i, m in enumerate(modules) if m is module))
    program = [instruction(m, f) for m, f in zip(modules, flags, strict=True)]
    return decode_table(STOCK, encode(STOCK, program)), edges


@given(ordered_programs())
def test_clocks_count_exactly_what_happens_before(
    case: tuple[InstructionTable, set[tuple[int, int]]],
) -> None:
    table, edges = case
    count = len(table)
    before = np.zeros((count, count), np.bool_)
    for last in range(count):  # edges point forward, so one pass in order closes the relation
        for first, second in edges:
            if second == last:
                before[last] |= before[first]
                before[last, first] = True
    check_tokens(table, fault)
    ordering = order_instructions(table, fault)
    for index in range(count):
        for module in Module:
            expected = int(before[index][table.modules == module].sum())
            assert ordering.clocks[index, module] == expected


@given(ordered_programs())
def test_the_sequence_respects_every_token(
    case: tuple[InstructionTable, set[tuple[int, int]]],
) -> None:
    table, edges = case
    ordering = order_instructions(table, fault)
    assert sorted(ordering.sequence.tolist()) == list(range(len(table)))
    at = np.argsort(ordering.sequence)
    assert all(at[first] < at[second] for first, second in edges)
    for module in Module:
        places = ordering.places[table.modules == module]
        assert places.tolist() == list(range(len(places)))
