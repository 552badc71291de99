"""What tests need of this machine: programs, installed or built here. They never skip unseen."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

BUILD = Path(__file__).resolve().parent.parent / "build"
EMULATOR = ("qemu-aarch64-static", "-cpu", "cortex-a53", "-L", "/usr/aarch64-linux-gnu")


def lacking(what: object) -> NoReturn:
    """Skip, saying what is lacking; where CI is set, a test that cannot run is a failure."""
    if os.environ.get("CI"):
        pytest.fail(str(what))
    pytest.skip(str(what))


def installed(program: str, package: str) -> str:
    """Return the path of an installed program; ``package`` is the Debian package that has it."""
    # A user's PATH often lacks the folders of the administrator's programs.
    found = shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin")
    return found or lacking(f"{program} is not installed (Debian: {package})")


def built(program: str, machine: str = "host") -> Path:
    """Return the path of a C++ program of this repository, for the host or aarch64."""
    path = BUILD / machine / "bin" / program
    if not path.is_file():
        lacking(f"{path} is missing; `make test` builds it")
    return path


def emulated(program: str) -> tuple[str, ...]:
    """Return the command that runs an aarch64 program of this repository as a Cortex-A53."""
    installed(EMULATOR[0], "qemu-user-static")
    return (*EMULATOR, str(built(program, "aarch64")))
