"""The report of resources counts what yosys says of modules and of what is in them."""

from __future__ import annotations

import json

import pytest

from bench import rtl_report
from bench.rtl_report import module_name, read_statistics, resources_of


def test_two_small_block_rams_are_a_large_one() -> None:
    cells = {"RAMB36E1": 4, "RAMB18E1": 3, "DSP48E1": 2}
    assert resources_of(cells) == {"DSP": 2, "MUL": 0, "BRAM36": 5.5}


def test_the_cells_of_both_families_count() -> None:
    cells = {"RAMB36E2": 1, "RAMB18E2": 1, "DSP48E2": 3}
    assert resources_of(cells) == {"DSP": 3, "MUL": 0, "BRAM36": 1.5}


def test_distributed_ram_and_logic_are_not_counted() -> None:
    assert not any(resources_of({"RAM32M": 2, "LUT6": 3, "$add": 1, "FDRE": 7}).values())


def test_a_module_has_what_its_submodules_have() -> None:
    modules = {
        "\\edgepipe_vta": {"edgepipe_vta.core": 1, "$and": 1},
        "\\edgepipe_vta.core": {"edgepipe_vta.core.inp": 2, "DSP48E1": 1, "$mul": 2},
        "\\edgepipe_vta.core.inp": {"RAMB36E1": 3, "$and": 1},
    }
    text = json.dumps({"modules": {n: {"num_cells_by_type": c} for n, c in modules.items()}})
    found = read_statistics(text)
    assert found["inp"] == {"DSP": 0, "MUL": 0, "BRAM36": 3}
    assert found["core"] == {"DSP": 1, "MUL": 2, "BRAM36": 6}
    assert found["edgepipe_vta"] == found["core"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("\\edgepipe_vta", "edgepipe_vta"),
        ("\\edgepipe_vta.core", "core"),
        ("\\edgepipe_vta.core.device.compute", "device.compute"),
    ],
)
def test_modules_are_named_by_their_place_in_the_core(name: str, expected: str) -> None:
    assert module_name(name) == expected


def test_an_unknown_fpga_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["rtl_report", "XC7Z010"])
    with pytest.raises(SystemExit):
        rtl_report.main()
    expected = "unknown FPGA 'XC7Z010', expected one of XC7Z020"
    assert expected in capsys.readouterr().err
