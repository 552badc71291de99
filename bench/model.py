"""The timing model beside measurements: TVM's schedules rebuilt, checked, timed and compared.

Each rebuilt program of sets A and group first computes the right results on the simulator. Errors
are abs(modelled / measured - 1). The costs are then fitted again, from the defaults: for each cost,
the range that fits nearly as well shows what the layers determine, and what that leaves open for
the body of ResNet-18. "Left out" is measured / modelled by a fit without that layer.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
from collections.abc import Sequence

import numpy as np

from bench import networks
from bench.cost_fit import NEARLY, STEPS, MeasuredBoard, Profile, leave_one_out, profiles, search
from bench.figures import Figure, publish
from bench.measured_layers import MeasuredLayer, measured_arm_layers, measured_layers
from bench.tvm_schedule import reference
from edgepipe import boards
from edgepipe.report.table import format_table
from edgepipe.runtime.simulator import Simulator
from vta_stages.accelerator import Accelerator
from vta_stages.compiler import compile_program
from vta_stages.isa.layout import (
    activation_shape,
    pack_activation,
    pack_weights,
    unpack_activation,
)
from vta_stages.program import Program
from vta_stages.timing.cost_model import CostModel
from vta_stages.timing.timing_model import time_program

MOST_MEDIAN_PERCENT = 10
MOST_WORST_PERCENT = 30

_ARM_CORES = 4
_STEM = "C1"
_MOST_ARM_ERROR = 0.25

BODIES = {
    "ultra96": boards.load("ultra96").accelerator,
    "pynq 1x16": boards.load("pynq-z2").accelerator,
}
"""The accelerators for which ResNet-18's body is compiled."""

# TVM kept no distance between steps on one accumulator entry: one measured layer has 4 steps.
_HAZARD_STEPS = 4
ACCELERATORS = {
    "ultra96": Accelerator(acc_hazard_steps=_HAZARD_STEPS),
    "pynq 1x16": Accelerator(clock_hz=100_000_000, acc_hazard_steps=_HAZARD_STEPS),
    "pynq 4x8": Accelerator(
        clock_hz=100_000_000, acc_hazard_steps=_HAZARD_STEPS, batch=4, block_in=8, block_out=8,
        inp_buffer_bytes_log2=16, wgt_buffer_bytes_log2=16, acc_buffer_bytes_log2=18,
    ),
}  # fmt: skip
"""The accelerators that were measured."""

FITTED = {
    "ultra96": dataclasses.replace(boards.load("ultra96").timing, cache_kib_cycles=0),
    "pynq 1x16": dataclasses.replace(boards.load("pynq-z2").timing, cache_kib_cycles=0),
    "pynq 4x8": CostModel(
        bus_bytes=8, loop_cycles=0, dma_row_cycles=30, bus_efficiency_percent=90,
        weight_efficiency_percent=90, launch_cycles=20_000,
    ),
}  # fmt: skip
"""The costs that edgepipe ships: results of ``--fit``. No board's file has batch 4.

TVM's runtime maintained no caches on these boards: its VTA_COHERENT_ACCESSES was 1.
"""


def check_results(layer: MeasuredLayer, program: Program) -> None:
    """Run a rebuilt program on the simulator; exit if its results differ from the reference."""
    accelerator = program.accelerator
    rng = np.random.default_rng(7)
    channels = layer.channels_per_group or layer.in_channels
    data = rng.integers(
        -128, 128, (accelerator.batch, layer.in_channels, layer.size, layer.size), np.int8
    )
    weights = rng.integers(
        -128, 128, (layer.out_channels, channels, layer.kernel, layer.kernel), np.int8
    )
    inputs = {
        "data": pack_activation(accelerator, data),
        "weights": pack_weights(accelerator, weights),
    }
    with Simulator(accelerator) as simulator:
        found = simulator.run_program(program, inputs)["result"].view(np.int8)
    shape = activation_shape(accelerator, layer.out_channels, layer.out_size, layer.out_size)
    result = unpack_activation(
        accelerator, found.reshape(shape), layer.out_channels, samples=accelerator.batch
    )
    if not np.array_equal(result, reference(layer, data, weights)):
        sys.exit(f"{layer.board}: {layer.name}: the rebuilt program computes wrong results")


def check_set(board: MeasuredBoard) -> None:
    """Check the results of all layers."""
    for index, layer in enumerate(board.layers):
        check_results(layer, board.program(index))


def errors_percent(ratios: Sequence[float]) -> list[float]:
    """Return the model's errors from ratios measured / modelled."""
    return [100 * abs(1 / ratio - 1) for ratio in ratios]


def fitted_figures(board: MeasuredBoard, name: str, cost: CostModel) -> list[Figure]:
    """Return the figures of set A of a board, each layer and the whole set."""
    check_set(board)
    indices = range(len(board.layers))
    ratios = [board.ratio(index, cost) for index in indices]
    by_default = CostModel(bus_bytes=cost.bus_bytes)
    left_out = leave_one_out(board, by_default)
    figures = [
        Figure(
            name=f"{name} {layer.name}: modelled",
            value=board.modelled_ms(index, cost),
            unit="ms",
            source=f"measured {layer.milliseconds:.3f} ms; measured / modelled "
            f"{ratios[index]:.2f}, left out {left_out[index]:.2f}, "
            f"by the default costs {board.ratio(index, by_default):.2f}",
        )
        for index, layer in enumerate(board.layers)
    ]
    for kind, values, limits in (
        ("error", errors_percent(ratios), (MOST_MEDIAN_PERCENT, MOST_WORST_PERCENT)),
        ("error, left out", errors_percent(left_out), (None, None)),
    ):
        for which, value, limit in (
            ("median", statistics.median(values), limits[0]),
            ("worst", max(values), limits[1]),
        ):
            figures.append(
                Figure(name=f"{name}: {which} {kind}", value=value, unit="%", at_most=limit)
            )
    return figures


def reported_figures(name: str, chosen_set: str, cost: CostModel) -> list[Figure]:
    """Return what measured / modelled is in a set that was not fitted."""
    layers = measured_layers(name, chosen_set)
    if not layers:
        return []
    board = MeasuredBoard(ACCELERATORS[name], layers)
    if chosen_set == "group":
        check_set(board)
    ratios = [board.ratio(index, cost) for index in range(len(layers))]
    return [
        Figure(
            name=f"{name} set {chosen_set}: measured / modelled, median",
            value=statistics.median(ratios),
            unit="",
            source=f"{min(ratios):.2f} to {max(ratios):.2f} in {len(layers)} layers; not fitted",
        )
    ]


def print_profiles(board: MeasuredBoard, cost: CostModel, found: Sequence[Profile]) -> None:
    """Print what the layers say about each cost, and how ALU steps and loops share their sum."""
    everyone = range(len(board.layers))
    best = min(
        (fit for profile in found for fit in profile.fits),
        key=lambda fit: board.deviation(fit, everyone),
    )
    print(
        f"fit: deviation {100 * board.deviation(best, everyone):.2f} %, shipped costs "
        f"{100 * board.deviation(cost, everyone):.2f} %; nearly as good: at most {NEARLY} times"
    )
    rows = [
        [
            profile.name,
            str(getattr(cost, profile.name)),
            str(getattr(best, profile.name)),
            f"{profile.low} to {profile.high}",
            profile.verdict,
        ]
        for profile in found
    ]
    print(format_table(["cost", "shipped", "fit", "nearly as good", "the layers say"], rows))
    (steps,) = (profile for profile in found if profile.name == "alu_step_cycles")
    rows = [
        [
            str(fit.alu_step_cycles),
            str(fit.loop_cycles),
            f"{100 * board.deviation(fit, everyone):.2f}",
        ]
        for fit in steps.fits
    ]
    print(format_table(["alu_step_cycles", "loop_cycles", "deviation %"], rows))


def body_figures(name: str, cost: CostModel, found: Sequence[Profile]) -> list[Figure]:
    """Return the time of ResNet-18's body by the shipped costs, and by all that fit nearly as well.

    The program is compiled with the shipped costs.
    """
    accelerator = BODIES[name]
    body = networks.resnet18_body()
    program = compile_program(accelerator, body.layers, body.inputs, body.outputs, cost=cost)

    def ms(each: CostModel) -> float:
        return 1e3 * time_program(program, each).cycles / accelerator.clock_hz

    fits = dict.fromkeys(fit for profile in found for fit in profile.fits)
    times = {ms(fit): fit for fit in fits}
    (steps,) = (profile for profile in found if profile.name == "alu_step_cycles")
    costs = {
        "shipped costs": (ms(cost), cost),
        "slowest ALU steps": (ms(steps.fits[-1]), steps.fits[-1]),
        "least that fits nearly as well": (min(times), times[min(times)]),
        "most that fits nearly as well": (max(times), times[max(times)]),
    }
    return [
        Figure(
            name=f"{name} {body.name}: {what}",
            value=value,
            unit="ms",
            source=", ".join(f"{key} {getattr(each, key)}" for key in STEPS),
        )
        for what, (value, each) in costs.items()
    ]


def arm_figures() -> list[Figure]:
    """Return the model of four Cortex-A53 cores beside the layers that TVM measured on them.

    The model is of edgepipe's kernels, by their instructions (``make bench-counts``); TVM's are
    others, so this shows that it is of the right size, no more. Layers of 1x1 move much data for
    each product, which the model leaves out.
    """
    timing = boards.load("ultra96").arm_timing
    figures = []
    for layer in measured_arm_layers():
        ms = 1e3 * layer.macs / timing.macs_per_cycle / timing.clock_hz / _ARM_CORES
        is_first = layer.name == _STEM
        figures.append(
            Figure(
                name=f"four A53 cores, {layer.name}: modelled"
                + (" (first layer of ResNet-18)" if is_first else ""),
                value=ms,
                unit="ms",
                at_least=layer.milliseconds * (1 - _MOST_ARM_ERROR) if is_first else None,
                at_most=layer.milliseconds * (1 + _MOST_ARM_ERROR) if is_first else None,
                source=f"TVM's kernels, measured {layer.milliseconds:.2f} ms; measured / modelled "
                f"{layer.milliseconds / ms:.2f}",
            )
        )
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if a limit is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.model", description=__doc__)
    parser.parse_args(arguments)
    figures = []
    for name, cost in FITTED.items():
        board = MeasuredBoard(ACCELERATORS[name], measured_layers(name, "A"))
        print(f"\n{name}", flush=True)
        best = search(board, CostModel(bus_bytes=cost.bus_bytes))
        found = profiles(board, best)
        print_profiles(board, cost, found)
        figures += fitted_figures(board, name, cost)
        if name in BODIES:
            figures += body_figures(name, cost, found)
        for chosen_set in ("B", "group"):
            figures += reported_figures(name, chosen_set, cost)
    figures += arm_figures()
    return publish("model", figures)


if __name__ == "__main__":
    sys.exit(main())
