"""Kernel modules of the virtual board: four built here, and those it needs from Debian's kernel.

Debian's kernel lacks uio_pdrv_genirq and the dma-heaps, which are built from Debian's own kernel
source (the heaps through the wrapper guest/dma-cma-heap.c). No Debian package has u-dma-buf or
an FPGA manager for this board; they are built from guest/u-dma-buf.c and guest/fpga-manager.c.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepipe.errors import VirtualBoardError
from edgepipe.virtual_board import host_tools
from edgepipe.virtual_board.debian_packages import host_architecture
from edgepipe.virtual_board.root_file_system import unpack_package

# In the order of loading; depmod does not know of ext4's checksum module.
BOOT_MODULES = ("cqhci", "sdhci_of_arasan", "mmc_block", "crc32c_generic", "ext4")
SYSTEM_MODULES = ("macb", "uio_pdrv_genirq", "u_dma_buf", "dma_cma_heap", "vivid", "fpga_manager")

_KERNEL_SOURCES = (
    "drivers/dma-buf/dma-heap.c",
    "drivers/dma-buf/heaps/cma_heap.c",
    "drivers/uio/uio_pdrv_genirq.c",
)
_BUILT = ("dma-cma-heap", "fpga-manager", "u-dma-buf", "uio_pdrv_genirq")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelModules:
    """The modules below ``root``/lib/modules/``release``."""

    root: Path
    release: str

    @property
    def folder(self) -> Path:
        """The folder that holds the modules."""
        return self.root / "lib/modules" / self.release

    def index(self, *, log: Path) -> None:
        """Let depmod write modules.dep and the other index files."""
        host_tools.run(
            "index the kernel modules", ["depmod", "-b", self.root, self.release], log=log
        )

    def closure(self, names: Iterable[str]) -> list[str]:
        """Return the modules and their dependencies as paths below ``folder``, in loading order.

        Modules built into the kernel are omitted. Raises ``VirtualBoardError`` for an unknown one.
        """
        paths: dict[str, str] = {}
        needs: dict[str, list[str]] = {}
        for line in (self.folder / "modules.dep").read_text().splitlines():
            path, _, dependencies = line.partition(":")
            paths[_module_name(path)] = path
            needs[path] = dependencies.split()
        builtin = {_module_name(p) for p in (self.folder / "modules.builtin").read_text().split()}
        ordered: dict[str, None] = {}
        for name in names:
            if name in paths:
                # modules.dep lists the dependencies in reverse loading order.
                ordered |= dict.fromkeys([*reversed(needs[paths[name]]), paths[name]])
            elif name not in builtin:
                raise VirtualBoardError(f"kernel {self.release}: no module {name}")
        return list(ordered)

    def copy(self, names: Iterable[str], target: Path, *, log: Path) -> None:
        """Copy modules and their dependencies to another root folder, and index them there."""
        copied = KernelModules(root=target, release=self.release)
        for path in self.closure(names):
            (copied.folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.folder / path, copied.folder / path)
        for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
            shutil.copyfile(self.folder / name, copied.folder / name)
        copied.index(log=log)


def build(
    modules: KernelModules,
    guest: Path,
    packages: dict[str, Path],
    folder: Path,
    *,
    log: Path,
) -> None:
    """Cross-build the missing modules in ``folder`` and add them to ``modules``, without indexing.

    ``packages`` contains the kernel's headers, kbuild and source. Raises ``VirtualBoardError``.
    """
    headers_root = folder / "headers"
    for name, package in packages.items():
        if not name.startswith("linux-source"):
            headers_root.mkdir(parents=True, exist_ok=True)
            unpack_package(package, headers_root, log=log)
    headers = headers_root / "usr/src" / f"linux-headers-{modules.release}"
    makefile = headers / "Makefile"  # includes the common one by its installed, absolute path
    makefile.write_text(makefile.read_text().replace("/usr/src/", f"{headers_root}/usr/src/"))

    source = folder / "modules"
    source.mkdir()
    _unpack_kernel_source(packages, _KERNEL_SOURCES, source)
    for file in guest.glob("*.c"):
        shutil.copyfile(file, source / file.name)
    (source / "Makefile").write_text(f"obj-m := {' '.join(f'{name}.o' for name in _BUILT)}\n")
    host_tools.require(["aarch64-linux-gnu-gcc"])
    host_tools.run(
        "build kernel modules",
        [
            "make",
            "-C",
            headers,
            f"M={source}",
            "CC=aarch64-linux-gnu-gcc",
            f"DEB_BUILD_ARCH={host_architecture()}",
            "DEB_HOST_ARCH=arm64",
            "DEB_HOST_GNU_TYPE=aarch64-linux-gnu",
            "modules",
        ],
        log=log,
    )
    (modules.folder / "extra").mkdir()
    for module in source.glob("*.ko"):
        shutil.copyfile(module, modules.folder / "extra" / module.name)


def _unpack_kernel_source(packages: dict[str, Path], paths: Sequence[str], folder: Path) -> None:
    """Write files of the kernel's source package to ``folder``, without unpacking the rest."""
    name, package = next((n, p) for n, p in packages.items() if n.startswith("linux-source"))
    outer = subprocess.Popen(
        [host_tools.find("dpkg-deb"), "--fsys-tarfile", package],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    inner = subprocess.Popen(
        [host_tools.find("tar"), "-xO", "--occurrence=1", f"./usr/src/{name}.tar.xz"],
        stdin=outer.stdout,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    # It stops at the last match, long before the end of the archive; SIGPIPE then stops the others.
    subprocess.run(
        [
            *(host_tools.find("tar"), "-xJ", "--occurrence=1", "--transform=s,.*/,,", "-C", folder),
            *(f"{name}/{path}" for path in paths),
        ],
        stdin=inner.stdout,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    for process in (inner, outer):
        if process.stdout:
            process.stdout.close()
        process.wait()
    missing = [path for path in paths if not (folder / Path(path).name).is_file()]
    if missing:
        raise VirtualBoardError(
            f"virtual board: {package.name} does not contain {', '.join(missing)}",
            hint="the download may be damaged: download it again",
            option="rebuild",
        )


def _module_name(path: str) -> str:
    return Path(path).name.partition(".ko")[0].replace("-", "_")
