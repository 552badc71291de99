"""Read the statistics of a run of a bundle, in every form in which edgepipe's programs write them.

``edgepipe-run --json`` ends with a line of them, ``edgepipe top --json`` prints lines of them,
``edgepipe bench`` writes those of its pipelined run, and ``PipelineStatistics::json()`` returns
them alone. Of several lines, the last one counts.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from edgepipe.bundle_report.model import MeasuredStage, Measurement, Report
from edgepipe.bundle_report.reading import MOST_SLOTS, stage_times, threads_of
from edgepipe.bundle_report.timeline import timeline
from edgepipe.errors import BundleError
from edgepipe.runtime.statistics import Statistics, check_types, statistics_from_json

_REMEDY = "give the JSON that `edgepipe-run`, `edgepipe bench` or `edgepipe top` writes"
_MOST_BYTES = 1 << 28


def with_measurement(report: Report, path: Path) -> Report:
    """Return the report with the measurement in the file at ``path``.

    Raises BundleError for a file without statistics, and for those of another pipeline.
    """
    found, device = _read(path)
    names = [stage.name for stage in found.stages]
    expected = [stage.name for stage in report.stages]
    if names != expected:
        raise BundleError(
            f"{path}: statistics of stages {_list(names)}, expected those of {report.name}: "
            f"{_list(expected)}",
            hint="give the statistics of a run of this bundle",
        )
    times = stage_times(report.stages, [stage.busy.mean_ms for stage in found.stages])
    threads = threads_of(report.stages, report.prediction.arm_cores)
    measurement = Measurement(
        source=path.name,
        device=device,
        delivered=found.delivered,
        dropped=found.dropped,
        failed=found.failed,
        slots=found.slots,
        frames_per_second=found.frames_per_second,
        latency_median_ms=found.latency.median_ms,
        latency_p99_ms=found.latency.p99_ms,
        stages=tuple(
            MeasuredStage(
                name=stage.name,
                mean_ms=stage.busy.mean_ms,
                median_ms=stage.busy.median_ms,
                p99_ms=stage.busy.p99_ms,
                utilisation=stage.utilisation,
            )
            for stage in found.stages
        ),
        timeline=timeline(times, threads, found.slots, 0.0),
    )
    return dataclasses.replace(report, measurement=measurement)


def _read(path: Path) -> tuple[Statistics, str]:
    """Return the last statistics in a file, and the device that they name, or ""."""
    last: tuple[Mapping[str, Any], str] | None = None
    for record in _records(path):
        last = _pipeline(record) or last
    if last is None:
        raise BundleError(
            f"{path}: found no statistics, expected an object of JSON with them", hint=_REMEDY
        )
    figures, device = last
    try:
        statistics = statistics_from_json(json.dumps(figures))
        check_types(statistics, Statistics)
        check_types(device, str)
    except (TypeError, KeyError, ValueError, AttributeError, RecursionError) as cause:
        raise BundleError(
            f"{path}: the statistics are damaged, or of another version", hint=_REMEDY
        ) from cause
    times = [stage.busy.mean_ms for stage in statistics.stages]
    if not statistics.delivered or min(times, default=0) < 0 or not max(times, default=0):
        raise BundleError(f"{path}: statistics of a run without frames", hint=_REMEDY)
    if not 1 <= statistics.slots <= MOST_SLOTS:
        raise BundleError(
            f"{path}: slots is {statistics.slots}, expected 1 to {MOST_SLOTS}", hint=_REMEDY
        )
    return statistics, device


def _records(path: Path) -> Iterator[Any]:
    """Yield the JSON values of a file: the whole file is one, or every line is."""
    try:
        size = path.stat().st_size
        if size > _MOST_BYTES:
            raise BundleError(
                f"{path}: {size} bytes, expected at most {_MOST_BYTES}",
                hint="give only the last line, which has the statistics",
            )
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as cause:
        raise BundleError(f"{path}: cannot be read ({cause.strerror})", hint=_REMEDY) from cause
    try:
        yield json.loads(text)
        return
    except (ValueError, RecursionError):
        pass
    for line in text.splitlines():
        if line.startswith("{") and '"stages"' in line:
            try:
                yield json.loads(line)
            except (ValueError, RecursionError):
                continue


def _pipeline(record: Any) -> tuple[Mapping[str, Any], str] | None:
    """Return the figures in a record and the name of its device, None if it has none."""
    if not isinstance(record, dict):
        return None
    live = record.get("live")
    if isinstance(live, dict):
        figures, device = live.get("pipeline"), live.get("device", "")
    else:
        run = record.get("pipelined", record)  # of `edgepipe bench`
        run = run if isinstance(run, dict) else {}
        figures, device = run.get("statistics", run), run.get("device", "")
    if not isinstance(figures, dict) or "stages" not in figures:
        return None
    return figures, device


def _list(names: list[str], most: int = 6) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown or "none"
