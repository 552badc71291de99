"""Read what a run of a bundle measured: its statistics, its trace, or both.

``edgepipe-run --json`` ends with a line of them, ``edgepipe top --json`` prints lines of them,
``edgepipe bench`` writes those of its pipelined run, and ``PipelineStatistics::json()`` returns
them alone. Of several lines, the last one counts. A trace is known by its content.
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
from edgepipe.bundle_report.trace import REMEDY as TRACE_REMEDY
from edgepipe.bundle_report.trace import Trace, in_words, is_trace, read_trace
from edgepipe.errors import BundleError
from edgepipe.runtime.statistics import Statistics, check_types, statistics_from_json

_REMEDY = "give the JSON that `edgepipe-run`, `edgepipe bench` or `edgepipe top` writes, or a trace"
_MOST_BYTES = 1 << 28


def with_measurement(report: Report, path: Path, trace: Path | None = None) -> Report:
    """Return the report with the measurement in the file at ``path``: statistics or a trace.

    The timeline shows frames of the trace, if there is one: ``trace``, beside statistics, is
    another file of the same run. Raises BundleError for files with neither, and for those of
    another pipeline.
    """
    text = _text(path)
    if is_trace(text):
        if trace is not None:
            raise BundleError(
                f"{path}: is a trace, as {trace} is, expected statistics",
                hint="give only one of them, or the statistics of the run, too",
            )
        found = _trace(report, path, text).measurement(report.stages)
    else:
        found = _measurement(report, path, text)
    if trace is not None:
        recorded = read_trace_of(report, trace)
        found = dataclasses.replace(
            found, trace=recorded.source, timeline=recorded.timeline(len(report.stages))
        )
    return dataclasses.replace(report, measurement=found)


def with_trace(report: Report, path: Path) -> Report:
    """Return the report with the measurement in the trace at ``path``.

    Raises BundleError for a file that is no trace, and for that of another pipeline.
    """
    found = read_trace_of(report, path).measurement(report.stages)
    return dataclasses.replace(report, measurement=found)


def read_trace_of(report: Report, path: Path) -> Trace:
    """Return the trace at ``path`` of a run of the report's bundle; raise BundleError if not."""
    text = _text(path)
    if not is_trace(text):
        raise BundleError(
            f"{path}: found no trace, expected an object of JSON with traceEvents",
            hint=TRACE_REMEDY,
        )
    return _trace(report, path, text)


def _trace(report: Report, path: Path, text: str) -> Trace:
    return read_trace(path, text, report.name, [stage.name for stage in report.stages])


def _measurement(report: Report, path: Path, text: str) -> Measurement:
    """Return what the statistics in a file's text say."""
    found, device = _read(path, text)
    names = [stage.name for stage in found.stages]
    expected = [stage.name for stage in report.stages]
    if names != expected:
        raise BundleError(
            f"{path}: statistics of stages {in_words(names)}, expected those of {report.name}: "
            f"{in_words(expected)}",
            hint="give the statistics of a run of this bundle",
        )
    times = stage_times(report.stages, [stage.busy.mean_ms for stage in found.stages])
    threads = threads_of(report.stages, report.prediction.arm_cores)
    return Measurement(
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
        trace="",
        timeline=timeline(times, threads, found.slots, 0.0),
    )


def _read(path: Path, text: str) -> tuple[Statistics, str]:
    """Return the last statistics in a file's text, and the device that they name, or ""."""
    last: tuple[Mapping[str, Any], str] | None = None
    for record in _records(text):
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


def _text(path: Path) -> str:
    try:
        size = path.stat().st_size
        if size > _MOST_BYTES:
            raise BundleError(
                f"{path}: {size} bytes, expected at most {_MOST_BYTES}",
                hint="give only the last line, which has the statistics, or a shorter trace",
            )
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as cause:
        raise BundleError(f"{path}: cannot be read ({cause.strerror})", hint=_REMEDY) from cause


def _records(text: str) -> Iterator[Any]:
    """Yield the JSON values in a file's text: it is one of them, or every line is."""
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
