"""The simulated time between frames of stages that crews share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgepipe.partition.crew_rate import StageTime, crews, frame_interval_ms, simulate

ONE_EACH = {"arm": 1, "vta": 1}


def chain(*times: tuple[str, float]) -> list[StageTime]:
    return [
        StageTime(crew=crew, ms=ms, reads=(number - 1,) if number else ())
        for number, (crew, ms) in enumerate(times)
    ]


def test_one_frame_at_a_time_takes_the_sum_of_all_stages() -> None:
    stages = chain(("arm", 2), ("vta", 5), ("arm", 1))
    assert frame_interval_ms(stages, ONE_EACH, slots=1) == pytest.approx(8)


def test_two_crews_work_at_once() -> None:
    stages = chain(("arm", 2), ("vta", 5), ("arm", 1))
    assert frame_interval_ms(stages, ONE_EACH, slots=4) == pytest.approx(5)


def test_several_threads_of_a_crew_share_its_stages() -> None:
    stages = chain(*[("arm", 4.0), ("vta", 2.0)] * 3)
    assert frame_interval_ms(stages, ONE_EACH, slots=8) == pytest.approx(12, rel=0.05)
    shared = frame_interval_ms(stages, {"arm": 3, "vta": 1}, slots=8)
    assert shared == pytest.approx(6, rel=0.1)


def test_a_stage_runs_one_frame_at_a_time() -> None:
    stages = chain(("arm", 6), ("vta", 1))
    assert frame_interval_ms(stages, {"arm": 3, "vta": 1}, slots=8) == pytest.approx(6)


def test_every_stage_costs_a_hop() -> None:
    stages = chain(("arm", 1), ("vta", 1))
    assert frame_interval_ms(stages, ONE_EACH, slots=1, hop_ms=0.5) == pytest.approx(3)


def test_branches_run_side_by_side_and_join() -> None:
    stages = [
        StageTime(crew="arm", ms=1),
        StageTime(crew="vta", ms=4, reads=(0,)),
        StageTime(crew="arm", ms=2, reads=(0,)),
        StageTime(crew="arm", ms=1, reads=(1, 2)),
    ]
    assert frame_interval_ms(stages, ONE_EACH, slots=1) == pytest.approx(6)


@given(
    times=st.lists(st.tuples(st.sampled_from(["arm", "vta"]), st.floats(0.1, 10)), min_size=1,
                   max_size=30),
    slots=st.integers(1, 8),
    cores=st.integers(1, 4),
)  # fmt: skip
def test_the_interval_is_between_the_busiest_crews_work_and_the_sum(
    times: list[tuple[str, float]], slots: int, cores: int
) -> None:
    threads = {"arm": cores, "vta": 1}
    interval = frame_interval_ms(chain(*times), threads, slots)
    work = {crew: sum(ms for each, ms in times if each == crew) for crew in threads}
    # A steady interval is measured over whole frames.
    assert interval >= 0.98 * max(work[crew] / threads[crew] for crew in threads)
    assert interval <= 1.02 * sum(work.values())


def test_every_stage_runs_every_frame_once_after_what_it_reads() -> None:
    stages = chain(("arm", 2), ("vta", 5), ("arm", 1))
    runs = simulate(stages, ONE_EACH, slots=3, hop_ms=0.5, frames=7)
    assert sorted((run.frame, run.stage) for run in runs) == [
        (frame, stage) for frame in range(7) for stage in range(3)
    ]
    at = {(run.frame, run.stage): run for run in runs}
    for (frame, stage), run in at.items():
        assert run.end_ms - run.begin_ms == pytest.approx(stages[stage].ms + 0.5)
        if stage:
            assert run.begin_ms >= at[frame, stage - 1].end_ms
    assert [run.end_ms for run in runs] == sorted(run.end_ms for run in runs)


def test_fewer_frames_than_slots_are_all_run() -> None:
    runs = simulate(chain(("arm", 2), ("vta", 5)), ONE_EACH, slots=8, frames=2)
    assert {run.frame for run in runs} == {0, 1}


def test_arm_stages_have_crews_of_their_own_while_there_are_cores() -> None:
    own = crews(["a", "b", "c"], ["arm", "vta", "arm"], 2)
    assert own.of_stages == ("a", "vta", "c")
    assert own.threads == {"a": 1, "c": 1, "vta": 1}
    shared = crews(["a", "b", "c"], ["arm", "vta", "arm"], 1)
    assert shared.of_stages == ("arm", "vta", "arm")
    assert shared.threads == {"arm": 1, "vta": 1}
