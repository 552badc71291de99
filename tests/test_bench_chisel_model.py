"""Whole programs on upstream's Chisel VTA: the model comes within 3 % of every counted run."""

from __future__ import annotations

import pytest
from levels import every

from bench.chisel_model import CountedProgram, counted_programs, error_percent
from vta_stages.timing.timing_model import time_program

PROGRAMS = counted_programs()


@pytest.mark.parametrize("counted", every(3, PROGRAMS), ids=lambda each: each.name)
def test_the_model_comes_within_3_percent_of_the_rtl(counted: CountedProgram) -> None:
    program = counted.program()
    for run in counted.runs:
        cycles = time_program(program, run.cost).cycles
        assert abs(error_percent(cycles, run.counted_cycles)) <= 3, run


@pytest.mark.parametrize("counted", every(6, PROGRAMS), ids=lambda each: each.name)
def test_the_programs_are_those_that_were_counted(counted: CountedProgram) -> None:
    """By the costs of the HLS source, they take what those took when they were counted."""
    program = counted.program()
    for run in counted.runs:
        cycles = time_program(program, run.serial_cost).cycles
        assert cycles == pytest.approx(run.serial_model_cycles, rel=0.002), run


def test_four_networks_and_six_memories_were_counted() -> None:
    assert [len(counted.runs) for counted in PROGRAMS] == [6, 6, 6, 1]
    memories = {(run.latency_cycles, run.read_percent) for each in PROGRAMS for run in each.runs}
    assert memories == {(10, 100), (50, 100), (100, 100), (200, 100), (50, 80), (50, 50)}
