"""Find and run the programs of this machine that the virtual board needs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from edgepipe.errors import VirtualBoardError

# Program -> the Debian package that contains it.
PACKAGES = {
    "aarch64-linux-gnu-gcc": "g++-aarch64-linux-gnu",
    "apt-get": "apt",
    "depmod": "kmod",
    "dpkg-deb": "dpkg",
    "make": "make",
    "mke2fs": "e2fsprogs",
    "qemu-system-aarch64": "qemu-system-arm",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "tar": "tar",
    "xz": "xz-utils",
}


def find(program: str) -> str:
    """Return the path of a program; if it is missing, name its package in ``VirtualBoardError``."""
    require([program])
    return _which(program) or program


def require(programs: Sequence[str]) -> None:
    """Raise one ``VirtualBoardError`` that names all missing programs and how to install them."""
    missing = [program for program in programs if _which(program) is None]
    if missing:
        packages = sorted({PACKAGES[program] for program in missing})
        raise VirtualBoardError(
            f"virtual board: missing programs: {', '.join(missing)}",
            hint=f"apt-get install -y --no-install-recommends {' '.join(packages)}",
        )


def run(
    what: str,
    command: Sequence[str | Path],
    *,
    log: Path,
    folder: Path | None = None,
    environment: dict[str, str] | None = None,
) -> None:
    """Run a program to its end and append its output to ``log``.

    ``what`` describes its purpose. Raises ``VirtualBoardError`` with the last line of its output.
    """
    arguments = [find(str(command[0])), *map(str, command[1:])]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        output.write(f"$ {' '.join(arguments)}\n".encode())
        output.flush()
        code = subprocess.run(
            arguments,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    if code != 0:
        raise VirtualBoardError(
            f"{what}: {command[0]} failed with exit code {code}: {last_line(log)}",
            hint=f"its output: {log}",
        )


def last_line(log: Path) -> str:
    """Return the last non-empty line of a log, or ``(no output)``."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "(no output)")


def _which(program: str) -> str | None:
    # A user's PATH often lacks the sbin folders.
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
