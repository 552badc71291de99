"""A known board's file with an accelerator of our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from bitstreams.board_text import board_text, own_board
from bitstreams.designs import DESIGNS
from edgepipe import boards
from vta_stages.accelerator import Accelerator
from vta_stages.timing.rtl_costs import rtl_costs

OWN = Accelerator(clock_hz=200_000_000, acc_hazard_steps=1, extensions=("requantise",))


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
def test_the_file_describes_the_board(design, tmp_path: Path) -> None:
    text = board_text(design.board, OWN, design.bus_bytes, "edgepipe/own.bit")
    (tmp_path / "own.toml").write_text(text)
    read = boards.load(str(tmp_path / "own.toml"))
    made = own_board(design.board, OWN, design.bus_bytes)
    assert read.bitstream == "edgepipe/own.bit"
    assert (read.accelerator, read.timing, read.threads) == (
        made.accelerator,
        made.timing,
        made.threads,
    )


def test_costs_are_those_of_the_hardware_and_the_host_takes_as_long_as_before() -> None:
    known, made = boards.load("ultra96"), own_board("ultra96", OWN, 16)
    costs = rtl_costs(OWN)
    assert made.timing.alu_step_cycles == costs.alu_step_cycles == 1
    assert made.timing.dma_row_cycles == costs.dma_row_cycles
    seconds = [b.timing.launch_cycles / b.accelerator.clock_hz for b in (known, made)]
    assert seconds[0] == pytest.approx(seconds[1], rel=1e-3)


def test_arm_stages_have_all_cores_and_light_ones_none_of_their_own() -> None:
    arm = own_board("ultra96", OWN, 16).threads.arm
    assert (arm.cores, arm.light_percent) == ((0, 1, 2, 3), 2)
