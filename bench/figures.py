"""What every benchmark ends with: a table on stdout and ``build/bench/NAME.json``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from edgepipe.report.table import format_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured value; ``at_least`` or ``at_most`` is its bar, ``source`` who published it."""

    name: str
    value: float
    unit: str
    at_least: float | None = None
    at_most: float | None = None
    source: str = ""

    @property
    def bar(self) -> float | None:
        """The value that the figure must reach, or None."""
        return self.at_least if self.at_least is not None else self.at_most

    @property
    def passed(self) -> bool | None:
        """Whether the bar is met; None without a bar."""
        if self.at_least is not None:
            return self.value >= self.at_least
        if self.at_most is not None:
            return self.value <= self.at_most
        return None

    def row(self) -> list[str]:
        """Return the figure as cells of the table."""
        relation = ">=" if self.at_least is not None else "<=" if self.at_most is not None else ""
        bar = f"{relation} {self.bar:g}" if self.bar is not None else "-"
        verdict = {None: "", True: "pass", False: "MISS"}[self.passed]
        return [self.name, f"{self.value:.4g}", self.unit, bar, verdict, self.source]


def publish(name: str, figures: list[Figure]) -> int:
    """Print the table, write the JSON file; return 1 when a bar is missed, else 0."""
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
            "bar": f.bar,
            "pass": f.passed,
            "source": f.source,
        }
        for f in figures
    ]
    path.write_text(json.dumps(entries, indent=1) + "\n")
    print(f"written to {path}")
    return int(any(f.passed is False for f in figures))
