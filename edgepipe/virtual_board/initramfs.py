"""The initramfs: busybox, the modules that the SD card needs, and a script that mounts it."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

from edgepipe.virtual_board.kernel_modules import BOOT_MODULES, KernelModules

_APPLETS = ("cat", "insmod", "mount", "sh", "sleep", "switch_root")


def make(busybox: Path, modules: KernelModules, script: Path, folder: Path, output: Path) -> None:
    """Lay out the initramfs in ``folder`` and write it to ``output``, compressed."""
    for name in ("bin", "dev", "lib", "new", "proc", "sys"):
        (folder / name).mkdir(parents=True)
    shutil.copyfile(busybox, folder / "bin/busybox")
    (folder / "bin/busybox").chmod(0o755)
    for applet in _APPLETS:
        (folder / "bin" / applet).symlink_to("busybox")
    shutil.copyfile(script, folder / "init")
    (folder / "init").chmod(0o755)
    paths = modules.closure(BOOT_MODULES)
    for path in paths:
        shutil.copyfile(modules.folder / path, folder / "lib" / Path(path).name)
    (folder / "modules").write_text("".join(f"{Path(path).name}\n" for path in paths))
    output.write_bytes(gzip.compress(cpio(folder), compresslevel=1, mtime=0))


def cpio(folder: Path) -> bytes:
    """Return a folder as a cpio archive in "newc" format, with all files owned by root.

    The kernel's Documentation/driver-api/early-userspace/buffer-format.rst describes the format.
    Equal files give equal bytes.
    """
    archive = bytearray()
    for number, path in enumerate(sorted(folder.rglob("*")), start=1):
        mode = path.lstat().st_mode
        if path.is_symlink():
            data = str(path.readlink()).encode()
        else:
            data = path.read_bytes() if path.is_file() else b""
        _append(archive, number, path.relative_to(folder).as_posix(), mode, data)
    _append(archive, 0, "TRAILER!!!", 0, b"")
    return bytes(archive)


def _append(archive: bytearray, inode: int, name: str, mode: int, data: bytes) -> None:
    encoded = name.encode() + b"\0"
    user = group = modified = device_major = device_minor = checksum = 0
    fields = [inode, mode, user, group, 1, modified, len(data)]
    fields += [device_major, device_minor, 0, 0, len(encoded), checksum]
    archive += b"070701" + b"".join(b"%08x" % value for value in fields)
    for part in (encoded, data):
        archive += part
        archive += bytes(-len(archive) % 4)
