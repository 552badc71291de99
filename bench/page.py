"""The cost of the live page's readers: a pipeline's frames per second with and without them.

``edgepipe-cam`` runs a small network on synthetic pictures, 30 a second as from a camera, and as
fast as the pipeline takes them. Its own statistics count the frames. The readers are plain sockets
in another process on this machine, so they compete for its cores, as readers of a board do not.
Each of them takes all events, and one in ten also the picture of each result.
"""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import tempfile
import time
from multiprocessing.synchronize import Event
from pathlib import Path

from bench.figures import Figure, publish

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "edgepipe" / "runtime")]

import cam_programs as cam  # noqa: E402
import page_readers  # noqa: E402

COUNTS = (0, 50, 200)
ROUNDS = 5
SECONDS = 3.0  # of each measurement
CAMERA_RATE_HZ = 30
# Loads differ between the two runs of a ratio on a shared machine.
LEAST_OF_CAMERA, LEAST_OF_FASTEST = 0.95, 0.5


def read_events(url: str, count: int, connected: Event, ending: Event) -> None:
    """Follow a page with that many readers, until the end; every tenth one takes pictures too."""
    with page_readers.reading(url, count, pictures=range(0, count, 10)) as readers:
        readers.read_until(lambda: min(readers.results) > 0)
        connected.set()
        readers.read_until(ending.is_set, limit_s=10 * SECONDS)
        assert min(readers.results) > SECONDS, "a reader got hardly any results"
        assert readers.pictures_bytes > 0, "no reader got a picture"


def frames_per_second(pid: int) -> float:
    """Count a running pipeline's frames for a while."""
    frames, since = cam.delivered(pid)
    time.sleep(SECONDS)
    more_frames, until = cam.delivered(pid)
    return (more_frames - frames) / (until - since)


def with_readers(url: str, pid: int, count: int) -> float:
    """Return the frames per second while that many readers follow the page."""
    if count == 0:
        return frames_per_second(pid)
    connected, ending = multiprocessing.Event(), multiprocessing.Event()
    process = multiprocessing.Process(target=read_events, args=(url, count, connected, ending))
    process.start()
    try:
        assert connected.wait(30), "the readers could not connect"
        rate = frames_per_second(pid)
    finally:
        ending.set()
        process.join(30)
    assert process.exitcode == 0, "the readers failed"
    return rate


def measure(bundle: Path, rate_hz: int, title: str, least: float) -> list[Figure]:
    """Measure without and with readers alternately."""
    options = ["--source", "synthetic", "--rate", str(rate_hz), "--http-readers", str(max(COUNTS))]
    rates: dict[int, list[float]] = {count: [] for count in COUNTS}
    with cam.serving(bundle, options) as (url, process):
        time.sleep(1)
        for _ in range(ROUNDS):
            for count in COUNTS:
                rates[count].append(with_readers(url, process.pid, count))
    alone, *others = (statistics.median(values) for values in rates.values())
    figures = [Figure(name=f"{title}, no readers", value=alone, unit="frames/s")]
    for count, rate in zip(COUNTS[1:], others, strict=True):
        figures.append(Figure(name=f"  {count} readers", value=rate, unit="frames/s"))
        name = f"  {count} readers, of the rate without"
        figures.append(Figure(name=name, value=rate / alone, unit="x", at_least=least))
    return figures


def main() -> int:
    """Measure both rates; return 1 if a limit is missed."""
    with tempfile.TemporaryDirectory() as folder:
        bundle = cam.make_bundle(Path(folder))
        camera = f"source of {CAMERA_RATE_HZ}/s"
        figures = measure(bundle, CAMERA_RATE_HZ, camera, LEAST_OF_CAMERA)
        figures += measure(bundle, 1_000_000, "as fast as possible", LEAST_OF_FASTEST)
    return publish("page", figures)


if __name__ == "__main__":
    sys.exit(main())
