"""Run a camera's pipeline for a given time, and account for every frame.

    python -m bench.soak --minutes 30           on the virtual Ultra96 (make soak SOAK_MINUTES=30)
    python -m bench.soak --minutes 5 --here     on this machine, without deploys

All the time, readers follow the live page and others stop reading, and every 25th run of a VTA
stage hangs. In turn, the camera is unplugged, and the program is stopped, accounted for and started
again, on the board after a deploy or a rollback; however short the run, there is one of each.
Ctrl-C ends the run cleanly, with the figures so far.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from bench import models
from bench.figures import Figure, publish
from bench.soak.ground import Ground, Here, OnBoard
from bench.soak.life import (
    MOST_GROWTH_KIB,
    MOST_MEAN_GROWTH_KIB,
    MOST_MORE,
    MOST_STALL_S,
    Life,
    Total,
    wait,
)
from edgepipe.errors import EdgepipeError

LONGEST_LIFE_S = 300.0  # between a start of the program and the next
FEWEST_LIVES = 3  # where there are deploys: before one, after it, and after a rollback
CALM_S, UNPLUGGED_S = 15.0, 5.0
LONG_MIN = 5.0  # a run in which everything must have happened


def soak(ground: Ground, seconds: float, folder: Path, total: Total) -> None:
    """Run lives of the program and fill ``total``, until the time is over or Ctrl-C."""
    fewest = FEWEST_LIVES if ground.deploys else 1
    life_s = min(LONGEST_LIFE_S, seconds / fewest)
    end = time.monotonic() + seconds
    try:
        while (left_s := end - time.monotonic()) > 0 or total.lives < fewest:
            if ground.deploys and total.lives > 0:
                change_release(ground, total)
            live(ground, life_s if total.lives < fewest else min(life_s, left_s), folder, total)
    except (subprocess.SubprocessError, EdgepipeError) as error:
        total.violations.append(f"the run could not go on: {error}")
    except KeyboardInterrupt:
        print("interrupted: the figures so far", flush=True)


def live(ground: Ground, seconds: float, folder: Path, total: Total) -> None:
    """Run one life, in which the camera is unplugged repeatedly."""
    end = time.monotonic() + seconds
    life = Life(ground, total, folder / "errors.txt")
    was_unplugged = False
    try:
        while life.alive and (left := end - time.monotonic()) > 0:
            wait(min(CALM_S, left), life)
            total.unplugged += was_unplugged  # counts only if there was time to open it again
            if was_unplugged := end - time.monotonic() > CALM_S + UNPLUGGED_S:
                ground.unplug()
                try:
                    wait(UNPLUGGED_S, life)
                finally:
                    ground.plug()
    finally:
        life.end()
    print(
        f"{total.lives} lives, {total.delivered} frames, {total.run_again} run again after hangs, "
        f"{total.unplugged} times unplugged, {len(total.violations)} violations",
        flush=True,
    )


def change_release(ground: Ground, total: Total) -> None:
    """Deploy another release or roll back, alternately."""
    if total.deploys > total.rollbacks:
        ground.roll_back()
        total.rollbacks += 1
    else:
        ground.deploy(total.deploys + 1)
        total.deploys += 1


def figures(total: Total, minutes: float, ground: Ground) -> list[Figure]:
    """Return the table's figures with their limits."""

    def figure(
        name: str,
        value: float,
        unit: str = "",
        *,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> Figure:
        return Figure(name=name, value=value, unit=unit, at_least=at_least, at_most=at_most)

    is_long = minutes >= LONG_MIN
    growths_kib = total.growths_kib or [0]
    found = [
        figure("time", minutes, "min"),
        figure("lives of the program", total.lives, at_least=1),
        figure("pictures captured", total.captured, at_least=1),
        figure("frames delivered", total.delivered, at_least=1),
        figure("frames dropped at the end of a life", total.dropped),
        figure("frames failed", total.failed, at_most=0),
        figure("frames unaccounted for", total.unaccounted, at_most=0),
        figure("hangs, the frame run again", total.run_again, at_least=1),
        figure("frames on the fallback", total.on_fallback),
        figure("hangs that the model injected", total.injected_hangs, at_least=1),
        figure("injected hangs that went unnoticed", total.unnoticed_hangs, at_most=0),
        figure("camera unplugged", total.unplugged, at_least=1 if is_long else None),
        figure("camera opened again", total.reconnects, at_least=total.unplugged),
        figure("events that readers of the page got", total.events, at_least=1),
        figure("pictures that readers of the page got", total.pictures, at_least=1),
        figure("readers refused", total.refused),
        figure("readers dropped that had stopped reading", total.stalls, at_least=1),
        figure(
            "longest time until one was dropped", total.longest_stall_s, "s", at_most=MOST_STALL_S
        ),
        figure("samples of the process", total.samples, at_least=1),
        figure(
            "growth of resident memory in a life", max(growths_kib), "KiB", at_most=MOST_GROWTH_KIB
        ),
        figure(
            "growth of resident memory, mean of all lives",
            statistics.mean(growths_kib),
            "KiB",
            at_most=MOST_MEAN_GROWTH_KIB if is_long else None,
        ),
        figure("more descriptors in a life", total.more_descriptors, at_most=MOST_MORE),
        figure("more threads in a life", total.more_threads, at_most=MOST_MORE),
        figure("other violations", len(total.violations), at_most=0),
    ]
    if ground.deploys:
        found[2:2] = [
            figure("deploys", total.deploys, at_least=1),
            figure("rollbacks", total.rollbacks, at_least=1),
        ]
    return found


def interrupt(*_: object) -> None:
    """End the run like Ctrl-C."""
    raise KeyboardInterrupt


def main() -> int:
    """Run, print the table; return 1 after any violation."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, metavar="N")
    parser.add_argument("--here", action="store_true", help="on this machine, without deploys")
    parser.add_argument("--bundle", type=Path, metavar="FILE", help="default: NanoDet")
    options = parser.parse_args()
    if options.minutes <= 0:
        parser.error("--minutes: expected more than 0")
    signal.signal(signal.SIGTERM, interrupt)
    bundle = options.bundle or models.build("nanodet_g_coco_416", models.EXAMPLES / "calibration")
    total = Total()
    with tempfile.TemporaryDirectory(prefix="edgepipe-soak-") as name:
        folder = Path(name)
        ground = Here(bundle.resolve(), folder) if options.here else OnBoard(bundle.resolve())
        began = time.monotonic()
        try:
            soak(ground, options.minutes * 60, folder, total)
        finally:
            ground.close()
        minutes = (time.monotonic() - began) / 60
    for violation in total.violations:
        print(f"violation: {violation}")
    return publish("soak", figures(total, minutes, ground))


if __name__ == "__main__":
    raise SystemExit(main())
