"""Timelines: frames of a full pipeline in lanes that never run two stages at once."""

from __future__ import annotations

import itertools

import pytest

from edgepipe.bundle_report.model import Timeline
from edgepipe.bundle_report.timeline import timeline
from edgepipe.partition.crew_rate import StageTime

STAGES = [
    StageTime(crew="arm", ms=2.0),
    StageTime(crew="vta", ms=5.0, reads=(0,)),
    StageTime(crew="arm", ms=4.0, reads=(1,)),
]


def assert_lanes_run_one_stage_at_a_time(found: Timeline) -> None:
    for lane in range(len(found.lanes)):
        runs = sorted((r.begin_ms, r.end_ms) for r in found.runs if r.lane == lane)
        for (_, end), (begin, _) in itertools.pairwise(runs):
            assert begin >= end - 1e-9


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_lane_is_a_thread(threads: int) -> None:
    found = timeline(STAGES, {"arm": threads, "vta": 1}, slots=4, hop_ms=0.1)
    names = ["arm"] if threads == 1 else [f"arm {number + 1}" for number in range(threads)]
    assert found.lanes == (*names, "vta")
    assert_lanes_run_one_stage_at_a_time(found)


def test_the_first_frame_shown_is_number_1_and_nothing_is_outside() -> None:
    found = timeline(STAGES, {"arm": 2, "vta": 1}, slots=4, hop_ms=0.0)
    assert min(run.frame for run in found.runs) == 1
    assert min(run.begin_ms for run in found.runs) == 0
    assert max(run.end_ms for run in found.runs) == pytest.approx(found.ms)


def test_the_longest_stage_has_no_gaps_once_the_pipeline_is_full() -> None:
    found = timeline(STAGES, {"arm": 2, "vta": 1}, slots=6, hop_ms=0.0)
    vta = sorted((run.begin_ms, run.end_ms) for run in found.runs if found.lanes[run.lane] == "vta")
    assert all(begin == pytest.approx(end) for (_, end), (begin, _) in itertools.pairwise(vta))


def test_hops_are_gaps() -> None:
    found = timeline(STAGES, {"arm": 2, "vta": 1}, slots=6, hop_ms=0.5)
    vta = sorted((run.begin_ms, run.end_ms) for run in found.runs if found.lanes[run.lane] == "vta")
    gaps = [begin - end for (_, end), (begin, _) in itertools.pairwise(vta)]
    assert min(gaps) == pytest.approx(0.5)
