"""A measurement as a table and as JSON."""

from __future__ import annotations

import dataclasses
import json

from edgepipe.board_costs.cost_fit import SAME_AS
from edgepipe.board_costs.measuring import Measured
from edgepipe.boards import Board
from edgepipe.report.table import format_table


def to_text(measured: Measured, board: Board) -> str:
    """Return the costs beside those that the board's file had, and the programs' cycles."""
    before, after = (dataclasses.asdict(c) for c in (board.timing, measured.fit.costs))
    arm_before, arm_after = (dataclasses.asdict(c) for c in (board.arm_timing, measured.arm_timing))
    rows = [[name, _cost(before, name), _cost(after, name)] for name in after]
    rows += [[name, f"{arm_before[name]:g}", f"{arm_after[name]:g}"] for name in arm_after]
    programs = [
        [name, f"{cycles:,.0f}", f"{fit.modelled_cycles[name]:,}", f"{100 * fit.error(name):+.1f}"]
        for fit in (measured.fit,)
        for name, cycles in fit.measured_cycles.items()
    ]
    parts = [
        format_table(["cost", "before", "measured"], rows),
        format_table(["program", "measured cycles", "modelled", "difference %"], programs),
        *_remarks(measured),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _cost(costs: dict[str, int], name: str) -> str:
    value = costs[name]
    return f"as {SAME_AS[name]}" if name in SAME_AS and not value else f"{value:,}"


def _remarks(measured: Measured) -> list[str]:
    fit = measured.fit
    remarks = [
        f"{name}: not measured, because it hardly changes any program on this accelerator"
        for name in fit.undetermined
    ]
    return remarks + [
        f"{name}: the timing model allows no value that explains the measured times"
        for name in fit.at_limit
    ]


def to_json(measured: Measured) -> str:
    """Return the measurement as JSON."""
    fit = measured.fit
    content = {
        "machine": dict(measured.machine),
        "device": measured.device,
        "repeat": measured.repeat,
        "timing": dataclasses.asdict(fit.costs),
        "arm_timing": dataclasses.asdict(measured.arm_timing),
        "undetermined": list(fit.undetermined),
        "at_limit": list(fit.at_limit),
        "programs": [
            {
                "name": name,
                "measured_cycles": round(cycles),
                "modelled_cycles": fit.modelled_cycles[name],
            }
            for name, cycles in fit.measured_cycles.items()
        ],
        "kernels_us": dict(measured.arm_us),
    }
    return json.dumps(content, indent=1) + "\n"
