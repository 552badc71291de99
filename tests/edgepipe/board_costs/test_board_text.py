"""Measured costs in a board's file: what was there before, and what else the file has."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path

import pytest

from edgepipe import boards
from edgepipe.board_costs.board_text import Origin, with_costs
from edgepipe.board_costs.cost_fit import Fit
from edgepipe.board_costs.measuring import Measured
from edgepipe.errors import BoardError
from vta_stages.timing.cost_model import CostModel

COSTS = CostModel(loop_cycles=3, bus_bytes=8, launch_cycles=77)
ARM = boards.ArmTiming(macs_per_cycle=1.25, handover_us=12.0)
MEASURED = Measured(
    machine={"host": "door", "machine": "aarch64", "kernel": "6.1", "cores": 4},
    device="uio",
    repeat=10,
    fit=Fit(
        costs=COSTS,
        measured_cycles={"nothing": 10.0, "loops": 100.0},
        modelled_cycles={"nothing": 10, "loops": 103},
    ),
    arm_timing=ARM,
    arm_us={},
)
ORIGIN = Origin(date="2026-11-24", host="xilinx@door")


@pytest.mark.parametrize("name", ["ultra96", "pynq-z2", "kv260"])
def test_the_result_is_a_board_file_that_differs_only_in_the_costs(
    name: str, tmp_path: Path
) -> None:
    text = with_costs(boards.path_of(name).read_text(), MEASURED, ORIGIN)
    (tmp_path / "measured.toml").write_text(text)
    expected = dataclasses.replace(boards.load(name), timing=COSTS, arm_timing=ARM)
    assert boards.load(str(tmp_path / "measured.toml")) == expected
    assert with_costs(text, MEASURED, ORIGIN) == text


def test_comments_of_other_tables_are_kept_and_those_of_replaced_ones_are_not() -> None:
    text = (
        'name = "b"\n# of the board\n\n# old costs\n[timing]\nloop_cycles = 5  # old\n'
        "# about threads\n[threads.arm]\ncores = [1]\n"
    )
    result = with_costs(text, MEASURED, ORIGIN)
    assert result.startswith(
        'name = "b"\n# of the board\n\n# about threads\n[threads.arm]\ncores = [1]\n\n# Measured by'
    )
    assert tomllib.loads(result)["timing"]["loop_cycles"] == 3


def test_a_comment_says_where_the_costs_are_from_and_how_well_they_explain() -> None:
    result = with_costs('name = "b"\n', MEASURED, ORIGIN)
    assert "2026-11-24: xilinx@door, device uio, least of 10 runs or more." in result
    assert "is loops: modelled +3.0% of what was measured" in result
    assert "4 cores, aarch64, Linux 6.1" in result


def test_costs_outside_of_a_table_are_refused() -> None:
    with pytest.raises(BoardError, match="costs that are not in a table of their own") as caught:
        with_costs("timing = { loop_cycles = 5 }\n", MEASURED, ORIGIN)
    assert caught.value.hint == "write them below [timing] and [arm_timing], or remove them"
