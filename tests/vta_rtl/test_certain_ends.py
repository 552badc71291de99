"""Tokens and bounded queues order instructions of two modules, and nothing else does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from random_programs.certain_ends import certain_ends

from vta_stages.accelerator import Accelerator
from vta_stages.isa.codec import decode_table
from vta_stages.isa.instruction_buffer import encode
from vta_stages.isa.instructions import Instruction, Load, MemoryType, Store

DEEP = Accelerator()
INPUTS = Load(memory_type=MemoryType.INP, sram_base=0, dram_base=0, x_size=1)
WEIGHTS = replace(INPUTS, memory_type=MemoryType.WGT)
BIAS = replace(INPUTS, memory_type=MemoryType.ACC)
STORE = Store(sram_base=0, dram_base=0, x_size=1)


def before(accelerator: Accelerator, program: list[Instruction], first: int, second: int) -> bool:
    """Return whether the first instruction has always ended when the second begins."""
    ends = certain_ends(decode_table(accelerator, encode(accelerator, program)))
    return bool(ends.before(np.array([first]), np.array([second]))[0])


def test_instructions_of_one_module_end_in_their_order() -> None:
    assert before(DEEP, [BIAS, BIAS], 0, 1)
    assert not before(DEEP, [BIAS, BIAS], 1, 0)


def test_loads_of_inputs_and_of_weights_run_beside_each_other() -> None:
    assert not before(DEEP, [INPUTS, WEIGHTS], 0, 1)
    assert before(DEEP, [INPUTS, WEIGHTS, INPUTS], 0, 2)


def test_a_token_orders_all_that_came_before_it() -> None:
    program = [INPUTS, replace(WEIGHTS, push_next=True), replace(BIAS, pop_prev=True), STORE]
    assert before(DEEP, program, 0, 2)
    assert before(DEEP, program, 1, 2)
    assert not before(DEEP, program, 1, 3)
    assert not before(DEEP, program, 2, 3)


def test_a_full_queue_of_instructions_delays_what_follows_for_other_modules() -> None:
    """The fourth LOAD is handed out when the second begins, and STORE after that."""
    shallow = replace(DEEP, command_queue_depth=2, load_queue_depth=2)
    program = [INPUTS, INPUTS, INPUTS, INPUTS, STORE]
    assert before(shallow, program, 0, 4)
    assert not before(shallow, program, 1, 4)
    assert not before(DEEP, program, 0, 4)
    assert not before(shallow, [INPUTS, WEIGHTS, WEIGHTS, WEIGHTS, STORE], 0, 4)


def test_an_instruction_of_compute_leaves_its_queue_when_it_ends() -> None:
    shallow = replace(DEEP, command_queue_depth=2)
    program = [BIAS, BIAS, BIAS, STORE]
    assert before(shallow, program, 0, 3)
    assert not before(shallow, program, 1, 3)


def test_a_full_queue_of_tokens_delays_who_pushes() -> None:
    """The third push waits until the second STORE is first in its queue: the first has ended."""
    narrow = replace(DEEP, token_queue_depth=1)
    pushes, pops = replace(BIAS, push_next=True), replace(STORE, pop_prev=True)
    program = [pushes, pushes, pushes, BIAS, pops, pops, pops]
    assert before(narrow, program, 4, 3)
    assert not before(narrow, program, 5, 3)
    assert not before(DEEP, program, 4, 3)


def test_each_token_is_pushed_as_soon_as_there_is_room_for_it() -> None:
    """The last BIAS waits for room for its token to store; its other one does not."""
    narrow = replace(DEEP, token_queue_depth=1)
    pushes, pops = replace(BIAS, push_next=True), replace(STORE, pop_prev=True)
    both = replace(pushes, push_prev=True)
    program = [pushes, pushes, both, pops, pops, pops, replace(INPUTS, pop_next=True), BIAS]
    assert not before(narrow, program, 3, 6)
    assert before(narrow, program, 3, 7)
