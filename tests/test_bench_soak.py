"""The soak on this machine: its account, its end by Ctrl-C, and what it calls a violation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from needs import built
from small_networks import build_small_bundle

from bench.soak.__main__ import figures
from bench.soak.ground import Here
from bench.soak.life import Life, Total, wait

pytestmark = pytest.mark.sim

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a small bundle with a VTA stage, whose device hangs now and then."""
    built("edgepipe-cam")
    return build_small_bundle(tmp_path_factory.mktemp("soak"), board="ultra96")


def start(bundle: Path, folder: Path, minutes: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "bench.soak", "--here"),
            *("--minutes", str(minutes), "--bundle", str(bundle)),
        ],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def figures_of(folder: Path) -> dict[str, float]:
    entries = json.loads((folder / "build/bench/soak.json").read_text())
    return {entry["name"]: entry["value"] for entry in entries}


def test_a_minute_accounts_for_every_frame(bundle: Path, tmp_path: Path) -> None:
    soak = start(bundle, tmp_path, 0.7)
    printed, _ = soak.communicate(timeout=300)
    assert soak.returncode == 0, printed
    found = figures_of(tmp_path)
    assert found["frames delivered"] == found["pictures captured"] > 50
    assert found["frames unaccounted for"] == 0
    assert found["hangs, the frame run again"] >= 1
    assert found["camera opened again"] >= found["camera unplugged"] >= 1
    assert found["events that readers of the page got"] > 0


def test_ctrl_c_ends_it_with_the_figures_so_far(bundle: Path, tmp_path: Path) -> None:
    soak = start(bundle, tmp_path, 60)
    time.sleep(20)
    soak.send_signal(signal.SIGINT)
    printed, _ = soak.communicate(timeout=120)
    assert "interrupted: the figures so far" in printed
    assert soak.returncode == 0, printed
    assert figures_of(tmp_path)["frames delivered"] > 0


def test_a_program_that_dies_is_a_violation(bundle: Path, tmp_path: Path) -> None:
    total = Total()
    ground = Here(bundle, tmp_path)
    try:
        life = Life(ground, total, tmp_path / "errors.txt")
        wait(2, life)
        os.kill(life._number, signal.SIGKILL)
        life.end()
    finally:
        ground.close()
    assert any("exit code -9" in one for one in total.violations)
    assert any("gave no account" in one for one in total.violations)
    by_name = {one.name: one for one in figures(total, 0.1, ground)}
    assert by_name["other violations"].passed is False


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("frames unaccounted for", {"unaccounted": 1}),
        ("frames failed", {"failed": 1}),
        ("growth of resident memory in a life", {"growth_kib": 5000}),
        ("more descriptors in a life", {"more_descriptors": 3}),
        ("more threads in a life", {"more_threads": 3}),
        ("camera opened again", {"unplugged": 2, "reconnects": 1}),
    ],
)
def test_what_is_a_violation(name: str, change: dict[str, int], tmp_path: Path) -> None:
    class Nowhere(Here):
        def __init__(self) -> None:
            pass

    total = Total(**change)  # type: ignore[arg-type]
    found = {one.name: one for one in figures(total, 1, Nowhere())}
    assert found[name].passed is False
