"""The time of `edgepipe accuracy` for Fashion-MNIST's 10,000 test pictures, as a user types it.

The pictures are PNG files beside a file of labels. The command must find as many answers of the
integer network right as the benchmark itself.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from bench.figures import Figure
from bench.models import BUILD, fashion_mnist

# Three runs on two shared cores took 0.4 to 0.9 minutes, at loads of 3.3 to 4.4.
MOST_MINUTES = 3


def write_pictures(
    folder: Path, frames: Iterable[NDArray[np.uint8]], labels: Iterable[int]
) -> Path:
    """Write frames uint8[h, w, 1] as PNG files, unless they are there; return the labels' file.

    It is beside the folder and written last, so if it exists, all pictures do.
    """
    listed = folder.with_suffix(".csv")
    if listed.is_file():
        return listed
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for index, (frame, label) in enumerate(zip(frames, labels, strict=True)):
        path = folder / f"{index:05}.png"
        if not cv2.imwrite(str(path), frame):
            raise OSError(f"{path} cannot be written")
        lines.append(f"{path.name},{label}\n")
    listed.write_text("".join(lines))
    return listed


def run_command(network: Path, bundle: Path, calibration: Path, right: int) -> list[Figure]:
    """Run the command on all test pictures, of which the benchmark found ``right`` right.

    Ends the program if the command fails.
    """
    data = BUILD / "fashion_t10k"
    frames, classes = fashion_mnist("t10k")
    labels = write_pictures(data, frames, classes.tolist())
    chart = bundle.with_suffix(".svg")
    chart.unlink(missing_ok=True)
    command = [sys.executable, "-m", "edgepipe", "accuracy", str(bundle), "--json"]
    files = {
        "--network": network,
        "--calib": calibration,
        "--data": data,
        "--labels": labels,
        "--chart": chart,
    }
    for option, path in files.items():
        command += [option, str(path)]
    before, begin = _processor_seconds(), time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    seconds, busy = time.perf_counter() - begin, _processor_seconds() - before
    if done.returncode or not chart.is_file():
        drawn = "a" if chart.is_file() else "no"
        sys.exit(f"{network.name}: `edgepipe accuracy` ended with {done.returncode}, {drawn} chart")
    report = json.loads(done.stdout)
    (top,) = (figure["found"] for figure in report["figures"] if figure["name"] == "top-1")
    what = f"{network.stem}: `edgepipe accuracy`"
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    return [
        Figure(
            name=f"{what}, int8 right",
            value=round(top * report["pictures"]),
            unit=f"of {len(frames)}",
            at_least=right,
            at_most=right,
        ),
        Figure(
            name=f"{what}, time for {report['pictures']} PNG files",
            value=seconds / 60,
            unit="minutes",
            at_most=MOST_MINUTES,
            source=load,
        ),
        Figure(name=f"{what}, processor time", value=busy / 60, unit="minutes"),
    ]


def _processor_seconds() -> float:
    """Return the processor time of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
