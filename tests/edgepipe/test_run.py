"""Comparison: serial against pipelined, each ratio from one round, medians over rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import small_networks

import edgepipe
from edgepipe import run
from edgepipe.run import Comparison, Round
from edgepipe.runtime.statistics import Durations, StageStatistics, Statistics


def durations(mean_ms: float) -> Durations:
    return Durations(
        count=9,
        min_ms=0.0,
        median_ms=-1.0,  # accurate only to a bucket's width, so unused
        p95_ms=0.0,
        p99_ms=0.0,
        max_ms=0.0,
        mean_ms=mean_ms,
    )


def measured(fps: float, *stage_ms: float) -> Statistics:
    return Statistics(
        submitted=9,
        delivered=9,
        dropped=0,
        failed=0,
        in_flight=0,
        slots=4,
        latency=durations(0.0),
        elapsed_s=1.0,
        frames_per_second=fps,
        stages=tuple(
            StageStatistics(
                name=f"s{n}",
                cores=(n,),
                busy=durations(ms),
                waiting=0,
                utilisation=0.5,
                retries=0,
                fallback_frames=0,
                fault="",
            )
            for n, ms in enumerate(stage_ms)
        ),
    )


# The machine slows down between rounds, so the best rates of both sides are from different rounds.
ROUNDS = (
    Round(serial=measured(100, 4, 6), pipelined=measured(160, 5, 6)),
    Round(serial=measured(50, 8, 12), pipelined=measured(80, 10, 12)),
    Round(serial=measured(20, 10, 40), pipelined=measured(24, 10, 41)),
)


def test_a_round_has_its_own_gain_and_bound() -> None:
    assert [r.gain for r in ROUNDS] == pytest.approx([1.6, 1.6, 1.2])
    assert [r.bound for r in ROUNDS] == pytest.approx([10 / 6, 20 / 12, 50 / 40])


def test_a_comparison_is_the_median_of_its_rounds() -> None:
    comparison = Comparison(rounds=ROUNDS)
    assert comparison.stage_names == ("s0", "s1")
    assert comparison.stage_ms == (8, 12)
    assert comparison.pipelined_stage_ms == (10, 12)
    assert (comparison.serial_fps, comparison.pipelined_fps) == (50, 80)
    assert comparison.gain == pytest.approx(1.6)
    assert comparison.bound == pytest.approx(20 / 12)
    assert not comparison.was_disturbed


def test_a_gain_beyond_its_bound_indicates_a_busy_machine() -> None:
    busy = Round(serial=measured(10, 50, 50), pipelined=measured(21, 50, 50))
    assert Comparison(rounds=(busy,)).was_disturbed
    quiet = Round(serial=measured(10, 50, 50), pipelined=measured(20.2, 50, 50))
    assert not Comparison(rounds=(quiet,)).was_disturbed


def test_the_frames_in_flight_are_those_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = small_networks.build_small_bundle(tmp_path)
    picture = tmp_path / "picture.ppm"
    picture.write_bytes(b"P6 16 16 255\n" + bytes(16 * 16 * 3))
    given: list[int | None] = []

    def recorded(*positional: Any, **options: Any) -> edgepipe.Pipeline:
        given.append(options.get("slots"))
        return edgepipe.load(*positional, **options)

    monkeypatch.setattr(run, "load", recorded)
    run.run_bundle(run.RunOptions(bundle=bundle, source=picture, slots=2))
    frames = run.read_frames(bundle, picture, 1)
    run.compare(bundle, frames * 2, rounds=1, slots=3)
    assert given == [2, None, None, 3, 3]
