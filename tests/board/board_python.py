"""Python for the virtual board: Debian's interpreter, and packages of PyPI for aarch64.

An image of PYNQ has both. The files are kept in a cache, which may be missing.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
from pathlib import Path

from needs import BUILD, lacking

import edgepipe
from edgepipe import scratch
from edgepipe.virtual_board import root_file_system
from edgepipe.virtual_board.debian_packages import PackageStore

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WHEELS = HERE / "board_python_packages.txt"
SOURCES = HERE / "board_python_sources.txt"
INTERPRETER = (
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libsqlite3-0",
    "python3.11-minimal",
)
# Of the interpreter's platform, in the order in which pip prefers them.
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")
# What nothing here reads.
LEFT_OUT = ("**/tests", "**/__pycache__", "**/*.pyi", "bin", "pynq/notebooks", "pynq/lib/**/*.bin")
PIP = (sys.executable, "-m", "pip", "-q", "--disable-pip-version-check")


def files() -> Path:
    """Return a folder with ``usr`` of Debian's packages and ``site`` of PyPI's."""
    recipe = b"".join(file.read_bytes() for file in (Path(__file__), WHEELS, SOURCES))
    found = BUILD / "test-board" / f"python-{hashlib.sha256(recipe).hexdigest()[:16]}"
    if found.is_dir():
        return found
    found.parent.mkdir(parents=True, exist_ok=True)
    for old in found.parent.glob("python-*"):
        subprocess.run(["rm", "-rf", old], check=True)
    with scratch.folder_beside(found, ".python.") as work:
        _unpack_interpreter(work)
        _install_packages(work / "site")
        work.rename(found)
    return found


def _unpack_interpreter(folder: Path) -> None:
    log = folder.parent / "python.log"
    store = PackageStore(folder=folder.parent / "packages", log=log)
    store.update()
    for package in store.download(list(INTERPRETER)).values():
        root_file_system.unpack_package(package, folder, log=log)


def _install_packages(site: Path) -> None:
    target = ["install", "--target", site]
    wheels = ["--only-binary=:all:", "--python-version", "3.11", "--implementation", "cp"]
    for platform in PLATFORMS:
        wheels += ["--platform", platform]
    _run(*PIP, *target, *wheels, "-r", WHEELS)
    _run(*PIP, *target, "--no-deps", "-r", SOURCES)
    for pattern in LEFT_OUT:
        subprocess.run(["rm", "-rf", *site.glob(pattern)], check=True)


def runtime_wheel(folder: Path) -> Path:
    """Build the wheel ``edgepipe_runtime`` for aarch64 as ``make wheel`` does; return its file."""
    library = BUILD / "aarch64/lib/libedgepipe_c.so"
    if not library.is_file():
        lacking(f"{library} (make build/aarch64/.built)")
    _run(
        sys.executable, ROOT / "cross/runtime_wheel.py", edgepipe.__version__, folder, str(library)
    )
    (wheel,) = folder.glob("edgepipe_runtime-*aarch64.whl")
    return wheel


def archive(*folders: Path) -> bytes:
    """Return a tar of the contents of folders."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for folder in folders:
            for path in sorted(folder.iterdir()):
                tar.add(path, path.name)
    return content.getvalue()


def _run(*command: object) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
