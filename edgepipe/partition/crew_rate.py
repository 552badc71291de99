"""When the stages of a pipeline run, and the time between frames, by a discrete-event simulation.

The runtime gives a pipeline with more ARM stages than cores one thread for each accelerator and one
for each ARM core (``cpp_runtime/src/session/crews.h``). Each takes the oldest frame that one of its
crew's stages can run. A stage runs its frames in order, and a slot limits the frames in flight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import islice

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
    every = _frame_ends(stages, threads, slots, hop_ms, first + measured + slots)
    ends = list(islice(every, first + measured))
    return (ends[-1] - ends[first - 1]) / measured


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
    runs: list[tuple[int, int, float, float]] = []
    for _ in _frame_ends(stages, threads, slots, hop_ms, frames, runs):
        pass
    return tuple(
        StageRun(stage=number, frame=frame, begin_ms=begin, end_ms=end)
        for number, frame, begin, end in runs
    )


def _frame_ends(
    stages: Sequence[StageTime],
    threads: Mapping[str, int],
    slots: int,
    hop_ms: float,
    frames: int,
    runs: list[tuple[int, int, float, float]] | None = None,
) -> Iterator[float]:
    """Yield when each frame has left all stages, and add every run to ``runs``: its stage, frame,
    begin and end.

    The split is searched with this, so it does little for each run: a stage's frame is ready once
    it can start at all, and only the crews start that have a new ready frame or a free thread.
    It calls no functions of its own for the same reason.
    """
    readers: list[list[int]] = [[] for _ in stages]
    for number, stage in enumerate(stages):
        for source in stage.reads:
            readers[source].append(number)
    crew_numbers = {crew: number for number, crew in enumerate(threads)}
    crew_of = [crew_numbers[stage.crew] for stage in stages]
    takes_ms = [stage.ms for stage in stages]
    inputs = [len(stage.reads) for stage in stages]
    sources = [number for number, count in enumerate(inputs) if not count]
    free = list(threads.values())
    ready: list[list[tuple[int, int]]] = [[] for _ in free]
    missing = [list(inputs) for _ in range(min(slots, frames))]  # of each frame submitted
    next_frame = [0] * len(stages)
    unfinished = [len(stages)] * frames
    began = [0.0] * len(stages)
    events: list[tuple[float, int, int]] = []
    now = 0.0
    if missing:
        for number in sources:
            heappush(ready[crew_of[number]], (0, number))
    changed = [*range(len(free))]
    while True:
        for crew in changed:
            turns = ready[crew]
            while turns and free[crew]:
                frame, number = heappop(turns)
                free[crew] -= 1
                began[number] = now
                heappush(events, (now + takes_ms[number] + hop_ms, frame, number))
        if not events:
            return
        now, frame, number = heappop(events)
        crew = crew_of[number]
        free[crew] += 1
        if runs is not None:
            runs.append((number, frame, began[number], now))
        changed = [crew]
        following = next_frame[number] = frame + 1
        if following < len(missing) and not missing[following][number]:
            heappush(ready[crew], (following, number))
        for reader in readers[number]:
            missing[frame][reader] -= 1
            if not missing[frame][reader] and next_frame[reader] == frame:
                heappush(ready[crew_of[reader]], (frame, reader))
                changed.append(crew_of[reader])
        unfinished[frame] -= 1
        if unfinished[frame]:
            continue
        yield now
        if len(missing) < frames:
            for source in sources:
                if next_frame[source] == len(missing):
                    heappush(ready[crew_of[source]], (len(missing), source))
                    changed.append(crew_of[source])
            missing.append(list(inputs))
