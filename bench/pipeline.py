"""Compare serial and pipelined frames per second on the demo clip, with the VTA on the simulator.

Two cuts: the default one after the first convolution, where the simulated VTA stage takes most of
the time, and a later one, where host kernels and simulator take about the same time. Outputs of
serial and pipelined runs are compared before anything is timed.
"""

from __future__ import annotations

import sys

from bench.figures import Figure, publish
from bench.models import EXAMPLES, build
from edgepipe.bundle import storage
from edgepipe.run import Comparison, compare, read_frames

NETWORK = "nanodet_g_coco_416"
FRAMES = 60
ROUNDS = 9


def balanced_cut() -> str:
    """Return the convolution that is preceded by about half of the multiplications."""
    manifest = storage.read_manifest(build(NETWORK, EXAMPLES / "calibration"))
    convolutions = [p.operator for p in manifest.placement if p.kind == "conv"]
    return convolutions[len(convolutions) // 3]


def figures(label: str, comparison: Comparison) -> list[Figure]:
    """Return the figures of one cut; the gain must reach its bound to within 10 %."""
    stages = zip(comparison.stage_names, comparison.stage_ms, strict=True)
    return [
        *(Figure(name=f"{label}: stage {n}", value=ms, unit="ms") for n, ms in stages),
        Figure(name=f"{label}: serial", value=comparison.serial_fps, unit="frames/s"),
        Figure(name=f"{label}: pipelined", value=comparison.pipelined_fps, unit="frames/s"),
        Figure(name=f"{label}: gain", value=comparison.gain, unit="x", at_least=1.0),
        Figure(name=f"{label}: bound, (t1+..+tn)/max", value=comparison.bound, unit="x"),
        Figure(
            name=f"{label}: gain / bound",
            value=comparison.gain / comparison.bound,
            unit="",
            at_least=0.9,
            at_most=1.1,
        ),
    ]


def main() -> int:
    """Measure both cuts; return 1 if a limit is missed."""
    calibration = EXAMPLES / "calibration"
    default = build(NETWORK, calibration)
    frames = read_frames(default, EXAMPLES / "pedestrians.avi", FRAMES)
    found = figures("default cut", compare(default, frames, rounds=ROUNDS))
    balanced = build(NETWORK, calibration, cuts=(balanced_cut(),))
    found += figures("balanced cut", compare(balanced, frames, rounds=ROUNDS))
    return publish("pipeline", found)


if __name__ == "__main__":
    sys.exit(main())
