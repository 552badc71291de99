"""Unpack Debian's GStreamer for a board's architecture, to build and try the plug-in against.

    python cross/fetch_gstreamer.py aarch64|armhf FOLDER

FOLDER gets `usr` with headers, pkg-config files, libraries, a few of GStreamer's own plug-ins and
its tools, and `symbols`: since which version the libraries have each of their functions. The
packages are those of Debian's release; nothing is installed on this machine. If they cannot be had,
it says why, and the plug-in is not built for boards. The exit code is 0 then, too.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

from edgepipe import scratch
from edgepipe.errors import VirtualBoardError
from edgepipe.virtual_board.debian_packages import PackageStore

DEBIAN = {"aarch64": "arm64", "armhf": "armhf"}
# What the plug-in needs at run time on a board.
LIBRARIES = ("libglib2.0-0", "libgstreamer-plugins-base1.0-0", "libgstreamer1.0-0")
DEVELOPMENT = ("libglib2.0-dev", "libgstreamer-plugins-base1.0-dev", "libgstreamer1.0-dev")
# For gst-inspect-1.0 and gst-launch-1.0 with a test picture, under qemu-user.
TOOLS = (
    *("gstreamer1.0-plugins-base", "gstreamer1.0-tools", "libblkid1", "libbz2-1.0", "libc6"),
    *("libcap2", "libdw1", "libelf1", "libffi8", "libgcc-s1", "liblzma5", "libmount1"),
    *("liborc-0.4-0", "libpcre2-8-0", "libselinux1", "libunwind8", "zlib1g"),
)
LEFT_OUT = ("bin", "share", "lib/valgrind")  # of `usr`; GStreamer's tools are kept
KEPT = ("gst-inspect-1.0", "gst-launch-1.0")


def recipe() -> str:
    """Return a digest of everything that affects what FOLDER gets."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest() + "\n"


def fetch(architecture: str, folder: Path) -> None:
    """Make ``folder``; raise ``VirtualBoardError`` if Debian's packages cannot be had."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with scratch.folder_beside(folder, ".gstreamer.") as work:
        store = PackageStore(
            folder=work / "packages",
            log=folder.parent / f"{architecture}.log",
            architecture=DEBIAN[architecture],
            updates=False,
        )
        store.update()
        packages = store.download([*LIBRARIES, *DEVELOPMENT, *TOOLS])
        root = work / "root"
        for package in packages.values():
            subprocess.run(["dpkg-deb", "-x", package, root], check=True)
        (root / "symbols").mkdir()
        for name in LIBRARIES:
            subprocess.run(["dpkg-deb", "-e", packages[name], work / name], check=True)
            shutil.copy(work / name / "symbols", root / "symbols" / name)
        _arrange(root)
        (root / "recipe").write_text(recipe())
        shutil.rmtree(folder, ignore_errors=True)
        root.rename(folder)


def _arrange(root: Path) -> None:
    """Merge /lib into /usr/lib, and leave out what neither the build nor the tests read."""
    shutil.copytree(root / "lib", root / "usr/lib", symlinks=True, dirs_exist_ok=True)
    shutil.rmtree(root / "lib")
    (root / "lib").symlink_to("usr/lib")
    programs = root / "usr/bin"
    programs.rename(root / "programs")
    for name in LEFT_OUT:
        shutil.rmtree(root / "usr" / name, ignore_errors=True)
    programs.mkdir()
    for name in KEPT:
        (root / "programs" / name).rename(programs / name)
    for name in ("programs", "bin", "sbin", "etc", "var"):
        shutil.rmtree(root / name, ignore_errors=True)
    # Links to shared libraries need no private dependencies, whose files are not here.
    for file in root.rglob("*.pc"):
        file.write_text(re.sub(r"(?m)^Requires\.private:.*\n", "", file.read_text()))


def main(architecture: str, folder: Path) -> int:
    if (folder / "recipe").is_file() and (folder / "recipe").read_text() == recipe():
        return 0
    try:
        fetch(architecture, folder)
    except VirtualBoardError as error:
        print(f"the plug-in for GStreamer is not built for {architecture}: {error}")
        print(f"hint: {error.hint}; then remove {folder}.fetched and build again")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], Path(sys.argv[2]).resolve()))
