"""Write the wheel `edgepipe_boards`: the files for boards, for the machines that deploy to them.

    python cross/board_wheel.py VERSION TARGET FOLDER...

Each FOLDER is one of `make board`, named after its architecture. The wheel in the folder TARGET
has tag py3-none-any because its programs run on boards, not where it is installed. It requires
edgepipe of the same VERSION. Prints its path and size.
"""

from __future__ import annotations

import sys
from pathlib import Path

from wheel_file import write_wheel

NAME = "edgepipe_boards"


def write(version: str, target: Path, folders: list[Path]) -> Path:
    """Return the path of the wheel with the files of ``folders``."""
    contents = {f"{NAME}/__init__.py": b'"""The files of edgepipe for boards."""\n'}
    for folder in folders:
        if not (folder / "bin" / "edgepipe-run").is_file():
            raise SystemExit(
                f"{folder}: found no bin/edgepipe-run, expected a folder of `make board`"
            )
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            name = path.relative_to(folder).as_posix()
            contents[f"{NAME}/{folder.name}/{name}"] = path.read_bytes()
    metadata = (
        f"Summary: Programs and set-up of edgepipe for boards\nRequires-Dist: edgepipe=={version}\n"
    )
    return write_wheel(target, NAME, version, "py3-none-any", metadata, contents)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        raise SystemExit("usage: python cross/board_wheel.py VERSION TARGET FOLDER...")
    written = write(sys.argv[1], Path(sys.argv[2]), [Path(word) for word in sys.argv[3:]])
    print(f"{written}: {written.stat().st_size} bytes")
