"""A program that ran otherwise than on the simulator: made shorter, and written to files, with the
signals of its last cycles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from vta_rtl.verilated.memory_costs import MemoryCosts
from vta_rtl.verilated.waveforms import WaveformRecorder
from vta_stages.disassembler import Listing

from .comparison import MOST_CYCLES
from .generator import random_program
from .machines import Machine
from .program import RandomProgram


def shortened(program: RandomProgram, fails: Callable[[RandomProgram], bool]) -> RandomProgram:
    """Return the shortest beginning of a failing program that ``fails``, with a FINISH of its own.

    It is tried from the shortest one on.
    """
    for steps in range(program.steps):
        shorter = random_program(program.accelerator, program.seed, steps)
        if fails(shorter):
            return shorter
    return program


def save(program: RandomProgram, folder: Path, name: str, difference: str) -> Path:
    """Write ``NAME-SEED.npz`` (instructions and DRAM before, as the recorded vectors have them) and
    ``NAME-SEED.txt`` (the difference, and the instructions); return the path of the text."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{program.seed}.txt"
    np.savez_compressed(path.with_suffix(".npz"), insns=program.words, dram_before=program.dram)
    path.write_text("\n".join([difference, *Listing(program.table).lines(), ""]))
    return path


def save_waveform(
    program: RandomProgram, machine: Machine, costs: MemoryCosts, cache: Path, path: Path
) -> int:
    """Write the last cycles of a program's run with such costs; return how many they are.

    The accelerator is compiled with waveforms if ``cache`` does not have it.
    """
    recorder = WaveformRecorder(lambda: machine.library(cache, waveforms=True), path.parent)
    return recorder.write(path, program.words, program.dram, costs, MOST_CYCLES)
