"""Read the trace of a run of a bundle: when every thread ran which stage for which frame.

``--trace FILE`` of edgepipe's programs writes it as Trace Event JSON: ``ph: "X"`` slices in µs. The
source has a thread of its own, whose slices end when a frame is submitted.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgepipe.bundle_report.model import MeasuredStage, Measurement, Run, Stage, Timeline
from edgepipe.bundle_report.timeline import frames_shown
from edgepipe.errors import BundleError

REMEDY = "give a trace that `edgepipe-run`, `edgepipe-cam` or `edgepipe run` has written"
_KEY = '"traceEvents"'
_HEAD = 4096  # characters, within which a trace names its events
_SOURCE_THREAD = 1  # as in cpp_runtime/src/pipeline/pipeline_trace.cc
_THREAD_PREFIX = "stage thread "
_MOST_US = 1e15  # 30 years


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A run of a stage, which is a number, for a frame on a thread."""

    thread: int
    stage: int
    frame: int
    begin_ms: float
    end_ms: float
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The runs of a pipeline's stages, and when each frame was submitted, in ms.

    ``threads`` are the names of those that run stages. ``finished`` are the frames that every stage
    has finished, in their order: two or more.
    """

    source: str
    threads: Mapping[int, str]
    slices: tuple[Slice, ...]
    submitted_ms: Mapping[int, float]
    finished: tuple[int, ...]

    def timeline(self, stages: int) -> Timeline:
        """Return some finished frames from the middle; ``stages`` is the number of stages."""
        shown = frames_shown(stages)
        first = max(0, (len(self.finished) - shown) // 2)
        frames = {*self.finished[first : first + shown]}
        own = [run for run in self.slices if run.frame in frames]
        begin, end = min(run.begin_ms for run in own), max(run.end_ms for run in own)
        lanes = sorted({run.thread for run in self.slices})
        return Timeline(
            lanes=tuple(self.threads.get(thread, f"thread {thread}") for thread in lanes),
            runs=tuple(
                Run(
                    lane=lanes.index(run.thread),
                    stage=run.stage,
                    frame=run.frame,
                    begin_ms=max(run.begin_ms, begin) - begin,
                    end_ms=min(run.end_ms, end) - begin,
                )
                for run in self.slices
                if run.end_ms > begin and run.begin_ms < end
            ),
            ms=end - begin,
        )

    def measurement(self, stages: Sequence[Stage]) -> Measurement:
        """Return what the trace says of a run of these stages, in the units of statistics."""
        busy: dict[int, list[float]] = defaultdict(list)
        begins: dict[int, float] = {}
        ends: dict[int, float] = {}
        for run in self.slices:
            busy[run.stage].append(run.end_ms - run.begin_ms)
            begins[run.frame] = min(run.begin_ms, begins.get(run.frame, run.begin_ms))
            ends[run.frame] = max(run.end_ms, ends.get(run.frame, run.end_ms))
        # Without the source's slice, a frame counts from its first run.
        latencies = [ends[n] - self.submitted_ms.get(n, begins[n]) for n in self.finished]
        done = [ends[n] for n in self.finished]
        elapsed_ms = max(ends.values()) - min(begins.values())
        between_ms = max(done) - min(done)
        return Measurement(
            source=self.source,
            device="",
            delivered=len(self.finished),
            dropped=None,
            failed=len({run.frame for run in self.slices if run.failed}),
            slots=None,
            frames_per_second=1e3 * (len(done) - 1) / between_ms if between_ms else 0.0,
            latency_median_ms=statistics.median(latencies),
            latency_p99_ms=_p99(latencies),
            stages=tuple(
                MeasuredStage(
                    name=stage.name,
                    mean_ms=statistics.fmean(busy[number]),
                    median_ms=statistics.median(busy[number]),
                    p99_ms=_p99(busy[number]),
                    utilisation=sum(busy[number]) / elapsed_ms if elapsed_ms else 0.0,
                )
                for number, stage in enumerate(stages)
            ),
            trace=self.source,
            timeline=self.timeline(len(stages)),
        )


def is_trace(text: str) -> bool:
    """Return whether a file's text is, or begins like, a trace."""
    return text.lstrip().startswith("{") and _KEY in text[:_HEAD]


def read_trace(path: Path, text: str, pipeline: str, stages: Sequence[str]) -> Trace:
    """Return the trace in the text of the file at ``path``, of the pipeline with these stages.

    Raises BundleError for a trace that is damaged, of another pipeline or program, or without two
    frames that all stages finished.
    """
    threads: dict[int, str] = {}
    submitted: dict[int, float] = {}
    found: list[tuple[str, Slice]] = []
    for event in _events(path, text):
        if event.phase == "M":
            if event.of("name") == "thread_name":
                threads[event.whole("tid")] = event.text("args", "name").removeprefix(
                    _THREAD_PREFIX
                )
        elif event.phase == "X" and event.of("cat") == "stage":
            thread, frame = event.whole("tid"), event.whole("args", "frame")
            begin, name = event.ms("ts"), event.text("name")
            end = begin + event.ms("dur")
            if thread == _SOURCE_THREAD:
                submitted[frame] = end
                continue
            made = Slice(
                thread=thread,
                stage=stages.index(name) if name in stages else -1,
                frame=frame,
                begin_ms=begin,
                end_ms=end,
                failed=event.of("args", "failed") is True,
            )
            found.append((name, made))
    names = list(dict.fromkeys(name for name, _ in found))
    if not names:
        raise BundleError(
            f"{path}: found no run of a stage in the trace, expected those of {pipeline}",
            hint=REMEDY,
        )
    if not {*names} <= {*stages}:
        raise BundleError(
            f"{path}: a trace of stages {in_words(names)}, expected those of {pipeline}: "
            f"{in_words(stages)}",
            hint="give the trace of a run of this bundle",
        )
    slices = tuple(made for _, made in found)
    ran: dict[int, set[int]] = defaultdict(set)
    for run in slices:
        if not run.failed:
            ran[run.frame].add(run.stage)
    finished = tuple(sorted(frame for frame, own in ran.items() if len(own) == len(stages)))
    if len(finished) < 2:
        raise BundleError(
            f"{path}: {len(finished)} frames in the trace that all stages finished, expected 2 or "
            "more",
            hint="record a longer run",
        )
    return Trace(
        source=path.name,
        threads=threads,
        slices=slices,
        submitted_ms=submitted,
        finished=finished,
    )


def in_words(names: Sequence[str], most: int = 6) -> str:
    """Return names as a list for an error: the first ``most``, and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown or "none"


@dataclass(frozen=True, slots=True)
class _Event:
    """One event of a trace, with the errors that name it."""

    path: Path
    number: int
    values: Mapping[str, Any]

    @property
    def phase(self) -> Any:
        return self.values.get("ph")

    def of(self, *keys: str) -> Any:
        """Return the value under the keys, None if there is none."""
        value: Any = self.values
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def whole(self, *keys: str) -> int:
        value = self.of(*keys)
        if type(value) is not int or not 0 <= value < 2**63:
            raise self._bad(keys, value, "a whole number from 0")
        return value

    def ms(self, key: str) -> float:
        """Return a time in µs as ms."""
        value = self.of(key)
        if type(value) not in (int, float) or not 0 <= value <= _MOST_US:
            raise self._bad((key,), value, "microseconds from 0")
        return float(value) / 1e3

    def text(self, *keys: str) -> str:
        value = self.of(*keys)
        if not isinstance(value, str):
            raise self._bad(keys, value, "a string")
        return value

    def _bad(self, keys: Sequence[str], value: Any, expected: str) -> BundleError:
        found = "missing" if value is None else json.dumps(value)[:40]
        return BundleError(
            f"{self.path}: event {self.number} of the trace: {'.'.join(keys)} is {found}, expected "
            f"{expected}",
            hint=REMEDY,
        )


def _events(path: Path, text: str) -> Iterator[_Event]:
    try:
        events = json.loads(text).get("traceEvents")
    except (ValueError, RecursionError) as cause:
        place = f" in line {cause.lineno}" if isinstance(cause, json.JSONDecodeError) else ""
        raise BundleError(
            f"{path}: the trace is damaged{place}, expected one object of JSON", hint=REMEDY
        ) from cause
    if not isinstance(events, list):
        raise BundleError(
            f"{path}: traceEvents is {json.dumps(events)[:40]}, expected a list of events",
            hint=REMEDY,
        )
    for number, event in enumerate(events):
        if not isinstance(event, dict):
            raise BundleError(
                f"{path}: event {number} of the trace is {json.dumps(event)[:40]}, expected an "
                "object",
                hint=REMEDY,
            )
        yield _Event(path, number, event)


def _p99(times: Sequence[float]) -> float:
    """Return the smallest time that 99 % of the times do not exceed."""
    return sorted(times)[math.ceil(0.99 * len(times)) - 1]
