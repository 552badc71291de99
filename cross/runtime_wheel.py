"""Write the wheel `edgepipe_runtime`: Python on a board, with the C++ runtime as its library.

    python cross/runtime_wheel.py VERSION TARGET LIBRARY...

Each LIBRARY is a libedgepipe_c.so, whose ELF header says for which processor: every one gives a
wheel in the folder TARGET. Its tag is py3-none-linux_ARCHITECTURE, which every pip accepts on a
board, also the old ones of PYNQ images; `cross/check_board.py` checks what the library needs.
Prints paths and sizes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from wheel_file import write_wheel

NAME = "edgepipe_runtime"
PACKAGE = Path(__file__).resolve().parents[1] / NAME
LIBRARY = "libedgepipe_c.so"
# By e_machine of the ELF header: what `uname -m` says on such boards.
MACHINES = {183: "aarch64", 40: "armv7l", 62: "x86_64"}
METADATA = (
    "Summary: Run the bundles of edgepipe from Python on a board\n"
    "Requires-Python: >=3.8\nRequires-Dist: numpy>=1.17\n"
)


def write(version: str, target: Path, library: Path) -> Path:
    """Return the path of the wheel with the package and ``library``."""
    content = library.read_bytes()
    machine = MACHINES.get(int.from_bytes(content[18:20], "little"))
    if content[:4] != b"\x7fELF" or machine is None:
        raise SystemExit(f"{library}: is no library for {', '.join(MACHINES.values())}")
    files = {f"{NAME}/{path.name}": path.read_bytes() for path in sorted(PACKAGE.glob("*.py"))}
    files[f"{NAME}/{LIBRARY}"] = content
    return write_wheel(target, NAME, version, f"py3-none-linux_{machine}", METADATA, files)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        raise SystemExit("usage: python cross/runtime_wheel.py VERSION TARGET LIBRARY...")
    for word in sys.argv[3:]:
        written = write(sys.argv[1], Path(sys.argv[2]), Path(word))
        print(f"{written}: {written.stat().st_size} bytes")
