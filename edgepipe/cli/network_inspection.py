"""The half of ``edgepipe inspect`` that says what a build of a network would give."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Iterator

from edgepipe import boards
from edgepipe.beside import neighbours
from edgepipe.cli import arguments
from edgepipe.cli.console import ConsoleProgress, print_line
from edgepipe.forecast import (
    Forecast,
    ForecastOptions,
    Memory,
    OperatorForecast,
    StageForecast,
    forecast,
)
from edgepipe.report.table import format_table

_MEBIBYTE = 1 << 20
_MOST_NAMES = 4


def inspect_network(options: argparse.Namespace, default_board: str) -> int:
    """Print what a build of the network would give, as text or JSON.

    It is for ``default_board`` unless ``options`` name a board.
    """
    progress = ConsoleProgress()
    found = forecast(
        ForecastOptions(
            model=options.bundle,
            board=boards.load(options.board or default_board),
            description=options.description,
            cuts=tuple(options.cut),
            placement=arguments.placement(options.place),
            depthwise=options.depthwise or "auto",
            objective=options.objective or "",
            max_latency_ms=options.max_latency_ms,
            stages=options.stages,
            slots=options.slots,
            float_layers=tuple(options.float),
            int16_layers=tuple(options.int16),
            rules=tuple(options.rules),
            placement_file=options.placement,
            export_placement=options.export_placement,
            costs=options.costs,
            beside=neighbours(options.beside),
        ),
        progress,
    )
    progress.finish()
    if options.json:
        print(json.dumps(dataclasses.asdict(found), indent=1))
    else:
        print_forecast(found)
    return 0


def print_forecast(found: Forecast) -> None:
    """Print operators, stages, what stays float, times and memory."""
    print_line(f"{found.model} builds for {found.board}; ranges are from made-up pictures")
    print_line(f"description: {found.description or _drafted(found)}")
    for notice in found.notices:
        print_line(f"note: {notice}")
    print()
    rows = [
        [
            o.name,
            o.kind,
            ", ".join(o.can),
            o.device,
            o.stage,
            _ms(o.ms),
            *_source(found, o),
            o.reason,
        ]
        for o in found.operators
    ]
    sources = ["cost"] if found.costs else []
    header = ["operator", "kind", "can", "should", "stage", "ms", *sources, "reason"]
    print(format_table(header, rows))
    print()
    rows = [
        [
            s.name,
            s.device,
            str(s.operators),
            _ms(s.ms),
            *_source(found, s),
            str(s.threads),
            *map(_list, (s.inputs, s.outputs)),
        ]
        for s in found.stages
    ]
    header = ["stage", "device", "operators", "ms", *sources, "threads", "reads", "writes"]
    print(format_table(header, rows))
    print()
    if found.floats:
        print_line("in floating point on ARM:")
        for group in found.floats:
            inside = f", {len(group.inside)} between operators of the VTA" if group.inside else ""
            print_line(f"  {group.kind} ({len(group.operators)}{inside}): {group.remedy}")
        print()
    print_line(f"stages: {len(found.stages)}, hops: {found.hops}")
    if found.costs:
        for line in _costs(found):
            print_line(line)
    source = "by the model, or measured" if found.costs else "by the model"
    print_line(
        f"times {source}, with hops: VTA {found.vta_ms:.2f} ms, ARM {found.arm_ms:.2f} ms on "
        f"{found.arm_cores} cores; a frame every {found.interval_ms:.2f} ms "
        f"({1e3 / found.interval_ms:.1f} frames/s), latency {found.latency_ms:.2f} ms"
    )
    print_line(_memory(found.memory))
    if found.live_slots != found.memory.slots:
        print_line(f"frames in flight for a camera: {found.live_slots}")


def _drafted(found: Forecast) -> str:
    return f"none, so this one was drafted; its guesses: {'; '.join(found.guesses)}"


def _memory(memory: Memory) -> str:
    return (
        f"contiguous memory: {memory.used_bytes / _MEBIBYTE:.1f} MiB of "
        f"{memory.board_bytes / _MEBIBYTE:.0f}: {memory.shared_bytes / _MEBIBYTE:.1f} MiB for "
        f"weights and scratch, {memory.slot_bytes / _MEBIBYTE:.2f} MiB for each of "
        f"{memory.slots} frames in flight"
    )


def _source(found: Forecast, part: OperatorForecast | StageForecast) -> list[str]:
    """Return where a time is from, for a forecast with measured costs."""
    return ["measured" if part.measured else "model"] if found.costs else []


def _costs(found: Forecast) -> Iterator[str]:
    operators, stages = (sum(p.measured for p in each) for each in (found.operators, found.stages))
    yield (
        f"{found.costs}: {operators} of {len(found.operators)} operators and {stages} of "
        f"{len(found.stages)} stages were measured where they run; the model has the other costs"
    )
    for name, device, reason in found.failures:
        yield f"not measured: {name} on {device}: {reason}"


def _ms(ms: float) -> str:
    return f"{ms:.2f}" if ms else "-"


def _list(names: tuple[str, ...]) -> str:
    rest = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + rest
