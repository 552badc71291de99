"""What a running pipeline has measured: frames, latency, each stage's times."""

from __future__ import annotations

import json
import math
import types
import typing
from dataclasses import dataclass, is_dataclass
from functools import cache
from typing import Any

_MOST = 2**63  # no counter is larger


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """A distribution of times in milliseconds, percentiles within 1.6 %; all 0 without samples."""

    count: int
    min_ms: float
    median_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float
    mean_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
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
    hangs: int = 0  # older programs do not report these two
    device_wait_s: float = 0.0
    device_run_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
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
    """Read what a pipeline's ``statistics`` function returns."""
    found = json.loads(text)
    stages = tuple(
        StageStatistics(
            **(stage | {"busy": Durations(**stage["busy"]), "cores": tuple(stage["cores"])})
        )
        for stage in found["stages"]
    )
    return Statistics(**(found | {"latency": Durations(**found["latency"]), "stages": stages}))


def check_types(value: object, hint: Any) -> None:
    """Raise TypeError unless a value read from JSON is what its field's type ``hint`` says."""
    if isinstance(hint, types.UnionType):  # with None
        if value is None:
            return
        (hint,) = (one for one in typing.get_args(hint) if one is not type(None))
    if is_dataclass(value) and not isinstance(value, type):
        for name, inner in _types(type(value)).items():
            check_types(getattr(value, name), inner)
    elif isinstance(value, tuple):
        for element in value:
            check_types(element, typing.get_args(hint)[0])
    elif hint is float:
        if type(value) not in (int, float) or not math.isfinite(typing.cast(float, value)):
            raise TypeError(value)
    elif hint is int:
        if type(value) is not int or abs(value) >= _MOST:
            raise TypeError(value)
    elif hint is str and not isinstance(value, str):
        raise TypeError(value)


@cache
def _types(cls: type[object]) -> dict[str, Any]:
    return typing.get_type_hints(cls)
