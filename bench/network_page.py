"""Write docs/reference/networks.md and the zoo's figures from the rows of ``make bench-networks``.

``network_rows.json`` keeps the rows of the page. ``python -m bench.network_page`` replaces those
that the benchmark has made since, so one network can be measured anew or added. It ends with an
error if a network has no row.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Mapping, Sequence

from bench.exported import row_file
from bench.models import ROOT
from bench.network_cases import cases
from edgepipe.zoo import catalogue

KEPT = ROOT / "bench" / "network_rows.json"
PAGE = ROOT / "docs" / "reference" / "networks.md"
Row = Mapping[str, object]

_INTRODUCTION = """\
# Networks

What `edgepipe inspect` forecasts for an Ultra96, and how near int8 is to float.
[A network of your own](../guides/own-network.md) gets the same figures from
`edgepipe inspect net.onnx`, and the same comparison from
[`edgepipe accuracy`](../guides/accuracy.md).

`make bench-networks`, then `python -m bench.network_page`, wrote this page ({date}). Nothing is
timed: times come from [the timing model](timing-model.md), not from a board, so the machine that
computes them does not matter. The numbers after a name are the size of the input in pixels.

| column | meaning |
|---|---|
| stages | stages as `edgepipe inspect` splits the network |
| hops | how often a frame changes between ARM and the accelerator |
| VTA, cores | how busy the accelerator and the ARM cores are |
| MiB | contiguous memory with all frames in flight, of the board's 128 |
| frames/s, ms | frames per second, and the time of one frame alone |
| depthwise on VTA | stages and frames/s with `--depthwise vta`, where at most 3 are expected |
| cosine, SNR | int8 against float, mean over pictures and outputs |
| date | of the compiler that was used; rows before 2026-11-25 have the split by the rule |

Pictures for calibration are not among those compared.
"""
_REAL = """
## Real weights

[`edgepipe models`](../guides/models.md) has these networks: their weights are from public packages
or the examples.
"""
_MADE_UP = """
## Made-up weights

These are the published networks layer for layer, written as exporters write them. Their weights
are random, and so are the pictures, so the accuracy is that of random weights: a trained network
has other ranges, and its pictures have more in common.
"""


def page(rows: Sequence[Row]) -> str:
    """Return the page for the rows of all networks."""
    real = [row for row in rows if row["weights"]]
    made_up = [row for row in rows if not row["weights"]]
    date = max(str(row["date"]) for row in rows)
    what = [f"{row['compares']}, {row['pictures']} pictures" for row in real]
    return (
        _INTRODUCTION.format(date=date)
        + _REAL
        + _table(real, {"weights": [str(row["weights"]) for row in real], "compared": what})
        + _MADE_UP
        + _table(made_up, {"depthwise on VTA": [_on_vta(row) for row in made_up]})
    )


def with_figures(text: str, rows: Mapping[str, Row]) -> str:
    """Return the text of the zoo's file with the figures of ``rows``, by the titles of networks.

    A network without a row keeps its figures.
    """
    keys = [field.name for field in dataclasses.fields(catalogue.Figures)]
    sections = re.split(r"(?m)^(?=\[models\.)", text)
    title = ""
    for index, section in enumerate(sections):
        if found := re.search(r'^title = "(.*)"$', section, re.M):
            title = found[1]
        elif section.partition("\n")[0].endswith(".figures]") and title in rows:
            head = section.partition("\n")[0]
            values = [f"{key} = {json.dumps(rows[title][key])}" for key in keys]
            end = "\n" if index == len(sections) - 1 else "\n\n"
            sections[index] = "\n".join([head, *values]) + end
    return "".join(sections)


def _on_vta(row: Row) -> str:
    if not row["stages_on_vta"]:
        return ""
    return f"{row['stages_on_vta']}: {row['frames_per_second_on_vta']}"


def _table(rows: Sequence[Row], more: Mapping[str, Sequence[str]]) -> str:
    header = ["network", "stages", "hops", "VTA", "cores", "MiB", "frames/s", "ms"]
    header += [*more, "cosine", "SNR", "date"]
    lines = ["", f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    for index, row in enumerate(rows):
        cells = [
            *(str(row[key]) for key in ("network", "stages", "hops")),
            *(f"{row[key]} %" for key in ("vta_percent", "cores_percent")),
            str(row["memory_mebibytes"] or "< 1"),
            *(str(row[key]) for key in ("frames_per_second", "latency_ms")),
            *(cells[index] for cells in more.values()),
            f"{float(str(row['cosine'])):.4f}",
            f"{row['snr_db']} dB",
            str(row["date"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the page; return 1 if a network has no row."""
    rows = json.loads(KEPT.read_text()) if KEPT.is_file() else {}
    known = cases()
    rows |= {
        name: json.loads(row_file(name).read_text()) for name in known if row_file(name).is_file()
    }
    missing = [name for name in known if name not in rows]
    if missing:
        print(f"no rows of {', '.join(missing)}; run python -m bench.exported", file=sys.stderr)
        return 1
    ordered = {name: rows[name] for name in known}
    KEPT.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(list(ordered.values())), encoding="utf-8")
    text = catalogue.FILE.read_text(encoding="utf-8")
    catalogue.FILE.write_text(with_figures(text, ordered), encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}, {catalogue.FILE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
