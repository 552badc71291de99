"""Random programs leave the simulator's bytes on hardware with rectangular blocks.

Those for accelerators with square blocks run Verilated (``verilated/test_random_programs.py``).
"""

from __future__ import annotations

import numpy as np
import pytest
from amaranth.sim import SimulatorContext
from dram_model import DramModel
from random_programs.comparison import expected_dram
from random_programs.generator import random_program
from random_programs.machines import MACHINES
from rtl_simulation import simulate

from vta_rtl.device import VtaDevice

MACHINE = MACHINES["1x16x8-0.0.2"]
PROGRAMS = 5
MOST_CYCLES = 20_000


@pytest.mark.sim
def test_random_programs_leave_the_bytes_of_the_simulator() -> None:
    device = VtaDevice(MACHINE.accelerator, bus_bytes=MACHINE.bus_bytes)
    model = DramModel(
        contents=np.zeros(0, np.uint8),
        bus_bytes=MACHINE.bus_bytes,
        latency_cycles=20,
        stall_percent=10,
    )

    async def run(ctx: SimulatorContext) -> None:
        for seed in range(PROGRAMS):
            program = random_program(MACHINE.accelerator, seed)
            words, address = program.words, len(program.dram)
            model.contents = np.concatenate([program.dram, words.view(np.uint8).ravel()])
            ctx.set(device.insn_address, address)
            ctx.set(device.insn_count, len(words))
            ctx.set(device.start, 1)
            await ctx.tick()
            ctx.set(device.start, 0)
            cycles = 0
            while not ctx.get(device.done):
                await ctx.tick()
                cycles += 1
                assert cycles < MOST_CYCLES, f"seed {seed} does not end"
            found, expected = model.contents[:address], expected_dram(program)
            np.testing.assert_array_equal(found, expected, err_msg=f"seed {seed}")

    readers = (device.fetch_bus, device.load_bus, device.weight_bus, device.compute_bus)
    masters = [*(model.reads_of(bus) for bus in readers), model.writes_of(device.store_bus)]
    simulate(device, run, background=masters)


@pytest.mark.sim
def test_halves_of_an_input_element_need_no_order() -> None:
    """Instruction 36 stores to one half, which is an element of the out buffer, and instruction 39
    reads the other half."""
    program = random_program(MACHINES["1x32x16-0.0.1"].accelerator, 7379, steps=17)
    assert len(expected_dram(program)) == len(program.dram)
