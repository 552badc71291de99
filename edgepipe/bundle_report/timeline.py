"""The timeline of a pipeline: when each thread runs which stage, once the pipeline is full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgepipe.bundle_report.model import Run, Timeline
from edgepipe.partition.crew_rate import StageRun, StageTime, simulate

_SHOWN = 4  # frames
_MOST_RUNS = 600


def frames_shown(stages: int) -> int:
    """Return how many frames a timeline of a pipeline with so many stages shows."""
    return max(1, min(_SHOWN, _MOST_RUNS // max(stages, 1)))


def timeline(
    stages: Sequence[StageTime], threads: Mapping[str, int], slots: int, hop_ms: float
) -> Timeline:
    """Return some frames of a full pipeline; the arguments are those of ``crew_rate.simulate``.

    Every run begins after its hop of ``hop_ms`` milliseconds, so hops show as gaps.
    """
    first = 2 * slots + 2 * len(stages)
    shown = frames_shown(len(stages))
    runs = simulate(stages, threads, slots, hop_ms, frames=first + shown + slots)
    own = [run for run in runs if first <= run.frame < first + shown]
    begin, end = min(run.begin_ms for run in own), max(run.end_ms for run in own)
    lanes, placed = _in_lanes(runs, stages, threads)
    inside = [
        (lane, run) for lane, run in placed if run.end_ms > begin and run.begin_ms + hop_ms < end
    ]
    oldest = min(run.frame for _, run in inside)
    return Timeline(
        lanes=lanes,
        runs=tuple(
            Run(
                lane=lane,
                stage=run.stage,
                frame=run.frame - oldest + 1,
                begin_ms=max(run.begin_ms + hop_ms, begin) - begin,
                end_ms=min(run.end_ms, end) - begin,
            )
            for lane, run in inside
        ),
        ms=end - begin,
    )


def _in_lanes(
    runs: Sequence[StageRun], stages: Sequence[StageTime], threads: Mapping[str, int]
) -> tuple[tuple[str, ...], list[tuple[int, StageRun]]]:
    """Return the names of all threads, and every run with the number of its thread."""
    lanes = [
        (crew, f"{crew} {number + 1}" if threads[crew] > 1 else crew)
        for crew in dict.fromkeys(stage.crew for stage in stages)
        for number in range(threads[crew])
    ]
    free = [0.0] * len(lanes)
    placed = []
    for run in sorted(runs, key=lambda run: (run.begin_ms, run.end_ms)):
        crew = stages[run.stage].crew
        # The thread that has been free for longest; which one the runtime takes does not matter.
        lane = min(
            (number for number, (of, _) in enumerate(lanes) if of == crew),
            key=lambda number: free[number],
        )
        free[lane] = run.end_ms
        placed.append((lane, run))
    return tuple(name for _, name in lanes), placed
