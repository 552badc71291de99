"""The C++ pipeline's own costs: hand-over, throughput, and a soak with injected faults.

Runs the two programs of ``cpp_runtime/bench``; the folder with them is the only argument.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from bench.figures import Figure, publish

SOAK_FRAMES = 1_000_000


def run(folder: Path, program: str, *arguments: str) -> dict[str, float]:
    """Run a program of ``folder`` and return the numbers that it prints."""
    done = subprocess.run(
        [folder / f"edgepipe-bench-{program}", *arguments], stdout=subprocess.PIPE, text=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def handover_figures(found: dict[str, float]) -> list[Figure]:
    """Return hand-over and throughput beside what the machine gives in the same run."""
    return [
        Figure(name="bare futex wake", value=found["futex_us"], unit="us"),
        Figure(name="queue of mutex and condvar", value=found["condition_queue_us"], unit="us"),
        Figure(name="hand-over, second stage asleep", value=found["handover_us"], unit="us"),
        Figure(
            name="hand-over / futex wake",
            value=found["handover_us"] / found["futex_us"],
            unit="x",
            at_most=1.3,
        ),
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
    ]


def soak_figures(found: dict[str, float]) -> list[Figure]:
    """Return the soak's accounts; nothing may be lost, wrong or leaked."""
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


def main(folder: Path) -> int:
    """Run both programs; return 1 when a bar is missed."""
    figures = handover_figures(run(folder, "handover"))
    figures += soak_figures(run(folder, "soak", str(SOAK_FRAMES)))
    return publish("runtime", figures)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
