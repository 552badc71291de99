"""The frame rate of a pipeline whose stages are run by two crews, by a discrete-event simulation.

The runtime gives a pipeline with more ARM stages than cores one thread for each accelerator and one
for each ARM core (``cpp_runtime/src/session/crews.h``). Each takes the oldest frame that one of its
crew's stages can run. A stage runs its frames in order, and a slot limits the frames in flight.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

_FRAMES = 240
_STEADY_FROM = 120  # the first frames fill the pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTime:
    """A stage: the crew that runs it, its time for a frame, and the stages that it reads from."""

    crew: str
    ms: float
    reads: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CrewRate:
    """``interval_ms`` between frames, ``latency_ms`` of one in the full pipeline, loads 0 to 1.

    ``bound_ms`` is the interval that the busiest crew alone would allow.
    """

    interval_ms: float
    latency_ms: float
    bound_ms: float
    loads: dict[str, float]

    @property
    def share(self) -> float:
        """The frame rate as a share of what the busiest crew alone would allow."""
        return self.bound_ms / self.interval_ms if self.interval_ms else 1.0


def crew_rate(
    stages: Sequence[StageTime], threads: dict[str, int], slots: int, hop_ms: float = 0.0
) -> CrewRate:
    """Simulate a camera that always has a frame ready.

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
    begun: dict[int, float] = {}
    ends: list[float] = []
    latencies: list[float] = []
    busy = dict.fromkeys(threads, 0.0)
    events: list[tuple[float, int, int]] = []
    now = 0.0

    def submit(frame: int) -> None:
        begun[frame] = now
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
            took = stages[number].ms + hop_ms
            busy[crew] += took
            heapq.heappush(events, (now + took, frame, number))
        for turn in waiting:
            heapq.heappush(ready[crew], turn)

    submitted = min(slots, _FRAMES)
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
            latencies.append(now - begun[frame])
            if submitted < _FRAMES:
                submit(submitted)
                submitted += 1
        for each in threads:
            start(each)
    steady = ends[_STEADY_FROM - 1 :]
    interval = (steady[-1] - steady[0]) / (len(steady) - 1)
    work = {
        crew: sum(stage.ms + hop_ms for stage in stages if stage.crew == crew) / threads[crew]
        for crew in threads
    }
    longest = max((stage.ms + hop_ms for stage in stages), default=0.0)
    return CrewRate(
        interval_ms=interval,
        latency_ms=sum(latencies[_STEADY_FROM:]) / max(len(latencies[_STEADY_FROM:]), 1),
        bound_ms=max(*work.values(), longest),
        loads={crew: busy[crew] / threads[crew] / now if now else 0.0 for crew in threads},
    )
