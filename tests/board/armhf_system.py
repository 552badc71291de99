"""A Debian system for armhf in a folder of the virtual board, with an apt and dpkg of its own.

The board's 64-bit kernel runs its programs. The system has the packages that the board itself has,
for the other architecture, unpacked and registered in the same way.
"""

from __future__ import annotations

import hashlib
import io
import shlex
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from needs import BUILD

from edgepipe import scratch
from edgepipe.virtual_board import image, root_file_system
from edgepipe.virtual_board.board import VirtualBoard
from edgepipe.virtual_board.debian_packages import PackageStore

ROOT = "/srv/armhf"
# What the kernel gives both systems, and the modules, which it loads for both.
SHARED = ("dev", "proc", "sys", "usr/lib/modules")
FOLDERS = ("etc", "home", "root", "run", "tmp", "usr/local", "var/cache", "var/lib", *SHARED)
ACCOUNTS = ("passwd", "group", "shadow", "nsswitch.conf", "hosts")


@dataclass(frozen=True, kw_only=True)
class ArmhfSystem:
    """The system in a running virtual board; commands in it see a 32-bit machine."""

    board: VirtualBoard

    def start(self) -> None:
        """Copy the system to the board and mount what both systems share."""
        accounts = " ".join(f"/etc/{name}" for name in ACCOUNTS)
        mounts = "; ".join(f"mount --rbind /{name} {ROOT}/{name}" for name in SHARED)
        script = f"set -e; mkdir -p {ROOT}; tar -x -C {ROOT}; cp {accounts} {ROOT}/etc; {mounts}"
        self._on_board(script, archive())

    def stop(self) -> None:
        """Remove the system from the board."""
        places = " ".join(f"{ROOT}/{name}" for name in SHARED)
        self._on_board(f"umount -R -l {places} && rm -rf --one-file-system {ROOT} && sync")

    def run(
        self, command: list[str], *, stdin: bytes = b"", deadline_s: float = 60.0
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command in the system."""
        inside = ["setarch", "linux32", "chroot", ROOT, "/bin/bash", "-c", " ".join(command)]
        return self.board.run([shlex.join(inside)], stdin=stdin, deadline_s=deadline_s)

    def _on_board(self, script: str, stdin: bytes = b"") -> None:
        done = self.board.run([script], stdin=stdin, deadline_s=240)
        assert done.returncode == 0, done.stderr.decode()


def archive() -> bytes:
    """Return the system's files as a tar archive; a cache, which may be missing, has it."""
    names = image.system_packages()
    recipe = [Path(__file__).read_bytes(), Path(root_file_system.__file__).read_bytes()]
    digest = hashlib.sha256(b"".join([*recipe, " ".join(names).encode()])).hexdigest()[:16]
    found = BUILD / f"test-board/armhf-{digest}.tar"
    if not found.is_file():
        found.parent.mkdir(parents=True, exist_ok=True)
        for old in found.parent.glob("armhf-*.tar"):
            old.unlink()
        with scratch.folder_beside(found, ".armhf.") as work:
            _unpack(names, work / "root", found.parent)
            _write(work / "root", work / "tar")
            (work / "tar").replace(found)
    return found.read_bytes()


def _unpack(names: list[str], root: Path, cache: Path) -> None:
    log = cache / "armhf.log"
    folder = cache / "packages-armhf"
    store = PackageStore(folder=folder, log=log, architecture="armhf", updates=False)
    store.update()
    packages = store.download(names)
    root_file_system.unpack(packages.values(), root, log=log)
    root_file_system.register(packages, root)
    for name in FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "usr/bin/awk").symlink_to("mawk")


def _write(root: Path, file: Path) -> None:
    def owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        return entry

    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        tar.add(root, ".", filter=owned_by_root)
    file.write_bytes(content.getvalue())
