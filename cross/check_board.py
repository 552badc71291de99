"""Check that the files for a board run on the oldest image that edgepipe supports.

    python cross/check_board.py FOLDER...

Each FOLDER contains the `bin/` and `lib/` of one board. Prints a table. The exit code is 1, with
one line per finding, if a file needs a version, a library or a search path that a board may lack,
or if the folder is too large. Reads the files with `readelf`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

# Ubuntu 18.04, which PYNQ 2.5 and 2.6 are made from: glibc 2.27 and the libstdc++ of GCC 8.
NEWEST = {"GLIBC": (2, 27), "GLIBCXX": (3, 4, 25), "CXXABI": (1, 3, 11), "GCC": (8,)}
LIBRARIES = re.compile(
    r"lib(c|m|pthread|dl|rt|gcc_s|stdc\+\+)\.so\.\d+|ld-linux-(aarch64|armhf)\.so\.\d+"
)
# What may be used by files in a folder of plug-ins, which only GStreamer opens.
GSTREAMER = re.compile(r"lib(glib|gobject)-2\.0\.so\.0|lib(gstreamer|gstbase|gstvideo)-1\.0\.so\.0")
MOST_BYTES = 20_000_000

_VERSIONED = re.compile(r"UND (\S+)@(\w+?)_([\d.]+)")
_NEEDED = re.compile(r"\(NEEDED\).*\[(.*)\]")
_SEARCHED = re.compile(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]")


def programs_in(folder: Path) -> list[Path]:
    """Return the ELF files below ``folder``, sorted."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if path.read_bytes()[:4] == b"\x7fELF"]


def newest_glibc(file: Path) -> str:
    """Return the newest glibc version that ``file`` requires, such as "2.17"."""
    versions = [v for _, library, v in _VERSIONED.findall(_readelf(file)) if library == "GLIBC"]
    return max(versions, key=_numbers, default="none")


def findings(folder: Path) -> Iterator[str]:
    """Yield the problems that prevent the files below ``folder`` from running on a board."""
    files = programs_in(folder)
    if not files:
        yield f"{folder}: no programs, expected those of `make board`"
    own = {path.name for path in files}
    for path in files:
        text = _readelf(path)
        name = path.relative_to(folder)
        for symbol, library, version in _VERSIONED.findall(text):
            newest = NEWEST.get(library)
            if newest is not None and _numbers(version) > newest:
                limit = ".".join(map(str, newest))
                yield f"{name}: needs {symbol}@{library}_{version}, expected {limit} or older"
        for needed in _NEEDED.findall(text):
            plugin = path.parent.name == "gstreamer-1.0" and GSTREAMER.fullmatch(needed)
            if needed not in own and not plugin and not LIBRARIES.fullmatch(needed):
                yield f"{name}: needs {needed}, which boards do not have"
        for searched in _SEARCHED.findall(text):
            for place in filter(None, searched.split(":")):
                if not place.startswith("$ORIGIN"):
                    yield f"{name}: looks for libraries in {place}, expected $ORIGIN only"
    total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if total > MOST_BYTES:
        yield f"{folder}: {total} bytes, expected {MOST_BYTES} or fewer"


def _readelf(file: Path) -> str:
    command = ["readelf", "--wide", "--dynamic", "--dyn-syms", str(file)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def main(folders: list[Path]) -> int:
    found: list[str] = []
    for folder in folders:
        print(f"{folder}: bytes and newest glibc version required")
        for path in programs_in(folder):
            print(
                f"  {path.stat().st_size:>9}  {newest_glibc(path):>5}  {path.relative_to(folder)}"
            )
        found += findings(folder)
    for finding in found:
        print(f"error: {finding}", file=sys.stderr)
    if found:
        print("hint: cross/old_glibc.cc replaces newer functions", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main([Path(argument) for argument in sys.argv[1:]]))
