"""The timing model beside upstream's Chisel VTA: cycles that were counted in a simulation of it.

``chisel_programs/`` has whole programs and what they took, and says where both come from. The costs
are those of ``examples/own_board/chisel_vta.toml``, with the latency and rate of each memory.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import lzma
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.figures import Figure, publish
from edgepipe import boards
from vta_stages.isa.codec import NO_REGION
from vta_stages.program import Program
from vta_stages.timing.cost_model import CostModel
from vta_stages.timing.timing_model import INSTRUCTION_BYTES, time_program

MOST_PERCENT = 3

FOLDER = Path(__file__).parent / "chisel_programs"
BOARD = boards.load(str(Path(__file__).parents[1] / "examples/own_board/chisel_vta.toml"))

# The indices of these programs' micro-ops have the 11 bits that the buffer needs, and they were
# compiled before an accelerator said which implementation it is.
ACCELERATOR = dataclasses.replace(BOARD.accelerator, uop_index_bits=0, implementation="")


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedRun:
    """A memory, and the cycles that were counted with it.

    The memory answers after ``latency_cycles`` at ``read_percent`` of 8 bytes a cycle.
    ``serial_model_cycles`` is by the costs of the HLS source, with that memory.
    """

    latency_cycles: int
    read_percent: int
    counted_cycles: int
    serial_model_cycles: int

    @property
    def cost(self) -> CostModel:
        """The costs of the Chisel VTA with this memory.

        The board's file has those for 50 cycles: a row of a load takes 2 less, since the latency
        includes its first beat, and one of a store 9 more. The rate holds for stores, too, because
        the model has one for both, although these were not slowed down.
        """
        return dataclasses.replace(
            BOARD.timing,
            dma_row_cycles=self.latency_cycles - 2,
            store_row_cycles=self.latency_cycles + 9,
            bus_efficiency_percent=self.read_percent,
        )

    @property
    def serial_cost(self) -> CostModel:
        """The costs of the HLS source with this memory."""
        return CostModel(
            bus_bytes=BOARD.timing.bus_bytes,
            dma_row_cycles=self.latency_cycles,
            bus_efficiency_percent=self.read_percent,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedProgram:
    """A program of ``network``, and its runs."""

    name: str
    network: str
    instructions: int
    runs: tuple[CountedRun, ...]

    def program(self) -> Program:
        """Return the program's instructions as a program without constants."""
        columns = np.frombuffer(
            lzma.decompress((FOLDER / f"{self.name}.xz").read_bytes()), np.uint8
        ).reshape(INSTRUCTION_BYTES, self.instructions)
        return Program(
            accelerator=ACCELERATOR,
            instructions=np.ascontiguousarray(columns.T).view("<u8"),
            relocations=np.full(self.instructions, NO_REGION, np.uint8),
            regions=(),
            consts=b"",
        )


def counted_programs() -> tuple[CountedProgram, ...]:
    """Return the programs of ``chisel_programs/``."""
    content = json.loads((FOLDER / "counted.json").read_text(encoding="utf-8"))
    return tuple(
        CountedProgram(**{**entry, "runs": tuple(CountedRun(**run) for run in entry["runs"])})
        for entry in content["programs"]
    )


def error_percent(modelled_cycles: int, counted_cycles: int) -> float:
    """Return by how much the modelled cycles exceed the counted ones."""
    return 100 * (modelled_cycles / counted_cycles - 1)


def program_figures(counted: CountedProgram) -> list[Figure]:
    """Return how much the modelled cycles of a program exceed the counted ones, by memory."""
    program = counted.program()
    figures = []
    for run in counted.runs:
        cycles = time_program(program, run.cost).cycles
        figures.append(
            Figure(
                name=f"{counted.network}: error at latency {run.latency_cycles}, "
                f"reads at {run.read_percent} %",
                value=error_percent(cycles, run.counted_cycles),
                unit="%",
                at_least=-MOST_PERCENT,
                at_most=MOST_PERCENT,
                source=f"modelled {cycles:,}, counted {run.counted_cycles:,} cycles",
            )
        )
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if a program is off by more than the limit."""
    parser = argparse.ArgumentParser(prog="python -m bench.chisel_model", description=__doc__)
    parser.parse_args(arguments)
    figures = [figure for each in counted_programs() for figure in program_figures(each)]
    return publish("chisel_model", figures)


if __name__ == "__main__":
    sys.exit(main())
