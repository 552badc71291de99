"""Bursts of AXI3 reach the registers behind AXI4-Lite one by one, with random pauses, Verilated."""

from __future__ import annotations

from pathlib import Path

from board_verilog import FOLDER
from verilated_check import run_verilated

PROGRAM = Path(__file__).with_name("axi3_registers.cc")


def test_random_bursts_read_and_write_what_they_should(tmp_path: Path) -> None:
    verilate = ("--cc", "-Wno-fatal", FOLDER / "openxc7/axi3_registers.v")
    assert run_verilated(tmp_path, verilate, PROGRAM) == "1000 bursts\n"
