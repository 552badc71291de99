"""Time deploys to the virtual Ultra96: the first one of NanoDet, and an unchanged one.

The virtual board is started for this (cached in ``build/test-board``, as for ``make test-board``)
and stopped afterwards. Its four cores are emulated, so the times depend on this machine and its
load, which is printed too.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

from bench import models
from bench.figures import Figure, publish
from edgepipe import boards
from edgepipe.cli.console import ConsoleProgress
from edgepipe.deploy import deployment
from edgepipe.deploy.connection import Target
from edgepipe.deploy.deployment import DeployOptions, Source
from edgepipe.progress import Silent
from edgepipe.virtual_board.board import SSH_HOST, VirtualBoard
from edgepipe.virtual_board.fpga_model import FpgaOptions

REPEATS = 5
FIRST_S, UNCHANGED_S = 15.0, 3.0  # on an otherwise idle machine


class StepTimes(Silent):
    """Adds up the duration of each step, keyed by its first words."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._step = ""
        self._began = 0.0

    def step(self, text: str) -> None:
        """End the previous step and begin this one."""
        now = time.monotonic()
        if self._step:
            self.seconds[self._step] = self.seconds.get(self._step, 0.0) + now - self._began
        self._step, self._began = " ".join(text.split()[:2]).rstrip(" 0123456789"), now


def timed(board: VirtualBoard, source: Source, root: str) -> tuple[str, float, StepTimes]:
    """Deploy once; return the result, the total seconds, and the seconds of each step."""
    target = Target(host=SSH_HOST, root=root, ssh_config=board.ssh_config)
    steps = StepTimes()
    began = time.monotonic()
    outcome = deployment.deploy(target, source, DeployOptions(operator="bench"), steps)
    seconds = time.monotonic() - began
    steps.step("")
    return outcome.result, seconds, steps


def measure(board: VirtualBoard, bundle: Path) -> list[Figure]:
    """Deploy the bundle for the first time, then unchanged."""
    source = deployment.open_source(bundle)
    result, first_s, steps = timed(board, source, "bench")
    assert result == "deployed", result
    figures = [Figure(name="first deploy of NanoDet", value=first_s, unit="s", at_most=FIRST_S)]
    figures += [Figure(name=f"  {name}", value=s, unit="s") for name, s in steps.seconds.items()]
    again = []
    for _ in range(REPEATS):
        result, seconds, steps = timed(board, source, "bench")
        assert result == "unchanged", result
        again.append(seconds)
    median = statistics.median(again)
    name = f"unchanged deploy, median of {REPEATS}"
    figures.append(Figure(name=name, value=median, unit="s", at_most=UNCHANGED_S))
    figures += [Figure(name=f"  {name}", value=s, unit="s") for name, s in steps.seconds.items()]
    return figures


def main() -> int:
    """Build, start, measure and stop; return 1 if a limit is missed."""
    bundle = models.build("nanodet_g_coco_416", models.EXAMPLES / "calibration")
    progress = ConsoleProgress()
    ultra96 = boards.load("ultra96")
    board = VirtualBoard(folder=models.ROOT / "build" / "test-board")
    board.down()
    board.up(fpga=FpgaOptions(accelerator=ultra96.accelerator), progress=progress)
    try:
        progress.step("deploy")
        figures = measure(board, bundle)
        progress.finish()
    finally:
        board.down()
    load, _, _ = os.getloadavg()
    figures.append(Figure(name="load of this machine", value=load, unit=f"of {os.cpu_count()}"))
    return publish("deploy", figures)


if __name__ == "__main__":
    raise SystemExit(main())
