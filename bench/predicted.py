"""Predict an Ultra96's frames per second, serial and pipelined, beside what others have measured.

Nothing here was measured on a board. The networks are those for which figures are compared, at
their full size. ``edgepipe.forecast`` predicts them by several sets of costs of the accelerator;
tilings and placement are chosen anew for each set. Then ResNet-18's convolutions are compared with
TVM's schedules of them, both by the same costs.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench import model, networks, vta
from bench.cost_fit import MeasuredBoard
from bench.exported import written
from bench.figures import Figure, publish
from bench.measured_layers import measured_layers
from bench.network_cases import cases
from edgepipe import boards
from edgepipe.cli.console import ConsoleProgress
from edgepipe.forecast import Forecast, ForecastOptions, forecast
from edgepipe.report.table import format_table
from vta_stages.timing.cost_model import CostModel
from vta_stages.timing.timing_model import time_program

BOARD = boards.load("ultra96")

COSTS: Mapping[str, CostModel] = {
    "fitted": BOARD.timing,
    "optimistic": CostModel(),
    "slow ALU": dataclasses.replace(
        BOARD.timing,
        alu_step_cycles=13,
        loop_cycles=1,
        dma_row_cycles=90,
        bus_efficiency_percent=60,
        launch_cycles=25_000,
    ),
}
"""Fitted to TVM's measured layers; by the HLS source; fitted with the slowest ALU that fits nearly
as well, as ``make bench-model`` prints it.

By the last ones, the measured layers are off by at most 4.5 % (by the first, 3.2 %).
"""

RESNET18 = "resnet18"
BARS: Mapping[tuple[str, str], float] = {(RESNET18, "fitted"): 30, (RESNET18, "optimistic"): 40}
"""The least pipelined frames per second, by network and costs."""

OTHERS: Mapping[str, str] = {
    RESNET18: "measured on an Ultra96: TVM about 19 serial, 1.3 times that pipelined; "
    "DPU B1600 74.2 with one thread, 77.8 with several",
    "yolov3_tiny": "measured on a ZCU104, a larger FPGA: DPU 123 with one thread, 329 with several",
    "NanoDet-g": "",
    "mobilenet_v2": "",
}
"""The networks, and what others measured of them, if that is known."""

LAYER_COUNTS = {
    "C2": 4, "C3": 1, "C4": 1, "C5": 3, "C6": 1, "C7": 1, "C8": 3, "C9": 1, "C10": 1, "C11": 3,
}  # fmt: skip
"""How often each of TVM's measured layers occurs in ResNet-18."""


def figures(title: str, name: str, costs: str, found: Forecast) -> list[Figure]:
    """Return a network's serial and pipelined frames per second by a set of costs."""
    rates = {"serial": 1e3 / found.latency_ms, "pipelined": 1e3 / found.interval_ms}
    bars = {"pipelined": BARS.get((name, costs))}
    return [
        Figure(
            name=f"{title}: {how}, {costs} costs",
            value=rate,
            unit="frames/s",
            at_least=bars.get(how),
            source="; ".join(filter(None, ("timing model", OTHERS[name]))),
        )
        for how, rate in rates.items()
    ]


def row(title: str, costs: str, found: Forecast) -> list[str]:
    """Return what is predicted of a network as cells."""
    return [
        title,
        costs,
        str(len(found.stages)),
        f"{found.vta_ms:.1f}",
        f"{found.arm_ms:.1f}",
        f"{100 * found.vta_load:.0f}",
        f"{100 * found.arm_load:.0f}",
        f"{1e3 / found.latency_ms:.1f}",
        f"{1e3 / found.interval_ms:.1f}",
    ]


def schedule_figures() -> list[Figure]:
    """Return the cycles of ResNet-18's convolutions by edgepipe's schedule and by TVM's.

    Both without launches, of which TVM's has one for each layer. edgepipe's convolutions also add
    the residuals.
    """
    measured = MeasuredBoard(model.ACCELERATORS["ultra96"], measured_layers("ultra96", "A"))
    model.check_set(measured)
    counts = [LAYER_COUNTS[layer.name] for layer in measured.layers]
    measured_ms = sum(
        count * layer.milliseconds for count, layer in zip(counts, measured.layers, strict=True)
    )
    body = networks.resnet18_body()
    convolutions = networks.body_convolutions(body)
    with_padding = sum(map(networks.layer_macs, convolutions)) / BOARD.accelerator.macs_per_cycle
    made = []
    for costs, timing in COSTS.items():
        alone = dataclasses.replace(timing, launch_cycles=0, cache_kib_cycles=0)
        cycles = {
            "edgepipe's": vta.run(body, BOARD.accelerator, timing).cycles_of(convolutions),
            "TVM's": sum(
                count * time_program(measured.program(index), alone).cycles
                for index, count in enumerate(counts)
            ),
        }
        made += [
            Figure(
                name=f"{body.name}: its convolutions, {whose} schedule, {costs} costs",
                value=each / 1e6,
                unit="Mcycles",
                source=f"{1e3 * each / BOARD.accelerator.clock_hz:.1f} ms, "
                f"{100 * with_padding / each:.1f} % of products with padding; timing model"
                + (f"; measured {measured_ms:.1f} ms with launches" if whose == "TVM's" else ""),
            )
            for whose, each in cycles.items()
        ]
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; return 1 if a limit is missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.predicted", description=__doc__)
    parser.parse_args(arguments)
    progress = ConsoleProgress()
    known = cases()
    rows: list[list[str]] = []
    made: list[Figure] = []
    for name in OTHERS:
        case = known[name]
        with tempfile.TemporaryDirectory() as folder:
            path = written(case, Path(folder))
            for costs, timing in COSTS.items():
                progress.step(f"{name}, {costs} costs")
                board = dataclasses.replace(BOARD, timing=timing)
                found = forecast(ForecastOptions(model=path, board=board), progress)
                made += figures(case.title, name, costs, found)
                rows.append(row(case.title, costs, found))
    progress.finish()
    header = ["network", "costs", "stages", "VTA ms", "ARM ms", "VTA %", "cores %"]
    print(format_table([*header, "serial frames/s", "pipelined frames/s"], rows))
    print()
    return publish("predicted", made + schedule_figures())


if __name__ == "__main__":
    sys.exit(main())
