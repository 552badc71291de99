"""What cocotb runs: programs on the core, with pauses and with error answers."""

from __future__ import annotations

import os
from itertools import count
from typing import Any

import cocotb
import numpy as np
from cocotbext.axi import AxiResp
from random_programs.comparison import expected_dram
from random_programs.generator import random_program
from random_programs.machines import MACHINES
from random_programs.program import RandomProgram

from vta_rtl.isa.names import MASTERS
from vta_rtl.registers.register_table import Error
from vta_stages.isa.instructions import Load, MemoryType, Store

from .devices import Board

MACHINE = MACHINES[os.environ["RTL_BUSES_MACHINE"]]
ANSWER = {master: Error[f"{module.upper()}_ANSWER"] for master, module in MASTERS.items()}


def program(seed: int) -> RandomProgram:
    """Return a program with a few steps."""
    return random_program(MACHINE.accelerator, seed, 6)


def uses_all_masters(some: RandomProgram) -> bool:
    """Return whether a program reads inputs, weights and something for compute, and writes."""
    kinds = {
        each.memory_type if isinstance(each, Load) else MemoryType.OUT
        for each in some.instructions
        if isinstance(each, Load | Store) and each.x_size * each.y_size > 0
    }
    needed = {MemoryType.INP, MemoryType.WGT, MemoryType.OUT}
    return kinds > needed


WHOLE = next(some for some in map(program, count()) if uses_all_masters(some))


async def board(dut: Any) -> Board:
    """Return the core after reset."""
    found = Board(dut, MACHINE.bus_bytes)
    await found.start()
    return found


async def check(on: Board, some: RandomProgram) -> None:
    """Run a program and compare all of memory with the simulator's."""
    error, after = await on.run(some.words, some.dram)
    assert error == Error(0), error
    np.testing.assert_array_equal(after, expected_dram(some))


@cocotb.test()
async def programs_leave_the_bytes_of_the_simulator(dut: Any) -> None:
    core = await board(dut)
    for seed in range(3):
        await check(core, program(seed))
    assert all(core.bursts.values()), "a master was not used"


@cocotb.test()
async def pauses_of_all_channels_change_nothing(dut: Any) -> None:
    core = await board(dut)
    for seed, percent in ((3, 20), (4, 50), (5, 80)):
        core.pause(percent)
        await check(core, program(seed))


@cocotb.test()
async def error_answers_end_the_program_and_name_the_module(dut: Any) -> None:
    core = await board(dut)
    core.pause(20)
    for master in MASTERS:
        for answer in (AxiResp.SLVERR, AxiResp.DECERR):
            core.faults[master] = answer
            error, _ = await core.run(WHOLE.words, WHOLE.dram)
            assert not core.faults, f"{master}: no answer"
            assert error == ANSWER[master], f"{master}, {answer!r}: {error!r}"
            assert await core.read("interrupt_status") & 6, "no interrupt of an error"
            await check(core, WHOLE)  # the next program runs


@cocotb.test()
async def an_exclusive_okay_is_no_error(dut: Any) -> None:
    core = await board(dut)
    core.faults = dict.fromkeys(MASTERS, AxiResp.EXOKAY)
    await check(core, WHOLE)
    assert not core.faults
