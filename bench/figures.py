"""The output of every benchmark: a table on stdout and ``build/bench/NAME.json``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepipe.report.table import format_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured value; ``at_least`` and ``at_most`` are its limits, ``source`` its origin."""

    name: str
    value: float
    unit: str
    at_least: float | None = None
    at_most: float | None = None
    source: str = ""

    @property
    def bar(self) -> str:
        """The limit as text; empty if there is none."""
        low = f">= {self.at_least:g}" if self.at_least is not None else ""
        high = f"<= {self.at_most:g}" if self.at_most is not None else ""
        return " and ".join(part for part in (low, high) if part)

    @property
    def passed(self) -> bool | None:
        """Whether the limit is met; None if there is none."""
        if not self.bar:
            return None
        return (self.at_least is None or self.value >= self.at_least) and (
            self.at_most is None or self.value <= self.at_most
        )

    def row(self) -> list[str]:
        """Return the figure as cells of the table."""
        verdict = {None: "", True: "pass", False: "MISS"}[self.passed]
        value = f"{self.value:.4g}" if abs(self.value) < 10_000 else f"{self.value:.0f}"
        return [self.name, value, self.unit, self.bar or "-", verdict, self.source]


def publish(name: str, figures: list[Figure], *, printed_before: Sequence[Figure] = ()) -> int:
    """Print the table and write the JSON file, which also has the figures that were printed before;
    return 1 if a limit is missed, else 0."""
    print(
        format_table(
            ["figure", "value", "unit", "bar", "verdict", "source"], [f.row() for f in figures]
        )
    )
    path = Path("build/bench") / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = [
        {
            "name": f.name,
            "value": f.value,
            "unit": f.unit,
            "bar": f.at_most if f.at_least is None else f.at_least,
            "at_least": f.at_least,
            "at_most": f.at_most,
            "pass": f.passed,
            "source": f.source,
        }
        for f in (*figures, *printed_before)
    ]
    path.write_text(json.dumps(entries, indent=1) + "\n")
    print(f"written to {path}")
    return int(any(f.passed is False for f in figures))
