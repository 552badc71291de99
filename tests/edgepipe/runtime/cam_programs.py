"""edgepipe-cam as a process on a small real bundle, for its tests."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pipeline_bundles as bundles
from needs import built


def make_bundle(folder: Path) -> Path:
    """Write a bundle that classifies frames of 16x16 pixels in BGR."""
    network = bundles.make_network()
    (frame,) = bundles.frames(1)
    golden = {"frame": frame, "scores": network.run(frame)}
    return bundles.write_bundle(folder / "tiny", bundles.compile_files(network), golden)


def run(
    bundle: Path,
    options: Sequence[str],
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    start: Callable[[], None] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run the program to its end; ``start`` is called in its process, before it starts."""
    command = [str(built("edgepipe-cam")), str(bundle), "--no-pin", *options]
    return subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        timeout=120,
        check=False,
        env=environment,
        preexec_fn=start,
    )


def has_published(pid: int) -> bool:
    """Return whether a pipeline has published its statistics for the first time."""
    return _statistics(pid).exists()


def _statistics(pid: int) -> Path:
    return Path(f"/dev/shm/edgepipe-{pid}-0.json")


def delivered(pid: int) -> tuple[int, float]:
    """Return the frames that a running pipeline has delivered, and its age in seconds."""
    published = json.loads(_statistics(pid).read_text())
    return published["live"]["pipeline"]["delivered"], published["uptime_s"]


@contextmanager
def serving(bundle: Path, options: Sequence[str]) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run the program with its page on a free port; yield the page's address and the process."""
    page = ("--http", "127.0.0.1:0")
    command = [str(built("edgepipe-cam")), str(bundle), "--no-pin", *page, *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = re.match(r"page: http://[\d.]+:(\d+)/", process.stderr.readline())
        assert found
        yield f"http://127.0.0.1:{found.group(1)}/", process
    finally:
        process.kill()
        process.communicate()
