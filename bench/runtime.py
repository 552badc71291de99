"""The overhead of the C++ pipeline: handover, hops, throughput, start, a soak with injected faults.

Runs the programs of ``cpp_runtime/bench`` and edgepipe-run. The arguments are the folder of these
programs and a bundle. Other work on the machine disturbs single rounds, so each figure is a median.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench import frame_cost
from bench.figures import Figure, publish

SOAK_FRAMES = 1_000_000
ROUNDS = 5
START_ROUNDS = 11


def run(folder: Path, program: str, *arguments: str) -> dict[str, float]:
    """Run a program of ``folder`` and return the numbers that it prints."""
    done = subprocess.run(
        [folder / f"edgepipe-bench-{program}", *arguments], stdout=subprocess.PIPE, text=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    """Return the median of each number over the rounds."""
    return {name: statistics.median(found[name] for found in rounds) for name in rounds[0]}


def ratio(rounds: list[dict[str, float]], name: str, beside: str) -> float:
    """Return the median ratio of two numbers of the same round."""
    return statistics.median(found[name] / found[beside] for found in rounds)


def handover_figures(rounds: list[dict[str, float]]) -> list[Figure]:
    """Return the handover next to other queues and bare wake-ups, measured in the same run."""
    found = medians(rounds)
    rows = (
        ("asleep: bare futex wake", "futex_us"),
        ("asleep: handover", "asleep_us"),
        ("asleep: queue of mutex and condvar", "condition_queue_us"),
        ("asleep: GStreamer queue", "gstreamer_queue_us"),
        ("spinning: cache line, one way", "cache_line_us"),
        ("spinning: handover", "spinning_us"),
        ("spinning: boost::lockfree::spsc_queue", "boost_queue_us"),
    )
    return [
        *(Figure(name=name, value=found[key], unit="us") for name, key in rows),
        Figure(
            name="asleep: handover / futex wake",
            value=ratio(rounds, "asleep_us", "futex_us"),
            unit="x",
            at_most=1.3,
        ),
        Figure(
            name="spinning: handover / cache line",
            value=ratio(rounds, "spinning_us", "cache_line_us"),
            unit="x",
            at_most=2.0,
        ),
    ]


def hop_figures(rounds: list[dict[str, float]]) -> list[Figure]:
    """Return time and allocations of hops between the crews of a network of 60 stages."""
    found = medians(rounds)
    return [
        Figure(name=f"60 hops, {state}: time of a hop", value=found[key], unit="us", at_most=15)
        for state, key in (("one frame", "hop_alone_us"), ("six frames", "hop_full_us"))
    ] + [
        Figure(
            name="60 hops: throughput x busier crew",
            value=found["crew_efficiency"],
            unit="",
            at_least=0.9,
        ),
        Figure(
            name="60 hops: allocations per frame",
            value=max(one["allocations_per_frame"] for one in rounds),
            unit="",
            at_most=0,
        ),
    ]


def throughput_figures(rounds: list[dict[str, float]]) -> list[Figure]:
    """Return throughput, idle time and allocations."""
    found = medians(rounds)
    return [
        *(
            Figure(
                name=f"two stages of {ms} ms: throughput x slower stage",
                value=found[f"efficiency_{ms}ms"],
                unit="",
                at_least=0.95,
            )
            for ms in (5, 20)
        ),
        Figure(name="idle pipeline", value=found["idle_percent"], unit="% of a core", at_most=1),
        Figure(
            name="allocations per frame", value=found["allocations_per_frame"], unit="", at_most=0
        ),
    ]


def start_figures(program: Path, bundle: Path) -> list[Figure]:
    """Return the time from the start of edgepipe-run to the first result of the golden frame."""
    times = [first_frame_ms(program, bundle) for _ in range(START_ROUNDS)]
    return [
        Figure(
            name=f"{bundle.stem}: start to first frame",
            value=statistics.median(times),
            unit="ms",
            at_most=200,
        )
    ]


def check_figures(programs: Path, bundle: Path) -> list[Figure]:
    """Return the time to check the bundle's VTA programs, which is part of the start."""
    found = medians([run(programs, "check", str(bundle)) for _ in range(ROUNDS)])
    return [
        Figure(
            name=f"{bundle.stem}: check of a program, first slot",
            value=found["first_ms"],
            unit="ms",
        ),
        Figure(
            name=f"{bundle.stem}: check of a program, further slots",
            value=found["further_ms"],
            unit="ms",
        ),
    ]


def first_frame_ms(program: Path, bundle: Path) -> float:
    """Run the golden frame; return the milliseconds from the process's start to its first line."""
    start = time.monotonic()
    command: list[str | Path] = [program, bundle, "--golden", "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        elapsed_ms = (time.monotonic() - start) * 1000
    if process.returncode != 0 or not line:
        raise SystemExit(f"{program}: the golden run of {bundle} failed")
    return elapsed_ms


def soak_figures(found: dict[str, float]) -> list[Figure]:
    """Return the soak's counts; nothing may be lost, wrong or leaked."""
    counts = ("delivered", "dropped", "failed", "lives", "thrown", "out_of_memory", "reported")
    return [
        Figure(name="soak: frames", value=found["submitted"], unit="", at_least=SOAK_FRAMES),
        *(Figure(name=f"soak: {name}", value=found[name], unit="") for name in (*counts, "hung")),
        Figure(name="soak: frames unaccounted for", value=found["unaccounted"], unit="", at_most=0),
        Figure(
            name="soak: results wrong or out of order", value=found["wrong"], unit="", at_most=0
        ),
        Figure(
            name="soak: memory growth after a tenth",
            value=found["memory_growth_kb"],
            unit="kB",
            at_most=1024,
        ),
        Figure(
            name="soak: throughput", value=found["submitted"] / found["seconds"], unit="frames/s"
        ),
    ]


def main(programs: Path, bundle: Path) -> int:
    """Run everything, alternating handover and throughput; return 1 if a limit is missed."""
    handovers, hops, throughputs = [], [], []
    for _ in range(ROUNDS):
        handovers.append(run(programs, "handover"))
        hops.append(run(programs, "hops"))
        throughputs.append(run(programs, "throughput"))
    figures = handover_figures(handovers) + hop_figures(hops) + throughput_figures(throughputs)
    figures += start_figures(programs / "edgepipe-run", bundle)
    figures += check_figures(programs, bundle)
    figures += frame_cost.figures()
    figures += soak_figures(run(programs, "soak", str(SOAK_FRAMES)))
    return publish("runtime", figures)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
