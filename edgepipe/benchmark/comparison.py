"""Two benchmarks side by side: their figures, and how much each changed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgepipe.benchmark.record import Benchmark, Run, accelerator_ms
from edgepipe.report.table import format_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A figure of two benchmarks, None where one does not have it."""

    figure: str
    unit: str
    first: float | None
    second: float | None

    @property
    def change_percent(self) -> float | None:
        """The change from the first to the second; None without both, or from 0."""
        if self.first is None or self.second is None or not self.first:
            return None
        return 100 * (self.second / self.first - 1)


def compare(first: Benchmark, second: Benchmark) -> tuple[Difference, ...]:
    """Return the figures of both, those of the first one first; stages compare by name."""
    of_first, of_second = dict(_figures(first)), dict(_figures(second))
    return tuple(
        Difference(figure=name, unit=unit, first=of_first.get(key), second=of_second.get(key))
        for key in dict.fromkeys((*of_first, *of_second))
        for name, unit in (key,)
    )


def to_text(
    names: tuple[str, str], benchmarks: tuple[Benchmark, Benchmark], found: Sequence[Difference]
) -> str:
    """Return the comparison as text; ``names`` are those of the two files."""
    lines = [
        f"{letter}: {name}: {each.network} for {each.board} on "
        f"{each.machine.host or each.machine.machine}, {each.frames} frames, "
        f"device {each.pipelined.device}"
        for letter, name, each in zip("ab", names, benchmarks, strict=True)
    ]
    rows = [
        [each.figure, each.unit, _number(each.first), _number(each.second), _change(each)]
        for each in found
    ]
    table = format_table(["figure", "unit", "a", "b", "change"], rows)
    return "\n".join(lines) + f"\n\n{table}\n"


def to_json(found: Sequence[Difference]) -> str:
    """Return the comparison as JSON."""
    records = [dataclasses.asdict(each) | {"change_percent": each.change_percent} for each in found]
    return json.dumps(records, indent=1) + "\n"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _change(difference: Difference) -> str:
    change = difference.change_percent
    return "-" if change is None else f"{change:+.1f}%"


def _figures(benchmark: Benchmark) -> Iterator[tuple[tuple[str, str], float]]:
    """Yield name and unit of each figure, and its value."""
    for run in benchmark.runs:
        yield from _of_run(run)
    yield ("gain", "x"), benchmark.gain
    yield ("contiguous memory", "MiB"), benchmark.contiguous_bytes / (1 << 20)
    for stage in benchmark.prediction.stages:
        yield (f"{stage.name}, by the model", "ms"), stage.ms
    yield ("serial, by the model", "frames/s"), 1e3 / benchmark.prediction.serial_ms
    yield ("pipelined, by the model", "frames/s"), 1e3 / benchmark.prediction.interval_ms


def _of_run(run: Run) -> Iterator[tuple[tuple[str, str], float]]:
    found = run.statistics
    yield (run.mode, "frames/s"), found.frames_per_second
    for name, value in (
        ("p50", found.latency.median_ms),
        ("p95", found.latency.p95_ms),
        ("p99", found.latency.p99_ms),
    ):
        yield (f"{run.mode}, latency {name}", "ms"), value
    yield (f"{run.mode}, dropped", "frames"), found.dropped
    yield (f"{run.mode}, failed", "frames"), found.failed
    if run.peak_memory_bytes:
        yield (f"{run.mode}, memory", "MiB"), run.peak_memory_bytes / (1 << 20)
    for stage in found.stages:
        yield (f"{run.mode}, {stage.name} p50", "ms"), stage.busy.median_ms
        yield (f"{run.mode}, {stage.name} p99", "ms"), stage.busy.p99_ms
        alone_ms = accelerator_ms(stage)
        if alone_ms is not None:
            yield (f"{run.mode}, {stage.name}, accelerator alone", "ms"), alone_ms
