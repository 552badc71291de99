"""Programs that tests need, installed or built here; a test is never skipped silently."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

from edgepipe import rpc
from edgepipe.errors import RpcError

BUILD = Path(__file__).resolve().parent.parent / "build"
EMULATORS = {
    "aarch64": ("qemu-aarch64-static", "-cpu", "cortex-a53", "-L", "/usr/aarch64-linux-gnu"),
    "armhf": ("qemu-arm-static", "-cpu", "cortex-a9", "-L", "/usr/arm-linux-gnueabihf"),
}
# Parameters of the fixture `architecture`, with the marker that each one has.
AARCH64 = pytest.param("aarch64", marks=pytest.mark.cross)
ARMHF = pytest.param("armhf", marks=pytest.mark.armhf)
ARCHITECTURES = (AARCH64, ARMHF)


def lacking(what: object) -> NoReturn:
    """Skip with the missing item as reason; if CI is set, fail instead."""
    if os.environ.get("CI"):
        pytest.fail(str(what))
    pytest.skip(str(what))


def installed(program: str, package: str) -> str:
    """Return the path of an installed program; ``package`` is its Debian package."""
    # A user's PATH often lacks the sbin folders.
    found = shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin")
    return found or lacking(f"{program} is not installed (Debian: {package})")


def built(program: str, machine: str = "host") -> Path:
    """Return the path of a C++ program of this repository, for the host, aarch64 or armhf."""
    path = BUILD / machine / "bin" / program
    if not path.is_file():
        lacking(f"{path} is missing; `make {'board' if machine == 'armhf' else 'test'}` builds it")
    return path


def cpp_package(machine: str, prefix: Path) -> Path:
    """Install the C++ headers and library of a build below ``prefix``; return the CMake package."""
    build = BUILD / machine
    if not (build / "cpp_runtime/libedgepipe.a").is_file():
        lacking(f"{build} has no libedgepipe.a; `make test` builds it")
    subprocess.run(
        ["cmake", "--install", build, "--component", "development", "--prefix", prefix],
        check=True,
        capture_output=True,
    )
    return next(prefix.rglob("edgepipe-config.cmake")).parent


def emulated(program: str, machine: str) -> tuple[str, ...]:
    """Return the command that runs a program of this repository as a Cortex-A53 or Cortex-A9."""
    emulator = EMULATORS[machine]
    installed(emulator[0], "qemu-user-static")
    return (*emulator, str(built(program, machine)))


def rpcd() -> Path:
    """Return the path of edgepipe-rpcd, built or installed."""
    try:
        return rpc.find_program()
    except RpcError as error:
        lacking(error)
