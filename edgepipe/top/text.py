"""Snapshots as text: a page for a terminal, or one line per pipeline."""

from __future__ import annotations

from collections.abc import Sequence

from edgepipe.names import printable
from edgepipe.report.table import format_table
from edgepipe.runtime.statistics import Durations, StageStatistics
from edgepipe.top.snapshot import Board, Rates, Snapshot, Source


def paragraphs(found: Sequence[tuple[Snapshot, Rates]]) -> list[str]:
    """Return a few lines and a table for each pipeline."""
    return [_paragraph(snapshot, rates) for snapshot, rates in found]


def line(snapshot: Snapshot, rates: Rates) -> str:
    """Return one line: program, frames per second, latency, and the busy share of each stage."""
    statistics = snapshot.statistics
    stages = ", ".join(
        f"{stage.name} {busy:.0%} ({stage.waiting} waiting{_troubles(stage)})"
        for stage, busy in zip(statistics.stages, rates.busy, strict=True)
    )
    return (
        f"{snapshot.program}[{snapshot.pid}] {snapshot.network}: {statistics.delivered} frames, "
        f"{rates.frames_per_second:.2f}/s, latency {statistics.latency.median_ms:.2f} ms (median) "
        f"{statistics.latency.p99_ms:.2f} ms (p99), "
        f"{statistics.in_flight} of {statistics.slots} in flight; {stages}"
        f"{_short(snapshot.board)}{_outage(snapshot.source)}{_stall(snapshot)}"
    )


def _paragraph(snapshot: Snapshot, rates: Rates) -> str:
    statistics = snapshot.statistics
    latency = statistics.latency
    lines = [
        f"{snapshot.network}  {rates.frames_per_second:.2f} frames/s  "
        f"{snapshot.program}[{snapshot.pid}]  VTA stages on: {snapshot.device}{_stall(snapshot)}",
        f"{statistics.submitted} submitted = {statistics.delivered} delivered + "
        f"{statistics.dropped} dropped + {statistics.failed} failed + "
        f"{statistics.in_flight} in flight (of at most {statistics.slots})",
    ]
    if snapshot.source:
        lines.append(
            f"source: {snapshot.source.description}: {snapshot.source.captured} captured, "
            f"{snapshot.source.lost} dropped{_reopened(snapshot.source)}{_outage(snapshot.source)}"
        )
    if snapshot.board:
        lines.append(_board(snapshot.board, snapshot.program))
    header = ["stage (ms)", "core", "frames", "min", "median", "p95", "p99", "busy", "waiting"]
    rows = [
        [
            stage.name,
            ",".join(map(str, stage.cores)) or "-",
            *_times(stage.busy),
            f"{busy:.0%}",
            str(stage.waiting),
        ]
        for stage, busy in zip(statistics.stages, rates.busy, strict=True)
    ]
    rows.append(["submit to result", "", *_times(latency), "", ""])
    waits = [
        f"{stage.name}: {stage.device_wait_s:.1f} s of its time it waited for its device"
        for stage in statistics.stages
        if _is_notable(stage)
    ]
    faults = [
        f"{stage.name}: {stage.retries} frames run again, {stage.fallback_frames} on its fallback"
        for stage in statistics.stages
        if stage.fault
    ]
    return "\n".join(
        [*map(printable, lines), "", format_table(header, rows), *map(printable, waits + faults)]
    )


def _times(times: Durations) -> list[str]:
    values = (times.min_ms, times.median_ms, times.p95_ms, times.p99_ms)
    return [str(times.count), *(f"{value:.3f}" for value in values)]


def _is_notable(stage: StageStatistics) -> bool:
    """Return whether a stage waited for its device for more than a thousandth of its run times."""
    return stage.device_wait_s * 1e6 > stage.busy.count * stage.busy.mean_ms


def _troubles(stage: StageStatistics) -> str:
    told = f", {stage.device_wait_s:.1f} s for its device" if _is_notable(stage) else ""
    if stage.fault:
        told += f", {stage.retries} run again, {stage.fallback_frames} on its fallback"
    return told


def _short(board: Board | None) -> str:
    """Return the machine's load and its hottest sensor, for one line."""
    if board is None:
        return ""
    figures = [f"CPU {board.processor_load:.0%}"] if board.processor_load is not None else []
    if board.temperatures:
        figures.append(f"{max(one.celsius for one in board.temperatures):.1f} °C")
    return f"; {', '.join(figures)}" if figures else ""


def _board(board: Board, program: str) -> str:
    """Return all of the machine's figures that are known."""
    of_cores = f"of {board.cores} core{'' if board.cores == 1 else 's'}"
    loads = [
        f"{name} {load:.0%}"
        for name, load in (("CPU", board.processor_load), (program, board.program_load))
        if load is not None
    ]
    temperatures = [f"{one.type} {one.celsius:.1f} °C" for one in board.temperatures]
    figures = [f"{' with '.join(loads)} {of_cores}"] if loads else []
    return f"board: {', '.join([*figures, *temperatures]) or of_cores.removeprefix('of ')}"


def _reopened(source: Source) -> str:
    counts = {"silences": source.silences, "reconnects": source.reconnects}
    return "".join(f", {count} {name}" for name, count in counts.items() if count)


def _outage(source: Source | None) -> str:
    if source is None or source.outage_s == 0:
        return ""
    return f"; no picture for {source.outage_s:.0f} s ({source.fault})"


def _stall(snapshot: Snapshot) -> str:
    return f"  (no news for {snapshot.age_s:.0f} s)" if snapshot.stalled else ""
