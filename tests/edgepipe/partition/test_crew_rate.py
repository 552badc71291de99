"""The simulated frame rate of stages that two crews share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.partition.crew_rate import StageTime, crew_rate


def chain(*times: tuple[str, float]) -> list[StageTime]:
    return [
        StageTime(crew=crew, ms=ms, reads=(number - 1,) if number else ())
        for number, (crew, ms) in enumerate(times)
    ]


def test_one_frame_at_a_time_takes_the_sum_of_all_stages() -> None:
    rate = crew_rate(chain(("arm", 2), ("vta", 5), ("arm", 1)), {"arm": 1, "vta": 1}, slots=1)
    assert rate.interval_ms == pytest.approx(8)
    assert rate.latency_ms == pytest.approx(8)


def test_two_crews_work_at_once() -> None:
    rate = crew_rate(chain(("arm", 2), ("vta", 5), ("arm", 1)), {"arm": 1, "vta": 1}, slots=4)
    assert rate.interval_ms == pytest.approx(5)
    assert rate.share == pytest.approx(1)
    assert rate.loads["vta"] == pytest.approx(1, abs=0.05)


def test_several_threads_of_a_crew_share_its_stages() -> None:
    stages = chain(*[("arm", 4.0), ("vta", 2.0)] * 3)
    alone = crew_rate(stages, {"arm": 1, "vta": 1}, slots=8)
    shared = crew_rate(stages, {"arm": 3, "vta": 1}, slots=8)
    assert alone.interval_ms == pytest.approx(12, rel=0.05)
    assert shared.interval_ms == pytest.approx(6, rel=0.1)


def test_a_stage_runs_one_frame_at_a_time() -> None:
    rate = crew_rate(chain(("arm", 6), ("vta", 1)), {"arm": 3, "vta": 1}, slots=8)
    assert rate.interval_ms == rate.bound_ms == pytest.approx(6)


def test_every_stage_costs_a_hop() -> None:
    rate = crew_rate(chain(("arm", 1), ("vta", 1)), {"arm": 1, "vta": 1}, slots=1, hop_ms=0.5)
    assert rate.interval_ms == pytest.approx(3)


def test_branches_join() -> None:
    stages = [
        StageTime(crew="arm", ms=1),
        StageTime(crew="vta", ms=4, reads=(0,)),
        StageTime(crew="arm", ms=2, reads=(0,)),
        StageTime(crew="arm", ms=1, reads=(1, 2)),
    ]
    assert crew_rate(stages, {"arm": 1, "vta": 1}, slots=1).latency_ms == pytest.approx(6)


@given(
    times=st.lists(st.tuples(st.sampled_from(["arm", "vta"]), st.floats(0.1, 10)), min_size=1,
                   max_size=30),
    slots=st.integers(1, 8),
    cores=st.integers(1, 4),
)  # fmt: skip
def test_no_rate_is_above_the_bound(times: list[tuple[str, float]], slots: int, cores: int) -> None:
    rate = crew_rate(chain(*times), {"arm": cores, "vta": 1}, slots=slots)
    assert rate.share <= 1.02  # a steady rate is measured over whole frames
