"""The simulation of a pipeline gives the runs of a plain one, which looks at every crew."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from edgepipe.partition.crew_rate import StageRun, StageTime, frame_interval_ms, simulate

CREWS = ("arm", "vta", "dsp")


def plain_runs(
    stages: Sequence[StageTime],
    threads: Mapping[str, int],
    slots: int,
    hop_ms: float,
    frames: int,
) -> tuple[StageRun, ...]:
    """Return the runs, after each of which every crew takes its oldest frame that can run."""
    free = dict(threads)
    waiting = {
        crew: [(frame, number) for frame in range(frames) for number in _of(stages, crew)]
        for crew in threads
    }
    done: set[tuple[int, int]] = set()
    running: set[int] = set()
    began: dict[int, float] = {}
    runs: list[StageRun] = []
    events: list[tuple[float, int, int]] = []
    submitted, now = min(slots, frames), 0.0

    def can_run(frame: int, number: int) -> bool:
        return (
            frame < submitted
            and number not in running
            and (not frame or (frame - 1, number) in done)
            and all((frame, source) in done for source in stages[number].reads)
        )

    def start() -> None:
        for crew, turns in waiting.items():
            while free[crew]:
                turn = next((each for each in turns if can_run(*each)), None)
                if turn is None:
                    break
                frame, number = turn
                turns.remove(turn)
                free[crew] -= 1
                running.add(number)
                began[number] = now
                heapq.heappush(events, (now + stages[number].ms + hop_ms, frame, number))

    start()
    while events:
        now, frame, number = heapq.heappop(events)
        free[stages[number].crew] += 1
        running.remove(number)
        done.add((frame, number))
        runs.append(StageRun(stage=number, frame=frame, begin_ms=began[number], end_ms=now))
        if submitted < frames and all((frame, each) in done for each in range(len(stages))):
            submitted += 1
        start()
    return tuple(runs)


def _of(stages: Sequence[StageTime], crew: str) -> list[int]:
    return [number for number, stage in enumerate(stages) if stage.crew == crew]


@st.composite
def pipelines(draw: st.DrawFn) -> list[StageTime]:
    """Return stages with branches and joins, of which several can begin a frame."""
    # With whole times, many runs end at once.
    times = st.one_of(st.integers(1, 3).map(float), st.floats(0.01, 5))
    stages: list[StageTime] = []
    for number in range(draw(st.integers(1, 9))):
        earlier = st.sets(st.integers(max(0, number - 3), number - 1), max_size=3)
        reads = draw(earlier) if number else set()
        crew = draw(st.sampled_from(CREWS))
        stages.append(StageTime(crew=crew, ms=draw(times), reads=tuple(sorted(reads))))
    return stages


@given(
    stages=pipelines(),
    threads=st.tuples(*[st.integers(1, 3)] * len(CREWS)),
    slots=st.integers(1, 6),
    hop_ms=st.sampled_from((0.0, 0.5)),
    frames=st.integers(1, 14),
)
@settings(deadline=None)
def test_the_runs_are_those_of_a_look_at_every_crew(
    stages: list[StageTime], threads: tuple[int, ...], slots: int, hop_ms: float, frames: int
) -> None:
    of_crew = dict(zip(CREWS, threads, strict=True))
    runs = simulate(stages, of_crew, slots, hop_ms, frames=frames)
    assert runs == plain_runs(stages, of_crew, slots, hop_ms, frames)


@given(stages=pipelines(), slots=st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_the_interval_is_that_of_the_frames_that_end(stages: list[StageTime], slots: int) -> None:
    threads = dict.fromkeys(CREWS, 1)
    runs = plain_runs(stages, threads, slots, 0.25, 10 + slots)
    left = dict.fromkeys(range(10 + slots), len(stages))
    ends = []
    for run in runs:
        left[run.frame] -= 1
        if not left[run.frame]:
            ends.append(run.end_ms)
    found = frame_interval_ms(stages, threads, slots, 0.25, first=4, measured=6)
    assert found == (ends[9] - ends[3]) / 6
