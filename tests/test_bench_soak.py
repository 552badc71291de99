"""The soak on this machine: its account, its end by Ctrl-C, and what counts as a violation."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from needs import built
from small_networks import build_small_bundle

from bench.soak.__main__ import UNPLUGGED_S, figures, main, soak
from bench.soak.ground import Ground, Here, OnBoard
from bench.soak.life import Life, Sample, Total, wait
from edgepipe.errors import DeployError

pytestmark = pytest.mark.sim


class Deploying(OnBoard):
    """A board that only notes deploys and rollbacks."""

    def __init__(self, done: list[str], *, fails: bool = False) -> None:
        self._done, self._fails = done, fails

    def deploy(self, number: int) -> None:
        if self._fails:
            raise DeployError("the board is full")
        self._done.append(f"deploy {number}")

    def roll_back(self) -> None:
        self._done.append("roll back")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a small bundle with a VTA stage, whose device hangs occasionally."""
    built("edgepipe-cam")
    return build_small_bundle(tmp_path_factory.mktemp("soak"), board="ultra96")


def published(life: Life) -> dict[str, Any]:
    """Return what the program's statistics say now."""
    live: dict[str, Any] = json.loads(Path(f"/dev/shm/edgepipe-{life._number}-0.json").read_text())
    return live["live"]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_every_frame_is_accounted_for_until_a_signal(
    bundle: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    unplugged = 0

    def wait_for_what_counts(seconds: float, life: Life) -> None:
        """Wait as long as it takes instead of for a time; end the run when all has happened."""
        nonlocal unplugged

        def all_goes_well() -> bool:
            live = published(life)
            hung = any(stage["retries"] for stage in live["pipeline"]["stages"])
            back = live["source"]["reconnects"] >= unplugged and not live["source"]["outage_s"]
            return hung and back and life._readers.pictures > 0

        if seconds == UNPLUGGED_S and unplugged == 1:
            until(lambda: bool(life._stalled.waits_s))
            signal.raise_signal(signal.SIGTERM)
        elif seconds == UNPLUGGED_S:
            unplugged += 1
            until(lambda: published(life)["source"]["outage_s"] > 0)
        else:
            until(all_goes_well)
        life.sample()

    monkeypatch.setattr("bench.soak.__main__.wait", wait_for_what_counts)
    monkeypatch.setattr(sys, "argv", ["soak", "--here", "--bundle", str(bundle)])
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGTERM)
    try:
        code = main()
    finally:
        signal.signal(signal.SIGTERM, before)
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert "interrupted: the figures so far" in printed
    entries = json.loads((tmp_path / "build/bench/soak.json").read_text())
    found = {entry["name"]: entry["value"] for entry in entries}
    assert found["frames delivered"] == found["pictures captured"] > 25
    assert found["frames unaccounted for"] == 0
    assert found["hangs, the frame run again"] >= found["hangs that the model injected"] >= 1
    assert found["injected hangs that went unnoticed"] == 0
    assert found["camera opened again"] >= found["camera unplugged"] == 1
    assert found["events that readers of the page got"] > 0
    assert found["readers dropped that had stopped reading"] >= 1
    assert found["longest time until one was dropped"] >= 5
    assert found["samples of the process"] == 2  # none while the camera was away


def test_a_short_run_deploys_once_and_rolls_back_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def live(ground: Ground, seconds: float, folder: Path, total: Total) -> None:
        total.lives += 1
        done.append("live")
        assert seconds <= 0.1
        time.sleep(seconds)

    monkeypatch.setattr("bench.soak.__main__.live", live)
    soak(Deploying(done), 0.3, tmp_path, Total())
    assert done[:5] == ["live", "deploy 1", "live", "roll back", "live"]


def test_a_deploy_that_fails_ends_the_run_with_a_violation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def live(ground: Ground, seconds: float, folder: Path, total: Total) -> None:
        total.lives += 1

    monkeypatch.setattr("bench.soak.__main__.live", live)
    total = Total()
    soak(Deploying([], fails=True), 60, tmp_path, total)
    assert total.violations == ["the run could not go on: the board is full"]
    found = {one.name: one for one in figures(total, 1, Deploying([]))}
    assert found["deploys"].passed is False
    assert found["rollbacks"].passed is False


def test_what_a_sample_of_the_process_says() -> None:
    said = "VmRSS:\t   45056 kB\nThreads:\t9\n31\n"
    camera = '{"live": {"source": {"outage_s": %s}}}\n'
    assert Sample.parse(said + camera % "0.0") == Sample(
        resident_kib=45056, descriptors=31, threads=9
    )
    assert Sample.parse(said + camera % "1.5") is None
    with pytest.raises(ValueError, match="not enough values"):
        Sample.parse("0\n")


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
        ("injected hangs that went unnoticed", {"unnoticed_hangs": 1}),
        ("growth of resident memory in a life", {"growths_kib": [5000, 0]}),
        ("more descriptors in a life", {"more_descriptors": 3}),
        ("more threads in a life", {"more_threads": 3}),
        ("readers dropped that had stopped reading", {"stalls": 0}),
        ("longest time until one was dropped", {"longest_stall_s": 21}),
        ("camera opened again", {"unplugged": 2, "reconnects": 1}),
    ],
)
def test_what_is_a_violation(name: str, change: dict[str, Any]) -> None:
    found = {one.name: one for one in figures(Total(**change), 1, Deploying([]))}
    assert found[name].passed is False


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("camera unplugged", {"unplugged": 0}),
        ("growth of resident memory, mean of all lives", {"growths_kib": [600, 700]}),
    ],
)
def test_what_is_a_violation_of_a_run_of_five_minutes(name: str, change: dict[str, Any]) -> None:
    for minutes, passed in (4.9, True), (5, False):
        found = {one.name: one for one in figures(Total(**change), minutes, Deploying([]))}
        assert (found[name].passed is not False) == passed
