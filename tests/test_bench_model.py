"""TVM's measured schedules, rebuilt: the same work, right results, times that the model meets."""

from __future__ import annotations

import dataclasses
import statistics

import numpy as np
import pytest
from levels import every

from bench import cost_fit, model
from bench.measured_layers import MeasuredLayer, measured_arm_layers, measured_layers
from bench.tvm_schedule import rebuild
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import Opcode
from vta_stages.timing.cost_model import CostModel
from vta_stages.timing.timing_model import time_program
from vta_stages.verification.verifier import verify

BOARDS = sorted(model.ACCELERATORS)


def named(board: str, chosen_set: str, name: str) -> MeasuredLayer:
    (layer,) = (item for item in measured_layers(board, chosen_set) if item.name == name)
    return layer


@pytest.mark.parametrize(("board", "chosen_set", "count"), every(2, [
    ("ultra96", "A", 10), ("pynq 1x16", "A", 10), ("pynq 4x8", "A", 10),
    ("pynq 1x16", "group", 9), ("pynq 1x16", "B", 29), ("pynq 4x8", "B", 18),
]))  # fmt: skip
def test_a_rebuilt_schedule_has_the_gemm_steps_of_its_layer(
    board: str, chosen_set: str, count: int
) -> None:
    """A step per block of products, and one to clear each accumulator entry."""
    accelerator = model.ACCELERATORS[board]
    layers = measured_layers(board, chosen_set)
    assert len(layers) == count
    for layer in layers:
        products = layer.macs * accelerator.batch // accelerator.macs_per_cycle
        entries = layer.out_size**2 * layer.out_channels // accelerator.block_out
        steps = time_program(rebuild(layer, accelerator), CostModel()).gemm_steps
        assert steps == products + entries, layer.name


def test_a_pass_of_the_alu_is_one_uop_in_a_loop_over_the_accumulators() -> None:
    layer = named("ultra96", "A", "C11")
    alu = rebuild(layer, Accelerator()).table.columns[Opcode.ALU]
    assert set(alu["uop_end"] - alu["uop_bgn"]) == {1}
    assert set(alu["iter_out"]) == {16 * 7 * 7}
    assert len(alu["iter_out"]) == 3 * 2  # three passes of two tiles


def test_the_two_outermost_loops_of_products_belong_to_the_instruction() -> None:
    layer = named("ultra96", "A", "C11")
    gemm = rebuild(layer, Accelerator()).table.columns[Opcode.GEMM]
    products = gemm["reset"] == 0
    assert set(gemm["iter_out"][products]) == {7}  # columns of the tile
    assert set(gemm["iter_in"][products]) == {3}  # columns of the kernel
    assert set((gemm["uop_end"] - gemm["uop_bgn"])[products]) == {3 * 16 * 7}


@pytest.mark.sim
@pytest.mark.parametrize(("board", "chosen_set", "name"), [
    ("ultra96", "A", "C6"),  # columns in two tiles, a rim on every side
    ("ultra96", "A", "C7"),  # threads over rows
    ("pynq 1x16", "A", "C11"),
    ("pynq 4x8", "A", "C10"),  # several input blocks in a load, four pictures
    ("pynq 1x16", "group", "7x7 1024->1024 3x3/1"),
])  # fmt: skip
def test_a_rebuilt_program_is_sound_and_computes_the_layer(
    board: str, chosen_set: str, name: str
) -> None:
    layer = named(board, chosen_set, name)
    program = rebuild(layer, model.ACCELERATORS[board])
    verify(program)
    model.check_results(layer, program)


def test_wrong_results_end_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = named("ultra96", "A", "C10")
    shape = (1, layer.out_channels, layer.out_size, layer.out_size)
    monkeypatch.setattr(model, "reference", lambda *_: np.zeros(shape, np.int8))
    with pytest.raises(SystemExit, match="ultra96: C10: the rebuilt program computes wrong"):
        model.check_results(layer, rebuild(layer, model.ACCELERATORS["ultra96"]))


@pytest.mark.parametrize("name", BOARDS)
def test_the_fitted_costs_meet_the_measured_layers(name: str) -> None:
    board = cost_fit.MeasuredBoard(model.ACCELERATORS[name], measured_layers(name, "A"))
    ratios = [board.ratio(index, model.FITTED[name]) for index in range(len(board.layers))]
    errors = model.errors_percent(ratios)
    assert statistics.median(errors) <= model.MOST_MEDIAN_PERCENT
    assert max(errors) <= model.MOST_WORST_PERCENT


KNOWN = CostModel(
    loop_cycles=3, dma_row_cycles=40, bus_efficiency_percent=60, weight_efficiency_percent=50,
    launch_cycles=10_000,
)  # fmt: skip


def board_of(cost: CostModel) -> cost_fit.MeasuredBoard:
    """Return layers that took exactly what the model says for ``cost``."""
    accelerator = model.ACCELERATORS["ultra96"]
    layers = [named("ultra96", "A", name) for name in ("C4", "C7", "C9", "C10", "C11")]
    board = cost_fit.MeasuredBoard(accelerator, layers)
    times = [board.modelled_ms(index, cost) for index in range(len(layers))]
    exact = [
        dataclasses.replace(layer, milliseconds=ms) for layer, ms in zip(layers, times, strict=True)
    ]
    return cost_fit.MeasuredBoard(accelerator, exact)


def test_a_fit_finds_the_costs_that_layers_were_measured_with() -> None:
    start = dataclasses.replace(
        KNOWN, loop_cycles=4, dma_row_cycles=50, weight_efficiency_percent=55, launch_cycles=0
    )
    board = board_of(KNOWN)
    assert cost_fit.fit(board, start) == KNOWN
    assert board.deviation(KNOWN, range(5)) == pytest.approx(0)


def test_a_fixed_cost_keeps_its_value_in_a_fit() -> None:
    start = dataclasses.replace(KNOWN, loop_cycles=4)
    assert cost_fit.fit(board_of(KNOWN), start, fixed="loop_cycles").loop_cycles == 4


def test_a_layer_left_out_is_predicted_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The layers that are left determine three costs and choose the efficiencies to start from."""
    few = {
        name: cost_fit.STEPS[name] for name in ("loop_cycles", "dma_row_cycles", "launch_cycles")
    }
    monkeypatch.setattr(cost_fit, "STEPS", few)
    monkeypatch.setattr(cost_fit, "STARTS_PERCENT", (50, 60))
    start = CostModel()
    assert cost_fit.leave_one_out(board_of(KNOWN), start) == pytest.approx([1.0] * 5)


def profile(name: str, values: tuple[int, ...], most: int | None = None) -> cost_fit.Profile:
    fits = tuple(dataclasses.replace(KNOWN, **{name: value}) for value in values)
    least = 0 if name in cost_fit.FREE_AT_ZERO else cost_fit.STEPS[name]
    return cost_fit.Profile(name=name, fits=fits, ends=(least, most))


@pytest.mark.parametrize(("found", "verdict"), [
    (profile("loop_cycles", (3,)), "determined"),
    (profile("loop_cycles", (0, 1)), "determined"),
    (profile("dma_row_cycles", (80, 90, 100)), "determined"),
    (profile("dma_row_cycles", (80, 90, 100, 110)), "at least 80 and at most 110"),
    (profile("launch_cycles", (0, 5000, 10000)), "at most 10000"),
    (profile("bus_efficiency_percent", (60, 75, 90), most=90), "at least 60"),
    (profile("bus_efficiency_percent", (5, 45, 90), most=90), "not determined"),
])  # fmt: skip
def test_a_range_says_what_the_layers_determine(found: cost_fit.Profile, verdict: str) -> None:
    assert found.verdict == verdict


def test_a_profile_refits_the_other_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slower ALU step is made up for by faster iterations of TVM's loops over single steps."""
    monkeypatch.setattr(cost_fit, "STEPS", {"alu_step_cycles": 1, "loop_cycles": 1})
    monkeypatch.setattr(cost_fit, "NEARLY", 30)
    board = board_of(KNOWN)
    layers = [
        dataclasses.replace(layer, milliseconds=layer.milliseconds * factor)
        for layer, factor in zip(board.layers, (1.001, 0.999, 1.001, 0.999, 1.001), strict=True)
    ]
    noisy = cost_fit.MeasuredBoard(board.accelerator, layers)
    steps, loops = cost_fit.profiles(noisy, KNOWN)
    assert steps.low < KNOWN.alu_step_cycles < steps.high
    sums = {fit.alu_step_cycles + fit.loop_cycles for fit in steps.fits}
    assert sums <= {4, 5, 6}
    assert (loops.name, loops.fits[0].loop_cycles) == ("loop_cycles", loops.low)


def test_errors_are_shares_of_the_measured_time() -> None:
    assert model.errors_percent([1.0, 0.8, 1.25]) == pytest.approx([0, 25, 20])


def test_the_model_of_the_cores_is_near_to_what_tvm_measured_on_them() -> None:
    """Other kernels on the same cores: 3x3 and 7x7 layers within a quarter."""
    figures = {figure.name.split(":")[0]: figure for figure in model.arm_figures()}
    layers = measured_arm_layers()
    assert [layer.name for layer in layers] == [f"C{number}" for number in range(1, 13)]
    assert layers[0].milliseconds == pytest.approx(12.95, abs=0.01)
    for layer in layers:
        modelled = figures[f"four A53 cores, {layer.name}"].value
        if layer.kernel > 1:
            assert modelled == pytest.approx(layer.milliseconds, rel=0.25), layer.name
    assert figures["four A53 cores, C1"].passed
