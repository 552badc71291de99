"""Upload ``edgepipe-rpcd`` and TVM's libraries to a board, only if they are missing there."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Sequence
from pathlib import Path

from edgepipe import resources
from edgepipe.deploy import payload, plan
from edgepipe.deploy.connection import Connection
from edgepipe.deploy.payload import PayloadFile
from edgepipe.errors import RpcError

BOARD_SIDE = Path(__file__).with_name("board_side.sh")
SERVER = "bin/edgepipe-rpcd"
LIBRARIES = ("libtvm_runtime.so", "libtvm_ffi.so")
_SEND_S = 300.0
_SUM = re.compile(r"([0-9a-f]{64})  .*/([^/]+)")


def ship(connection: Connection) -> str:
    """Bring the board's server up to date; return its path, relative to the home folder.

    ``connection`` runs ``BOARD_SIDE``. Raises ``DeployError`` if there is no server for the board's
    architecture, ``RpcError`` if there are no libraries.
    """
    found = connection.run("survey")
    machine = next(line.split()[1] for line in found.splitlines() if line.startswith("machine "))
    files = server_files(plan.MACHINES.get(machine, machine))
    there = {match[2]: match[1] for match in map(_SUM.fullmatch, found.splitlines()) if match}
    changed = [file for file in files if there.get(file.path) != file.sha256]
    if changed:
        connection.run("receive", stdin=make_archive(changed), timeout_s=_SEND_S)
    return f"{connection.target.root}/rpc/{files[0].path}"


def server_files(architecture: str) -> tuple[PayloadFile, ...]:
    """Return the server first, then the libraries; all belong in one folder.

    Raises RpcError for a file that is missing for the board's architecture.
    """
    server = payload.find_program(SERVER, architecture, ())
    build = resources.folder("build")
    # From TVM's wheel for the architecture, or built here (cross/tvm).
    folders = [build / f"tvm-{architecture}", build / architecture / "lib"]
    packaged = resources.board_folder(architecture)
    if packaged:
        folders.append(packaged / "lib")
    files = [payload.make_file(Path(SERVER).name, server.content, executable=True)]
    for name in LIBRARIES:
        paths = [folder / name for folder in folders]
        path = next((path for path in paths if path.is_file()), None)
        if path is None:
            searched = " and ".join(str(path) for path in paths)
            raise RpcError(
                f"{name}: not found for {architecture} boards (looked for {searched})",
                hint="install edgepipe-boards, or build it with `make board`",
            )
        files.append(payload.make_file(name, path.read_bytes()))
    return tuple(files)


def make_archive(files: Sequence[PayloadFile]) -> bytes:
    """Return a tar archive of ``files``."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for file in files:
            info = tarfile.TarInfo(file.path)
            info.size = len(file.content)
            info.mode = 0o755 if file.executable else 0o644
            archive.addfile(info, io.BytesIO(file.content))
    return buffer.getvalue()
