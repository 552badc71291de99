"""When the stages of a pipeline run, and the time between frames, by a discrete-event simulation.

The runtime gives a pipeline with more ARM stages than cores one thread for each accelerator and one
for each ARM core (``cpp_runtime/src/session/crews.h``). Each takes the oldest frame that one of its
crew's stages can run. A stage runs its frames in order, and a slot limits the frames in flight.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_FIRST = 120  # before it is measured, the pipeline fills and settles
_MEASURED = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTime:
    """A stage: the crew that runs it, its time for a frame, and the stages that it reads from."""

    crew: str
    ms: float
    reads: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Crews:
    """The crew of each stage, and the number of threads of each crew."""

    of_stages: tuple[str, ...]
    threads: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRun:
    """A run of a stage for a frame, both by their numbers, with the hop before it."""

    stage: int
    frame: int
    begin_ms: float
    end_ms: float


def crews(names: Sequence[str], devices: Sequence[str], arm_cores: int) -> Crews:
    """Return which crew runs each stage, given the stages' names and devices.

    ARM stages have threads of their own while there are cores for all of them, and are otherwise
    run by one crew with a thread on each core.
    """
    arm = [name for name, device in zip(names, devices, strict=True) if device == "arm"]
    own = len(arm) <= arm_cores
    return Crews(
        of_stages=tuple(
            name if own and device == "arm" else device
            for name, device in zip(names, devices, strict=True)
        ),
        threads=dict.fromkeys(arm, 1) | {"vta": 1} if own else {"arm": arm_cores, "vta": 1},
    )


def frame_interval_ms(
    stages: Sequence[StageTime],
    threads: Mapping[str, int],
    slots: int,
    hop_ms: float = 0.0,
    *,
    first: int = _FIRST,
    measured: int = _MEASURED,
) -> float:
    """Return the time between frames, in ms, of a camera that always has a frame ready.

    ``threads`` are those of each crew; every stage takes ``hop_ms`` longer, the time to wake its
    thread. ``stages`` are in the order of running. The mean is that of ``measured`` frames after
    the ``first``.
    """
    # The last frames, after which the pipeline drains, do not count.
    runs = simulate(stages, threads, slots, hop_ms, frames=first + measured + slots)
    left = dict.fromkeys(range(first + measured + slots), len(stages))
    ends = []
    for run in runs:
        left[run.frame] -= 1
        if not left[run.frame]:
            ends.append(run.end_ms)
    return (ends[first + measured - 1] - ends[first - 1]) / measured


def simulate(
    stages: Sequence[StageTime],
    threads: Mapping[str, int],
    slots: int,
    hop_ms: float = 0.0,
    *,
    frames: int,
) -> tuple[StageRun, ...]:
    """Return all runs of all stages for ``frames`` frames, in the order of their ends.

    The other arguments are those of ``frame_interval_ms``.
    """
    readers: list[list[int]] = [[] for _ in stages]
    for number, stage in enumerate(stages):
        for source in stage.reads:
            readers[source].append(number)
    free = dict(threads)
    ready: dict[str, list[tuple[int, int]]] = {crew: [] for crew in threads}
    missing: dict[tuple[int, int], int] = {}
    running = [False] * len(stages)
    next_frame = [0] * len(stages)
    unfinished: dict[int, int] = {}
    began: dict[int, float] = {}
    runs: list[StageRun] = []
    events: list[tuple[float, int, int]] = []
    now = 0.0

    def submit(frame: int) -> None:
        unfinished[frame] = len(stages)
        for number, stage in enumerate(stages):
            missing[number, frame] = len(stage.reads)
            if not stage.reads:
                heapq.heappush(ready[stage.crew], (frame, number))

    def start(crew: str) -> None:
        waiting = []
        while free[crew] and ready[crew]:
            frame, number = heapq.heappop(ready[crew])
            if running[number] or next_frame[number] != frame:
                waiting.append((frame, number))
                continue
            free[crew] -= 1
            running[number] = True
            began[number] = now
            heapq.heappush(events, (now + stages[number].ms + hop_ms, frame, number))
        for turn in waiting:
            heapq.heappush(ready[crew], turn)

    submitted = min(slots, frames)
    for frame in range(submitted):
        submit(frame)
    for crew in threads:
        start(crew)
    while events:
        now, frame, number = heapq.heappop(events)
        crew = stages[number].crew
        free[crew] += 1
        running[number] = False
        next_frame[number] = frame + 1
        runs.append(StageRun(stage=number, frame=frame, begin_ms=began[number], end_ms=now))
        for reader in readers[number]:
            missing[reader, frame] -= 1
            if not missing[reader, frame]:
                heapq.heappush(ready[stages[reader].crew], (frame, reader))
        unfinished[frame] -= 1
        if not unfinished[frame] and submitted < frames:
            submit(submitted)
            submitted += 1
        for each in threads:
            start(each)
    return tuple(runs)
