"""Costs found from the times of probe programs by given costs are those costs."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from edgepipe import boards
from edgepipe.board_costs.cost_fit import KEPT, fit_costs, nearest_root
from edgepipe.board_costs.probes import EMPTY, probe_programs
from vta_stages.accelerator import Accelerator
from vta_stages.isa.codec import decode
from vta_stages.isa.instructions import Finish, Store
from vta_stages.program import Program
from vta_stages.timing.cost_model import CostModel
from vta_stages.timing.timing_model import time_program
from vta_stages.verification.verifier import verify

ROOT = Path(__file__).resolve().parents[3]
CHISEL = boards.load(str(ROOT / "examples/own_board/chisel_vta.toml"))
ULTRA96 = boards.load("ultra96")
UNUSUAL = CostModel(
    instruction_cycles=31, gemm_step_cycles=2, alu_step_cycles=5, alu_vector_step_cycles=7,
    loop_cycles=0, dma_row_cycles=37, bus_bytes=8, bus_efficiency_percent=71,
    weight_efficiency_percent=33, launch_cycles=12_345, tensor_load_cycles=9, store_row_cycles=77,
    cache_kib_cycles=55,
)  # fmt: skip


def times(
    programs: Mapping[str, Program], costs: CostModel, late_us: Callable[[], float] = lambda: 0.0
) -> dict[str, float]:
    """Return the microseconds of every program, each late by what ``late_us`` returns."""
    clock_hz = next(iter(programs.values())).accelerator.clock_hz
    return {
        name: 1e6 * time_program(program, costs).cycles / clock_hz + late_us()
        for name, program in programs.items()
    }


def kept(costs: CostModel) -> CostModel:
    """Return the default costs with those of ``costs`` that are not measured."""
    return dataclasses.replace(CostModel(), **{name: getattr(costs, name) for name in KEPT})


@pytest.fixture(scope="module")
def programs() -> dict[str, Program]:
    return probe_programs(ULTRA96.accelerator, CostModel())


SMALL = dataclasses.replace(ULTRA96, accelerator=Accelerator(block_in=8, block_out=8, batch=4))


@pytest.mark.parametrize("board", [ULTRA96, CHISEL, SMALL])
def test_the_verifier_accepts_all_programs(board: boards.Board) -> None:
    for program in probe_programs(board.accelerator, board.timing).values():
        verify(program)


@pytest.mark.parametrize("board", [ULTRA96, CHISEL], ids=lambda board: str(board.name))
def test_every_program_ends_after_its_last_store(board: boards.Board) -> None:
    """Otherwise drivers refuse it (``cpp_runtime/src/device/run_fence.h``)."""
    for name, program in probe_programs(board.accelerator, board.timing).items():
        store, end = decode(board.accelerator, program.instructions[-2:])
        assert isinstance(store, Store), name
        assert store.push_prev, name
        assert isinstance(end, Finish), name
        assert end.pop_next, name


@pytest.mark.parametrize(
    ("accelerator", "costs"),
    [
        (boards.load("pynq-z2").accelerator, UNUSUAL),
        (Accelerator(block_in=8, block_out=8, batch=4), CostModel()),
    ],
    ids=["unusual", "4x8"],
)
def test_exact_times_give_exact_costs(accelerator: Accelerator, costs: CostModel) -> None:
    programs = probe_programs(accelerator, CostModel())
    fit = fit_costs(programs, times(programs, costs), kept(costs))
    assert fit.costs == costs
    assert (fit.undetermined, fit.at_limit) == ((), ())
    assert abs(fit.error(fit.worst)) < 1e-9


@pytest.mark.networks
def test_the_costs_of_an_accelerator_whose_rows_wait_together_are_found() -> None:
    programs = probe_programs(CHISEL.accelerator, CostModel())
    fit = fit_costs(programs, times(programs, CHISEL.timing), kept(CHISEL.timing))
    found, expected = (dataclasses.asdict(c) for c in (fit.costs, CHISEL.timing))
    assert {n: v for n, v in found.items() if v != expected[n]} == {}


@pytest.mark.networks
def test_delays_of_up_to_20_us_change_costs_by_a_few_percent(programs: dict[str, Program]) -> None:
    """The launch contains the delays of the host itself."""
    late = random.Random(4)
    measured = times(programs, ULTRA96.timing, lambda: late.uniform(0, 20))
    fit = fit_costs(programs, measured, kept(ULTRA96.timing))
    found, expected = fit.costs, ULTRA96.timing
    assert found.gemm_step_cycles == expected.gemm_step_cycles
    assert found.alu_step_cycles == found.vector_step_cycles == expected.alu_step_cycles
    assert abs(found.loop_cycles - expected.loop_cycles) <= 1
    assert abs(found.instruction_cycles - expected.instruction_cycles) <= 3
    assert abs(found.dma_row_cycles - expected.dma_row_cycles) <= 3
    assert abs(found.store_row_latency(0) - expected.store_row_latency(0)) <= 3
    assert abs(found.bus_efficiency_percent - expected.bus_efficiency_percent) <= 2
    assert abs(found.weight_efficiency_percent - expected.weight_efficiency_percent) <= 2
    assert 0 <= found.launch_cycles - expected.launch_cycles <= 20e-6 * 333e6
    assert abs(found.cache_kib_cycles - expected.cache_kib_cycles) <= 20e-6 * 333e6 / 1024 + 1
    assert fit.worst != EMPTY
    assert abs(fit.error(fit.worst)) < 0.08


def test_a_cost_that_no_program_shows_is_kept_and_named(programs: dict[str, Program]) -> None:
    together = dataclasses.replace(CostModel(), reads_in_flight=4096)
    flat = {name: p for name, p in programs.items() if name != "accumulator_loads"}
    flat["accumulator_loads"] = programs["gemm_instructions"]
    board = dataclasses.replace(together, dma_row_cycles=55)
    fit = fit_costs(flat, times(flat, together), board)
    assert "dma_row_cycles" in fit.undetermined
    assert fit.costs.dma_row_cycles == 55


def test_a_time_that_no_cost_explains_is_named(programs: dict[str, Program]) -> None:
    measured = times(programs, CostModel())
    measured["gemm_loops"] = measured["gemm_half"] / 2
    fit = fit_costs(programs, measured, CostModel())
    assert fit.costs.loop_cycles == 0
    assert "loop_cycles" in fit.at_limit
    assert fit.worst == "gemm_loops"


@pytest.mark.parametrize("root", [0, 1, 17, 63.4, 100])
@pytest.mark.parametrize("start", [0, 50, 100])
def test_the_nearest_whole_number_to_a_root_is_found(root: float, start: int) -> None:
    assert nearest_root(lambda x: 3 * (x - root), start, 0, 100) == round(root)
    assert nearest_root(lambda x: 1e4 / (x + 1) - 1e4 / (root + 1), start, 0, 100) == round(root)


def test_a_function_that_does_not_change_has_no_root() -> None:
    assert nearest_root(lambda x: 1.0, 5, 0, 10) is None
