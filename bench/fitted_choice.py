"""What it changes to choose tilings and splits by the Ultra96's fitted costs.

Programs and splits that were chosen by the optimistic costs, and by the fitted ones, are compared
by the fitted costs. Before there were fitted costs, the compiler chose by the optimistic ones.
Nothing here was measured on a board.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench import networks, vta
from bench.exported import written
from bench.figures import Figure, publish
from bench.network_cases import cases
from bench.predicted import BOARD, COSTS, OTHERS
from edgepipe.cli.console import ConsoleProgress
from edgepipe.forecast import Forecast, ForecastOptions, forecast
from edgepipe.report.table import format_table
from vta_stages.isa.instructions import MemoryType, Opcode
from vta_stages.program import Program
from vta_stages.timing.timing_model import time_program

FITTED = "fitted"
CHOSEN_BY = ("optimistic", FITTED)
"""Names of ``predicted.COSTS``."""

SPLITS = (
    ("rule, optimistic costs", "optimistic", "rule"),
    ("search, optimistic costs", "optimistic", ""),
    ("search, fitted costs", FITTED, ""),
)
"""Ways to choose a split: a name, the costs, and ``ForecastOptions.objective``."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a program does in a run: its cycles by the fitted costs, launch included, and counts.

    ``iterations`` are the pairs of loop indices of GEMM and ALU instructions.
    """

    cycles: int
    instructions: int
    gemm_steps: int
    alu_steps: int
    iterations: int
    dma_rows: int
    dma_bytes: int

    @staticmethod
    def of(program: Program) -> Work:
        """Count the work of a program."""
        columns = program.table.columns
        timing = time_program(program, COSTS[FITTED])
        iterations = {
            opcode: columns[opcode]["iter_out"] * columns[opcode]["iter_in"]
            for opcode in (Opcode.GEMM, Opcode.ALU)
        }
        alu, load = columns[Opcode.ALU], columns[Opcode.LOAD]
        rows = np.where(load["memory_type"] == MemoryType.UOP, 1, load["y_size"])
        return Work(
            cycles=timing.cycles,
            instructions=len(program.table),
            gemm_steps=timing.gemm_steps,
            alu_steps=int((iterations[Opcode.ALU] * (alu["uop_end"] - alu["uop_bgn"])).sum()),
            iterations=int(sum(each.sum() for each in iterations.values())),
            dma_rows=int(rows.sum() + columns[Opcode.STORE]["y_size"].sum()),
            dma_bytes=sum(module.moved_bytes for module in timing.modules.values()),
        )


def program_rows(workload: networks.Workload) -> tuple[list[list[str]], list[Figure]]:
    """Return a network body's programs as rows of the table, and as figures.

    Each program computes the right bits, or the benchmark ends.
    """
    rows, figures = [], []
    for costs in CHOSEN_BY:
        work = Work.of(vta.run(workload, BOARD.accelerator, COSTS[costs]).program)
        counts = dataclasses.astuple(work)
        rows.append([workload.name, costs, *(f"{count:,}" for count in counts)])
        figures.append(
            Figure(
                name=f"{workload.name}, tilings by {costs} costs",
                value=work.cycles / 1e6,
                unit="Mcycles",
                source="timing model, fitted costs",
            )
        )
    return rows, figures


def split_rows(title: str, model: Path, progress: ConsoleProgress) -> list[list[str]]:
    """Return a network's splits as rows of the table; tilings are by the fitted costs in all.

    The first is by the rule, which builds followed before they searched for a split.
    """
    rows = []
    for name, costs, objective in SPLITS:
        board = dataclasses.replace(BOARD, timing=COSTS[costs])
        found = forecast(ForecastOptions(model=model, board=board, objective=objective), progress)
        if costs != FITTED:
            placement = {operator.name: operator.device for operator in found.operators}
            found = forecast(
                ForecastOptions(model=model, board=BOARD, placement=placement), progress
            )
        rows.append(split_row(title, name, found))
    return rows


def split_row(title: str, chosen_by: str, found: Forecast) -> list[str]:
    """Return a split as cells: its launches, and what is predicted of it by the fitted costs."""
    launches = sum(stage.device == "vta" for stage in found.stages)
    return [
        title,
        chosen_by,
        str(len(found.stages)),
        str(launches),
        f"{found.vta_ms:.1f}",
        f"{found.arm_ms:.1f}",
        f"{1e3 / found.latency_ms:.1f}",
        f"{1e3 / found.interval_ms:.1f}",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.fitted_choice", description=__doc__)
    parser.parse_args(arguments)
    rows: list[list[str]] = []
    figures: list[Figure] = []
    for workload in (
        networks.resnet18_body(),
        networks.yolov3_tiny_body(),
        vta.nanodet_body(),
        networks.mobilenet_v2_body(),
    ):
        more, made = program_rows(workload)
        rows += more
        figures += made
    names = [field.name.replace("_", " ") for field in dataclasses.fields(Work)]
    print(format_table(["network", "tilings by", *names], rows))
    print(flush=True)
    progress = ConsoleProgress()
    splits: list[list[str]] = []
    known = cases()
    for name in OTHERS:
        progress.step(name)
        with tempfile.TemporaryDirectory() as folder:
            splits += split_rows(known[name].title, written(known[name], Path(folder)), progress)
    progress.finish()
    header = ["network", "split by", "stages", "launches", "VTA ms", "ARM ms"]
    print(format_table([*header, "serial frames/s", "pipelined frames/s"], splits))
    print()
    return publish("fitted_choice", figures)


if __name__ == "__main__":
    sys.exit(main())
