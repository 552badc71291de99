"""The time between frames of a pipeline that crews run, by a discrete-event simulation.

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


def frame_interval_ms(
    stages: Sequence[StageTime], threads: Mapping[str, int], slots: int, hop_ms: float = 0.0
) -> float:
    """Return the time between frames, in ms, of a camera that always has a frame ready.

    ``threads`` are those of each crew; every stage takes ``hop_ms`` longer, the time to wake its
    thread. ``stages`` are in the order of running.
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
    ends: list[float] = []
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
            heapq.heappush(events, (now + stages[number].ms + hop_ms, frame, number))
        for turn in waiting:
            heapq.heappush(ready[crew], turn)

    frames = _FIRST + _MEASURED + slots  # the last ones, after which it drains, do not count
    submitted = slots
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
        for reader in readers[number]:
            missing[reader, frame] -= 1
            if not missing[reader, frame]:
                heapq.heappush(ready[stages[reader].crew], (frame, reader))
        unfinished[frame] -= 1
        if not unfinished[frame]:
            ends.append(now)
            if submitted < frames:
                submit(submitted)
                submitted += 1
        for each in threads:
            start(each)
    return (ends[_FIRST + _MEASURED - 1] - ends[_FIRST - 1]) / _MEASURED
