"""What a running pipeline has measured: frames, latency, each stage's times."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Durations:
    """A distribution of times in milliseconds, percentiles within 1.6 %; all 0 without samples."""

    count: int
    min_ms: float
    median_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float
    mean_ms: float


@dataclass(frozen=True)
class StageStatistics:
    """One stage: the cores that it may run on (none: any), its run times, its share of the time.

    ``waiting`` is the number of frames that wait for it now, ``hangs`` that of its device's runs
    that missed their deadline, ``retries`` that of frames run again after a hang, and
    ``fallback_frames`` that of frames run by the stage's fallback. ``fault`` is the device's last
    failure. ``device_wait_s`` is the part of its run times in which it waited for its device,
    ``device_run_s`` that in which the device worked.
    """

    name: str
    cores: tuple[int, ...]
    busy: Durations
    utilisation: float
    waiting: int
    retries: int
    fallback_frames: int
    fault: str
    hangs: int = 0
    device_wait_s: float = 0.0
    device_run_s: float = 0.0


@dataclass(frozen=True)
class Statistics:
    """A snapshot; ``submitted == delivered + dropped + failed + in_flight``.

    ``frames_per_second`` counts from the first to the last completion, so filling the pipeline is
    not part of it.
    """

    submitted: int
    delivered: int
    dropped: int
    failed: int
    in_flight: int
    slots: int
    latency: Durations
    elapsed_s: float
    frames_per_second: float
    stages: tuple[StageStatistics, ...]

    @property
    def pipelining_bound(self) -> float:
        """The gain that stage times allow a pipeline: the sum of their means over the longest."""
        times = [stage.busy.mean_ms for stage in self.stages]
        return sum(times) / max(times)


def statistics_from_json(text: str | bytes) -> Statistics:
    """Read what ``ep_statistics`` returns."""
    found = json.loads(text)
    stages = tuple(
        _made(StageStatistics, stage, busy=_made(Durations, stage["busy"]), cores=stage["cores"])
        for stage in found["stages"]
    )
    return _made(Statistics, found, latency=_made(Durations, found["latency"]), stages=stages)


def _made(kind: type[T], entry: dict[str, Any], **changed: Any) -> T:
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    values = {**{name: value for name, value in entry.items() if name in names}, **changed}
    if "cores" in values:
        values["cores"] = tuple(values["cores"])
    return kind(**values)
