"""Run programs on the core's Verilog, behind cocotb's models of AXI: ``make rtl-buses``.

    .venv/bin/python tests/check_rtl_buses.py

The models are cocotbext-axi's: DRAM behind each master, a processor at the registers. The exit code
is 1 if a test fails.
"""

from __future__ import annotations

import os
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cocotb_tools.runner import get_runner
from random_programs.machines import MACHINES
from rtl_buses.model import BOARD, built

ROOT = Path(__file__).resolve().parents[1]
MACHINE = "extended-0.0.1"
CACHE = ROOT / "build/vta_rtl"


def run(machine: str, folder: Path) -> dict[str, str]:
    """Run all tests; return the failures by name, empty for those that passed."""
    model = built(MACHINES[machine].accelerator, MACHINES[machine].bus_bytes, CACHE)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    results = get_runner("verilator").test(
        test_module="rtl_buses.cocotb_tests",
        hdl_toplevel=BOARD,
        hdl_toplevel_lang="verilog",
        build_dir=model,
        test_dir=folder,
        results_xml="results.xml",
        log_file=folder / "cocotb.log",
        extra_env={
            "RTL_BUSES_MACHINE": machine,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "COCOTB_LOG_LEVEL": "WARNING",
        },
    )
    found = {}
    for case in ET.parse(results).iter("testcase"):
        failure = case.find("failure")
        found[case.attrib["name"]] = "" if failure is None else failure.attrib.get("message", "?")
    return found


def main() -> int:
    """Run the tests and print what they found."""
    folder = ROOT / "build/rtl-buses"
    found = run(MACHINE, folder)
    for name, failure in found.items():
        print(f"{'failed' if failure else 'passed'}: {name.replace('_', ' ')} {failure}".rstrip())
    if not found or any(found.values()):
        print(f"see {folder / 'cocotb.log'}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
