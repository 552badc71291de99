"""The figures of make rtl-report that are committed are of this circuit, and meet their budgets."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from bench import rtl_record, rtl_report
from bench.figures import Figure
from bench.rtl_netlist import Resources
from bench.rtl_record import BUDGETS, LEVELS, REMEDY, complaints, record, recorded, still_of
from bench.rtl_synthesis import Target

STOCK = ("stock", "XC7Z020")
SMALL: Resources = {"LUT": 1, "FF": 2, "DSP": 3, "BRAM36": 4, LEVELS: 5}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A record with small figures of all targets; a circuit is its target's name."""
    monkeypatch.setattr(rtl_record, "synthesised_digest", " on ".join)
    made = tmp_path / "resources.json"
    for target in BUDGETS:
        record(target, SMALL, made)
    return made


def change(file: Path, target: Target, **values: object) -> None:
    entries = json.loads(file.read_text())
    entries[" on ".join(target)].update(values)
    file.write_text(json.dumps(entries))


def test_the_committed_figures_are_of_this_circuit_and_meet_their_budgets() -> None:
    assert complaints() == []


def test_the_page_has_the_recorded_figures() -> None:
    assert rtl_record.page_table() in rtl_record.PAGE.read_text(encoding="utf-8"), REMEDY


def test_a_page_gets_the_table_in_the_place_of_its_own(file: Path, tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text(
        "before\n\n| accelerator | FPGA | old |\n|---|---|---|\n| a | b | 1 |\n\nafter\n"
    )
    rtl_record.write_page(page, file)
    text = page.read_text()
    assert text == f"before\n\n{rtl_record.page_table(file)}\nafter\n"
    row = "| stock | XC7Z020 | 1 of 53,200 | 2 of 106,400 | 3 of 220 | 4 of 140 | 5 levels |"
    assert row in text.splitlines()
    rtl_record.write_page(page, file)
    assert page.read_text() == text


def test_what_was_just_recorded_holds(file: Path) -> None:
    assert complaints(file) == []
    entries = recorded(file)
    assert entries.keys() == BUDGETS.keys()
    assert all(entry["figures"] == SMALL for entry in entries.values())
    assert all(still_of(target, entry) for target, entry in entries.items())


def test_a_target_that_is_not_recorded_is_named(file: Path) -> None:
    entries = json.loads(file.read_text())
    del entries["stock on XC7Z020"]
    file.write_text(json.dumps(entries))
    expected = f"resources.json: stock on XC7Z020 is missing, expected figures of it: {REMEDY}"
    assert complaints(file) == [expected]


def test_sources_that_have_changed_are_named(file: Path) -> None:
    change(file, STOCK, sources="0123")
    (found,) = complaints(file)
    expected = "resources.json: stock on XC7Z020 was made with digest of the circuit's sources 0123"
    assert found.startswith(f"{expected}, expected ")
    assert found.endswith(REMEDY)
    assert still_of(STOCK, recorded(file)[STOCK]), "the circuit itself is the same"


def test_another_version_of_a_tool_is_named(file: Path) -> None:
    tools = recorded(file)[STOCK]["made_with"]
    change(file, STOCK, made_with={**tools, "amaranth": "0.5.9"})
    now = tools["amaranth"]
    expected = f"resources.json: stock on XC7Z020 was made with amaranth 0.5.9, expected {now}"
    assert complaints(file) == [f"{expected}: {REMEDY}"]
    assert not still_of(STOCK, recorded(file)[STOCK])


def test_a_missed_budget_is_named(file: Path) -> None:
    change(file, STOCK, figures={**SMALL, "LUT": 19_001})
    expected = "resources.json: stock on XC7Z020 takes 19001 LUT, expected at most 19000"
    assert complaints(file) == [f"{expected}: make it smaller, and {REMEDY}"]


def test_comments_and_docstrings_do_not_count() -> None:
    one = '"""A."""\n# b\nx = 1\n"""C."""\n\n\ndef f():\n    """D\n    e."""\n    return "# x"\n'
    assert rtl_record._code(one, ast.parse(one)) == 'x = 1\ndef f():\n    return "# x"'


def test_all_that_decides_figures_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    code = rtl_record._code
    monkeypatch.setattr(
        rtl_record, "_code", lambda text, tree: read.append(text) or code(text, tree)
    )
    rtl_record.sources_digest.__wrapped__()
    for name in (
        *("vta_rtl/core.py", "vta_rtl/dram/loader.py", "vta_rtl/compute/shifted_sum.py"),
        *("vta_stages/accelerator.py", "vta_stages/isa/fields.py"),
        *("bench/rtl_accelerators.py", "bench/rtl_netlist.py", "bench/rtl_synthesis.py"),
    ):
        assert (rtl_record.ROOT / name).read_text(encoding="utf-8") in read, name


def test_a_circuit_that_is_the_same_is_not_synthesised_again(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    change(file, STOCK, sources="0123")
    printed: list[Figure] = []
    monkeypatch.setattr(rtl_report, "recorded", lambda: recorded(file))
    monkeypatch.setattr(rtl_report, "record", lambda target, found: record(target, found, file))
    monkeypatch.setattr(rtl_report, "write_page", lambda: None)
    monkeypatch.setattr(rtl_report, "publish", lambda _, found: printed.extend(found) or 0)
    monkeypatch.setattr("sys.argv", ["rtl_report", "--record"])
    assert rtl_report.main() == 0
    assert len(printed) == 5 * len(BUDGETS)
    assert complaints(file) == []
