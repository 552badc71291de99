"""Write the wheel `edgepipe_boards`: the files for boards, for the machines that deploy to them.

    python cross/board_wheel.py VERSION TARGET FOLDER...

Each FOLDER is one of `make board`, named after its architecture. The wheel in the folder TARGET
has tag py3-none-any because its programs run on boards, not where it is installed. It requires
edgepipe of the same VERSION. Prints its path and size.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

NAME = "edgepipe_boards"
LICENSE = Path(__file__).resolve().parents[1] / "LICENSE"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the first date of a ZIP file, so that equal files give equal wheels


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
    info = f"{NAME}-{version}.dist-info"
    contents[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.4\nName: edgepipe-boards\nVersion: {version}\n"
        "Summary: Programs and set-up of edgepipe for boards\n"
        "License-Expression: Apache-2.0\nLicense-File: LICENSE\n"
        f"Requires-Dist: edgepipe=={version}\n"
    ).encode()
    contents[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: edgepipe\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    contents[f"{info}/licenses/LICENSE"] = LICENSE.read_bytes()
    # RECORD: path, digest in URL-safe base64 without padding, and size (PyPA, "Binary
    # distribution format"); it has no digest of its own.
    record = "".join(f"{name},{_digest(data)},{len(data)}\n" for name, data in contents.items())
    contents[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    target.mkdir(parents=True, exist_ok=True)
    wheel = target / f"{NAME}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = (0o755 if data[:4] == b"\x7fELF" else 0o644) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return wheel


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        raise SystemExit("usage: python cross/board_wheel.py VERSION TARGET FOLDER...")
    written = write(sys.argv[1], Path(sys.argv[2]), [Path(word) for word in sys.argv[3:]])
    print(f"{written}: {written.stat().st_size} bytes")
