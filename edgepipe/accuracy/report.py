"""An accuracy report as tables, JSON, and a chart of all layers."""

from __future__ import annotations

import dataclasses
import json
from html import escape

from edgepipe.accuracy.measurement import AccuracyReport
from edgepipe.accuracy.per_layer import Comparison, LayerAccuracy
from edgepipe.names import printable
from edgepipe.report.table import format_table

# The chart, in pixels.
_ROW, _BAR, _LEFT, _WIDTH, _TOP = 22, 8, 320, 560, 64
_COLOURS = {"so far": "#c2410c", "alone": "#0f766e"}
_MOST_DB = 60.0
_MOST_NAME = 40  # characters; more are left out of the middle


def to_json(report: AccuracyReport) -> str:
    """Return the report as JSON; ``snr_db`` is null where there is no difference."""
    return json.dumps(dataclasses.asdict(report), indent=1)


def to_text(report: AccuracyReport) -> str:
    """Return the report as tables for people."""
    parts = []
    if report.layers:
        parts.append(f"{report.network}: int8 against float, {_pictures(report.layer_pictures)}")
        parts.append(_layer_table(report.layers))
    if report.figures:
        parts.append(f"{report.network} on {report.device}, {_pictures(report.pictures)}")
        parts.append(_figure_table(report))
    if report.compared:
        parts.append(
            f"{report.device}: every tensor between stages bit-equal to the simulator, "
            f"{_pictures(report.pictures)}"
        )
    return "\n\n".join(parts)


def _pictures(count: int) -> str:
    return "1 picture" if count == 1 else f"{count} pictures"


def _layer_table(layers: tuple[LayerAccuracy, ...]) -> str:
    header = ["layer", "kind", "on", "dB so far", "dB alone", "cos so far", "cos alone", "worst"]
    rows = [
        [layer.name, layer.kind, layer.stage]
        + [_decibels(mode) for mode in (layer.so_far, layer.alone)]
        + [f"{mode.cosine:.5f}" for mode in (layer.so_far, layer.alone)]
        + [_worst(layer.so_far)]
        for layer in layers
    ]
    return format_table(header, rows)


def _decibels(mode: Comparison) -> str:
    return "exact" if mode.snr_db is None else f"{mode.snr_db:.1f}"


def _worst(mode: Comparison) -> str:
    if mode.worst is None:
        return "-"
    worst = mode.worst
    where = ",".join(map(str, worst.index))
    return f"{worst.found:.4g} for {worst.expected:.4g} at [{where}] of {worst.picture}"


def _figure_table(report: AccuracyReport) -> str:
    rows = [
        [f.name, f"{f.exact:.4f}", f"{f.found:.4f}", f"{f.found - f.exact:+.4f}"]
        for f in report.figures
    ]
    return format_table(["measure", "float", "int8", "difference"], rows)


def to_svg(report: AccuracyReport) -> str:
    """Return a chart as SVG: for each layer, a bar of decibels for each mode."""
    width, height = _LEFT + _WIDTH + 60, _TOP + _ROW * len(report.layers) + 30
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="12" y="22" font-size="15">{_text(report.network)}: signal-to-noise of each '
        f"layer in dB, {_pictures(report.layer_pictures)}</text>",
    ]
    for index, (mode, colour) in enumerate(_COLOURS.items()):
        x = _LEFT + 110 * index
        lines.append(f'<rect x="{x}" y="34" width="12" height="10" fill="{colour}"/>')
        lines.append(f'<text x="{x + 18}" y="44">{mode}</text>')
    for decibels in range(0, int(_MOST_DB) + 1, 10):
        x = _LEFT + round(decibels / _MOST_DB * _WIDTH)
        lines.append(f'<path d="M{x} {_TOP - 6}V{height - 24}" stroke="#d4d4d8"/>')
        lines.append(f'<text x="{x}" y="{height - 8}" text-anchor="middle">{decibels}</text>')
    for index, layer in enumerate(report.layers):
        y = _TOP + _ROW * index
        lines.append(
            f'<text x="{_LEFT - 8}" y="{y + 13}" text-anchor="end">'
            f"{_text(_shortened(layer.name))}</text>"
        )
        for place, (mode, colour) in enumerate(_COLOURS.items()):
            found = layer.so_far if mode == "so far" else layer.alone
            share = 1.0 if found.snr_db is None else min(max(found.snr_db / _MOST_DB, 0.0), 1.0)
            lines.append(
                f'<rect x="{_LEFT}" y="{y + 2 + place * _BAR}" width="{round(share * _WIDTH)}" '
                f'height="{_BAR}" fill="{colour}"><title>{_text(layer.name)}, {mode}: '
                f"{_decibels(found)}</title></rect>"
            )
            if share in (0.0, 1.0):  # the bar's length does not tell
                lines.append(
                    f'<text x="{_LEFT + round(share * _WIDTH) + 4}" '
                    f'y="{y + 1 + (place + 1) * _BAR}" font-size="9">{_decibels(found)}</text>'
                )
    return "\n".join([*lines, "</svg>"]) + "\n"


def _shortened(name: str) -> str:
    half = (_MOST_NAME - 1) // 2
    return name if len(name) <= _MOST_NAME else f"{name[:half]}…{name[-half:]}"


def _text(name: str) -> str:
    return escape(printable(name), quote=True)
