"""The report of resources names modules by place, adds up what is in them, and has budgets."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bench import rtl_report
from bench.rtl_netlist import RESOURCES
from bench.rtl_record import BUDGETS
from bench.rtl_report import figures, measured, module_name, table
from bench.rtl_synthesis import FPGAS, read_netlist


def _module(*cells: tuple[str, int]) -> dict[str, Any]:
    """Return a module of unconnected cells, so many of each type."""
    each = {"port_directions": {}, "connections": {}}
    names = [kind for kind, count in cells for _ in range(count)]
    return {"ports": {}, "cells": {f"c{n}": {"type": kind, **each} for n, kind in enumerate(names)}}


NETLIST = {
    "edgepipe_vta": _module(("edgepipe_vta.core", 1)),
    "edgepipe_vta.core": _module(("edgepipe_vta.core.inp", 1), ("DSP48E1", 2), ("LUT6", 5)),
    "edgepipe_vta.core.inp": _module(("RAMB36E1", 3), ("FDRE", 7), ("LUT2", 1)),
}


def test_cells_of_the_library_are_no_modules() -> None:
    text = json.dumps({"modules": {**NETLIST, "LUT6": _module()}})
    assert read_netlist(text) == NETLIST


def test_a_row_has_what_is_in_the_module_and_in_its_submodules() -> None:
    core, inp = table(NETLIST)
    assert RESOURCES == ("LUT", "FF", "DSP", "BRAM36")
    assert core[:5] == ["core", "6", "7", "2", "3"]
    assert inp[:5] == ["inp", "1", "7", "0", "3"]


def test_a_row_has_the_longest_path_that_ends_in_the_module_and_where_it_begins() -> None:
    lut = {"port_directions": {"I0": "input", "O": "output"}, "type": "LUT1"}
    register = {"port_directions": {"D": "input", "Q": "output"}, "type": "FDRE"}
    netlist = {
        "edgepipe_vta": _module(("edgepipe_vta.core", 1)),
        "edgepipe_vta.core": {
            "ports": {},
            "cells": {
                "a": {
                    "type": "edgepipe_vta.core.a",
                    "port_directions": {"out": "output"},
                    "connections": {"out": [5]},
                },
                "lut": {**lut, "connections": {"I0": [5], "O": [6]}},
                "register": {**register, "connections": {"D": [6], "Q": [7]}},
            },
        },
        "edgepipe_vta.core.a": {
            "ports": {"out": {"direction": "output", "bits": [3]}},
            "cells": {"register": {**register, "connections": {"D": ["0"], "Q": [3]}}},
        },
    }
    assert [row[5:] for row in table(netlist)] == [["1", "a"], ["-", "-"]]


@pytest.mark.parametrize("fpga", FPGAS)
@pytest.mark.parametrize(
    ("accelerator", "luts", "met"),
    [
        ("stock", 19_001, [False, True, False, False]),
        ("extended", 28_001, [False, True, True, False]),
    ],
)
def test_a_missed_budget_fails(accelerator: str, fpga: str, luts: int, met: list[bool]) -> None:
    cells = {"LUT6": luts, "DSP48E1": 129, "RAMB36E1": 126, "RAMB18E1": 1}
    netlist = {"edgepipe_vta": _module(*cells.items())}
    verdicts = {f.name: f.passed for f in figures((accelerator, fpga), measured(netlist))}
    assert [verdicts[f"{accelerator} on {fpga}: {kind}"] for kind in RESOURCES] == met


def test_three_quarters_of_the_larger_fpga_may_be_taken_by_twice_the_products() -> None:
    cells = {"LUT6": 52_920, "DSP48E2": 270, "RAMB36E2": 162}
    target = ("1x32x16", "XCZU3EG")
    for more, met in ((), True), (("LUT6", "DSP48E2", "RAMB36E2"), False):
        netlist = {
            "edgepipe_vta": _module(*({k: n + (k in more) for k, n in cells.items()}.items()))
        }
        verdicts = {f.name.split(": ")[1]: f.passed for f in figures(target, measured(netlist))}
        assert all(verdicts[kind] is met for kind in ("LUT", "DSP", "BRAM36"))


@pytest.mark.parametrize("target", BUDGETS)
def test_a_budget_that_is_used_up_is_met(target: tuple[str, str]) -> None:
    budget = {"DSP": 0, **BUDGETS[target]}
    cells = {"LUT6": budget["LUT"], "DSP48E1": budget["DSP"], "RAMB36E1": budget["BRAM36"]}
    netlist = {"edgepipe_vta": _module(*((kind, int(n)) for kind, n in cells.items()))}
    assert all(figure.passed is not False for figure in figures(target, measured(netlist)))


@pytest.mark.parametrize("target", BUDGETS)
def test_budgets_fit_the_fpga(target: tuple[str, str]) -> None:
    assert all(budget <= FPGAS[target[1]].has[kind] for kind, budget in BUDGETS[target].items())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("edgepipe_vta", "edgepipe_vta"),
        ("edgepipe_vta.core", "core"),
        ("edgepipe_vta.core.device.compute", "device.compute"),
    ],
)
def test_modules_are_named_by_their_place_in_the_core(name: str, expected: str) -> None:
    assert module_name(name) == expected


def test_an_unknown_target_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["rtl_report", "stock:XC7Z010"])
    with pytest.raises(SystemExit):
        rtl_report.main()
    expected = "unknown target 'stock:XC7Z010', expected one of stock:XC7Z020, stock:XCZU3EG, "
    assert expected in capsys.readouterr().err


def test_a_cell_that_yosys_left_unmapped_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    netlist = {
        "edgepipe_vta": _module(("edgepipe_vta.core", 1)),
        "edgepipe_vta.core": _module(("$mul", 1)),
    }
    monkeypatch.setattr(rtl_report, "synthesise", lambda _: netlist)
    monkeypatch.setattr("sys.argv", ["rtl_report", "stock:XC7Z020"])
    with pytest.raises(
        SystemExit, match=r"rtl-report: netlist: cells of type \$mul, expected only"
    ):
        rtl_report.main()


def test_main_returns_1_for_a_missed_budget_and_0_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["rtl_report", "stock:XC7Z020"])
    for dsps, status, verdict in ((128, 0, "pass"), (129, 1, "MISS")):
        core = _module(("DSP48E1", dsps))
        netlist = {"edgepipe_vta": _module(("edgepipe_vta.core", 1)), "edgepipe_vta.core": core}
        monkeypatch.setattr(rtl_report, "synthesise", lambda _, found=netlist: found)
        assert rtl_report.main() == status
        assert re.search(f"of 220 +<= 128 +{verdict}", capsys.readouterr().out)
        (figure,) = [
            f
            for f in json.loads((tmp_path / "build/bench/rtl-report.json").read_text())
            if f["name"] == "stock on XC7Z020: DSP"
        ]
        assert figure["pass"] is (status == 0)
