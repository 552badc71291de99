"""Everything that the virtual board boots from, built once and kept in a folder."""

from __future__ import annotations

import hashlib
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from edgepipe import scratch
from edgepipe.errors import VirtualBoardError
from edgepipe.progress import Progress
from edgepipe.virtual_board import host_tools, initramfs, kernel_modules, root_file_system
from edgepipe.virtual_board.debian_packages import PackageStore, host_architecture
from edgepipe.virtual_board.kernel_modules import KernelModules

GUEST = Path(__file__).parent / "guest"
_DEVICE_TREE = "usr/lib/linux-image-{release}/xilinx/avnet-ultra96-rev1.dtb"
_TOOLS = ("apt-get", "aarch64-linux-gnu-gcc", "depmod", "dpkg-deb", "make", "mke2fs")
_MORE_TOOLS = ("qemu-system-aarch64", "ssh", "ssh-keygen", "tar", "xz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The files of a built image."""

    folder: Path

    @property
    def kernel(self) -> Path:
        """The Linux kernel."""
        return self.folder / "vmlinuz"

    @property
    def initramfs(self) -> Path:
        """The initial RAM file system, compressed."""
        return self.folder / "initramfs.gz"

    @property
    def device_tree(self) -> Path:
        """Debian's unmodified device tree of the Ultra96."""
        return self.folder / "ultra96.dtb"

    @property
    def sd_card(self) -> Path:
        """The SD card's content: an ext4 file system."""
        return self.folder / "root.ext4"

    @property
    def identity(self) -> Path:
        """The private key of the user; the public one is next to it."""
        return self.folder / "id_ed25519"

    @property
    def host_key(self) -> Path:
        """The SSH server's private key."""
        return self.folder / "host_ed25519"


def recipe_digest() -> str:
    """Return a digest of everything in this package that affects the contents of an image."""
    digest = hashlib.sha256()
    for file in sorted([*GUEST.iterdir(), *Path(__file__).parent.glob("*.py")]):
        if file.parent == GUEST or file.stem in _RECIPE_MODULES:
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


_RECIPE_MODULES = ("image", "initramfs", "kernel_modules", "memory_map", "root_file_system")


def ensure(cache: Path, progress: Progress, *, rebuild: bool = False) -> Image:
    """Return the image of the current recipe; build it if it is not yet in ``cache``.

    ``rebuild`` downloads and builds everything again. Raises ``VirtualBoardError``; an incomplete
    image is removed.
    """
    image = Image(folder=cache / "images" / recipe_digest())
    if rebuild:
        shutil.rmtree(cache / "packages", ignore_errors=True)
        shutil.rmtree(image.folder, ignore_errors=True)
    if image.folder.is_dir():
        return image
    host_tools.require([*_TOOLS, *_MORE_TOOLS])
    cache.mkdir(parents=True, exist_ok=True)
    with scratch.folder_beside(cache / "images", ".build.") as work:
        _build(work, cache, progress)
        image.folder.parent.mkdir(exist_ok=True)
        for old in image.folder.parent.iterdir():
            shutil.rmtree(old, ignore_errors=True)
        (work / "image").replace(image.folder)
    return image


def _build(work: Path, cache: Path, progress: Progress) -> None:
    log = cache / "logs" / "image.log"
    log.parent.mkdir(exist_ok=True)
    log.write_bytes(b"")
    image = Image(folder=work / "image")
    image.folder.mkdir()

    progress.step("download Debian packages (about 230 MB, once)")
    store = PackageStore(folder=cache / "packages", log=log)
    store.update()
    kernel_package = _kernel_package(store)
    release = kernel_package.removeprefix("linux-image-")
    system = store.download(system_packages())
    kernel = store.download([kernel_package])[kernel_package]
    headers = store.download(_header_packages(release))

    progress.step("unpack the root file system")
    root = work / "root"
    root_file_system.unpack(system.values(), root, log=log)
    root_file_system.register(system, root)
    for key in (image.identity, image.host_key):
        comment = "virtual-board"
        host_tools.run(
            "create an SSH key",
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", key],
            log=log,
        )
    root_file_system.configure(root, GUEST, image.identity.with_suffix(".pub"), image.host_key)

    progress.step("build kernel modules")
    kernel_root = work / "kernel"
    kernel_root.mkdir()
    root_file_system.unpack_package(kernel, kernel_root, log=log)
    modules = KernelModules(root=kernel_root, release=release)
    kernel_modules.build(modules, GUEST, headers, work, log=log)
    modules.index(log=log)

    progress.step("assemble the SD card image")
    modules.copy(kernel_modules.SYSTEM_MODULES, root, log=log)
    initramfs.make(
        root / "bin/busybox", modules, GUEST / "initramfs-init", work / "initramfs", image.initramfs
    )
    shutil.copyfile(kernel_root / "boot" / f"vmlinuz-{release}", image.kernel)
    shutil.copyfile(kernel_root / _DEVICE_TREE.format(release=release), image.device_tree)
    root_file_system.make_image(root, image.sd_card, log=log)


def system_packages() -> list[str]:
    """Return the names of the Debian packages that the board's root file system consists of."""
    lines = (GUEST / "packages.txt").read_text().splitlines()
    return [name for line in lines if not line.startswith("#") for name in line.split()]


def _kernel_package(store: PackageStore) -> str:
    """Return the package of the current kernel; its name contains Debian's current version."""
    found = [n for n in store.depends("linux-image-arm64") if n.startswith("linux-image-")]
    if not found:
        raise VirtualBoardError(
            "virtual board: Debian's lists have no arm64 kernel (linux-image-arm64)",
            hint="use a Debian mirror that carries arm64",
        )
    return found[0]


def _header_packages(release: str) -> list[str]:
    version = re.match(r"\d+\.\d+", release)
    series = version.group() if version else release
    common = release.removesuffix("-arm64")
    return [
        f"linux-headers-{release}",
        f"linux-headers-{common}-common",
        # The programs that build modules run on this machine.
        f"linux-kbuild-{series}:{host_architecture()}",
        f"linux-source-{series}",
    ]
