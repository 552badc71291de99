"""A report as text for a terminal, and as JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from edgepipe.bundle_report.comparison import Comparison
from edgepipe.bundle_report.model import Cut, Measurement, Report, Timeline
from edgepipe.names import printable
from edgepipe.report.table import format_table

_MEBIBYTE = 1 << 20
_BEST_CUTS = 5
_WIDEST = 44
_TIMELINE_CELLS = 72


def to_json(report: Report, comparison: Comparison | None = None) -> str:
    """Return the report as one JSON object, with the figures that follow from its values."""
    return json.dumps(as_table(report, comparison), indent=1) + "\n"


def as_table(report: Report, comparison: Comparison | None = None) -> dict[str, Any]:
    """Return the report's values as dictionaries and lists, with those that follow from them."""
    table = dataclasses.asdict(report)
    table["prediction"]["frames_per_second"] = report.prediction.frames_per_second
    for name in ("shared_bytes", "slot_bytes", "used_bytes"):
        table["memory"][name] = getattr(report.memory, name)
    best = report.what_if.best
    table["what_if"]["best"] = None if best is None else best.operator
    table["comparison"] = None
    if comparison is not None:
        table["comparison"] = dataclasses.asdict(comparison)
        for row, figure in zip(table["comparison"]["figures"], comparison.figures, strict=True):
            row["change"] = figure.change
    return table


def to_text(report: Report, comparison: Comparison | None = None) -> str:
    """Return the report as text; names cannot control a terminal."""
    parts = [_summary(report), _stages(report), _operators(report), _memory(report)]
    parts.append(_what_if(report))
    if report.measurement is not None:
        parts.append(_measurement(report, report.measurement))
        parts.append(_timelines(report, report.measurement))
    if comparison is not None:
        parts.append(_comparison(report, comparison))
    return "\n\n".join(parts) + "\n"


def _summary(report: Report) -> str:
    prediction = report.prediction
    version = f", version {report.version}" if report.version else ""
    lines = [
        f"{report.name} for {report.board}{version}: VTA {report.accelerator}, "
        f"{report.clock_hz / 1e6:.0f} MHz",
        f"by the model: a frame every {prediction.interval_ms:.2f} ms "
        f"({prediction.frames_per_second:.1f} frames per second), "
        f"{prediction.serial_ms:.2f} ms for a frame alone",
        f"work of a frame: VTA {prediction.vta_ms:.2f} ms, ARM {prediction.arm_ms:.2f} ms on one "
        f"of {prediction.arm_cores} cores; the busier one allows a frame every "
        f"{prediction.bound_ms:.2f} ms",
    ]
    return "\n".join(printable(line) for line in lines)


def _stages(report: Report) -> str:
    rows = [
        [
            stage.name,
            stage.device,
            str(stage.operators),
            str(stage.threads),
            f"{stage.ms:.3f}",
            str(stage.cycles) if stage.cycles else "-",
            _percent(stage.ideal_share),
            f"{stage.written_bytes / 1024:.0f}",
            f"{stage.bytes / 1024:.0f}",
        ]
        for stage in report.stages
    ]
    header = ["stage", "device", "operators", "threads", "ms", "cycles", "of ideal"]
    return format_table([*header, "KiB written", "KiB of files"], rows)


def _operators(report: Report) -> str:
    rows = []
    for operator in report.operators:
        layer = operator.layer
        work = [operator.computed_with and "with " + _short(operator.computed_with, 24), "", "", ""]
        if layer is not None and not operator.computed_with:
            work = [
                str(layer.cycles),
                _percent(layer.ideal_share),
                f"{layer.moved_bytes / 1024:.0f}",
                str(layer.stalls.all),
            ]
        rows.append(
            [
                _short(operator.name),
                operator.kind,
                ", ".join(operator.can),
                operator.device,
                operator.stage,
                f"{operator.ms:.3f}",
                *(cell or "-" for cell in work),
                operator.reason,
            ]
        )
    header = ["operator", "kind", "can", "should", "stage", "ms", "cycles", "of ideal"]
    header += ["KiB moved", "waits"]
    return format_table([*header, "reason"], rows)


def _memory(report: Report) -> str:
    memory = report.memory
    rows = [
        [
            _short(region.name),
            region.kind,
            region.stage or "-",
            f"{region.bytes / 1024:.0f}",
            str(memory.slots if region.in_every_slot else 1),
        ]
        for region in memory.regions
    ]
    total = (
        f"contiguous memory: {memory.used_bytes / _MEBIBYTE:.1f} MiB of "
        f"{memory.board_bytes / _MEBIBYTE:.0f}: {memory.shared_bytes / _MEBIBYTE:.1f} shared and "
        f"{memory.slots} slots of {memory.slot_bytes / _MEBIBYTE:.1f}"
    )
    return total + "\n" + format_table(["region", "kind", "stage", "KiB", "times"], rows)


def _what_if(report: Report) -> str:
    built = report.what_if.built
    best = sorted(report.what_if.cuts, key=lambda cut: cut.interval_ms)[:_BEST_CUTS]
    rows = [_cut_row("as built", built), *(_cut_row(_short(c.operator), c) for c in best)]
    header = ["cut after", "stages", "ms between frames", "ms for one", "ms on ARM", "ms on VTA"]
    return (
        f"other cuts, the best {len(best)} of {len(report.what_if.cuts)}, estimated from the "
        "operators alone:\n" + format_table(header, rows)
    )


def _cut_row(name: str, cut: Cut) -> list[str]:
    times = (cut.interval_ms, cut.serial_ms, cut.arm_ms, cut.vta_ms)
    return [name, str(cut.stages), *(f"{ms:.2f}" for ms in times)]


def _measurement(report: Report, found: Measurement) -> str:
    device = f" on {found.device}" if found.device else ""
    head = printable(
        f"measured ({found.source}{device}): {found.frames_per_second:.2f} frames per second, "
        f"latency {found.latency_median_ms:.2f} ms (median), {found.latency_p99_ms:.2f} ms (p99); "
        f"{found.delivered} frames delivered, "
        + ("" if found.dropped is None else f"{found.dropped} dropped, ")
        + f"{found.failed} failed"
    )
    rows = [
        [
            stage.name,
            f"{stage.ms:.3f}",
            f"{measured.mean_ms:.3f}",
            f"{measured.mean_ms / stage.ms:.2f}x" if stage.ms else "-",
            f"{measured.p99_ms:.3f}",
            f"{100 * measured.utilisation:.0f} %",
        ]
        for stage, measured in zip(report.stages, found.stages, strict=True)
    ]
    header = ["stage", "ms by the model", "ms measured", "ratio", "p99", "busy"]
    return head + "\n" + format_table(header, rows)


def _timelines(report: Report, found: Measurement) -> str:
    """Draw the predicted and the measured timeline; a digit is the last one of a frame's number."""
    drawn = "as they ran" if found.trace else "drawn from mean times"
    origin = f"measured ({found.trace or found.source}), frames {drawn}"
    return "\n".join(
        [
            *_timeline("by the model", report.prediction.timeline),
            *_timeline(printable(origin), found.timeline),
        ]
    )


def _timeline(title: str, timeline: Timeline) -> list[str]:
    lanes = [[" "] * _TIMELINE_CELLS for _ in timeline.lanes]
    scale = _TIMELINE_CELLS / timeline.ms if timeline.ms else 0.0
    for run in timeline.runs:
        first = min(int(run.begin_ms * scale), _TIMELINE_CELLS - 1)
        end = max(first + 1, round(run.end_ms * scale))
        lanes[run.lane][first:end] = str(run.frame % 10) * (min(end, _TIMELINE_CELLS) - first)
    names = [printable(_short(name, 16)) for name in timeline.lanes]
    width = max(map(len, names), default=0)
    return [
        f"timeline {title}, {timeline.ms:.2f} ms:",
        *(
            f"  {name:<{width}} |{''.join(cells)}|"
            for name, cells in zip(names, lanes, strict=True)
        ),
    ]


def _comparison(report: Report, comparison: Comparison) -> str:
    rows = [
        [
            f"{figure.name} ({figure.unit})" if figure.unit else figure.name,
            f"{figure.this:.2f}" if figure.unit else f"{figure.this:.0f}",
            f"{figure.other:.2f}" if figure.unit else f"{figure.other:.0f}",
            "-" if figure.change is None else f"{100 * figure.change:+.1f} %",
        ]
        for figure in comparison.figures
    ]
    this, other = report.name, comparison.other
    header = ["figure", f"{this} ({report.board})", f"{other} ({comparison.other_board})", "change"]
    text = "compared with another bundle:\n" + format_table(header, rows)
    if comparison.moved:
        moved = [[_short(m.name), m.kind, m.this_device, m.other_device] for m in comparison.moved]
        text += "\n\n" + format_table(["operator that moved", "kind", "here", "there"], moved)
    return text


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _short(text: str, most: int = _WIDEST) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
