"""Run random programs on the Verilated accelerator and on the simulator, and compare their memory.

    .venv/bin/python tests/fuzz/fuzz_rtl.py 10000                      # on all cores
    .venv/bin/python tests/fuzz/fuzz_rtl.py 1 --machine small-0.0.2 --first-seed 77 --steps 4

The seeds take turns on the accelerators of ``random_programs/machines.py``. A program that leaves
other bytes than on the simulator is made shorter, written to build/vta_rtl/findings with a waveform
of its last cycles, and printed with a command that runs it again. The exit code is 1 if there was
one, or if the programs had fewer kinds of instructions than ``--least-coverage`` percent.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from random_programs.comparison import Outcome, compare
from random_programs.coverage import Coverage
from random_programs.findings import save, save_waveform, shortened
from random_programs.generator import random_program
from random_programs.machines import MACHINES
from random_programs.program import RandomProgram

from vta_rtl.verilated.device import VerilatedDevice

CACHE = Path(__file__).resolve().parents[2] / "build/vta_rtl"
BATCH = 25
"""Programs that a process runs before it reports."""

Task = tuple[str, int, int | None]
"""The machine, seed and steps of a program."""


@cache
def device(name: str) -> VerilatedDevice:
    """Return this process' device of a machine."""
    return MACHINES[name].open(CACHE)


def run(name: str, program: RandomProgram) -> Outcome:
    """Run a program; a difference includes what the simulator or the generator refuses."""
    try:
        return compare(program, device(name), MACHINES[name].bus_bytes)
    except Exception as error:
        return Outcome(0, 0, 0, 0, f"{type(error).__name__}: {error}")


def run_batch(tasks: list[Task]) -> tuple[Coverage, list[tuple[Task, Outcome]]]:
    """Run some programs in this process."""
    coverage = Coverage()
    outcomes = []
    for name, seed, steps in tasks:
        program = random_program(MACHINES[name].accelerator, seed, steps)
        outcome = run(name, program)
        if not outcome.difference:
            coverage.add(program)
        outcomes.append(((name, seed, steps), outcome))
    return coverage, outcomes


def report(task: Task, difference: str) -> None:
    """Print how to repeat a finding, and write it to files."""
    name, seed, steps = task
    program = random_program(MACHINES[name].accelerator, seed, steps)
    shorter = shortened(program, lambda some: bool(run(name, some).difference))
    outcome = run(name, shorter)
    path = save(shorter, CACHE / "findings", name, outcome.difference or difference)
    print(f"{name}, seed {seed}: {difference}\n{len(shorter.instructions)} instructions: {path}")
    if outcome.costs:
        waveform = path.with_suffix(".vcd")
        cycles = save_waveform(shorter, MACHINES[name], outcome.costs, CACHE, waveform)
        print(f"its last {cycles} cycles: {waveform}")
    print(
        f"again: {Path(sys.executable)} tests/fuzz/fuzz_rtl.py 1 --machine {name} "
        f"--first-seed {seed} --steps {shorter.steps}",
        flush=True,
    )


def batches(tasks: list[Task]) -> Iterator[list[Task]]:
    """Yield the tasks in parts."""
    left = iter(tasks)
    while batch := list(islice(left, BATCH)):
        yield batch


def main() -> int:
    """Run the programs that the command line names."""
    parser = argparse.ArgumentParser(description="random programs on RTL and on the simulator")
    parser.add_argument("count", type=int)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--machine", action="append", choices=MACHINES, help="default: all")
    parser.add_argument("--steps", type=int, help="default: as many as the seed says")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--least-coverage", type=float, default=0.0, metavar="PERCENT")
    arguments = parser.parse_args()
    names = arguments.machine or list(MACHINES)
    for name in names:
        print(f"{name}: {MACHINES[name].accelerator.configuration}", file=sys.stderr, flush=True)
        device(name)  # the processes inherit it
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.count)
    tasks = [(names[seed % len(names)], seed, arguments.steps) for seed in seeds]

    coverage = Coverage()
    done = findings = pairs = both = one = runs = 0
    began = time.monotonic()
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for covered, outcomes in pool.map(run_batch, batches(tasks)):
            coverage.merge(covered)
            done += len(outcomes)
            for task, outcome in outcomes:
                pairs += outcome.open_pairs
                both += outcome.pairs_seen_both_ways
                one += outcome.pairs_of_one_order
                runs += outcome.runs
                if outcome.difference:
                    findings += 1
                    report(task, outcome.difference)
            rate = done / (time.monotonic() - began)
            print(
                f"{done} of {len(tasks)} programs, {findings} findings, {rate:.1f} a second, "
                f"{coverage.percent:.1f} % of kinds",
                file=sys.stderr,
                flush=True,
            )
    print(f"{done} programs in {time.monotonic() - began:.0f} s, {runs} runs, {findings} findings")
    print(
        f"pairs of transfers without a certain order: {pairs}, seen in both orders: {both}, "
        f"in one although the first was held until all others had ended: {one}"
    )
    print(coverage)
    for kind in coverage.missing() if coverage.percent >= 90 else ():
        print(f"  not: {kind}")
    return 1 if findings or coverage.percent < arguments.least_coverage else 0


if __name__ == "__main__":
    sys.exit(main())
