"""The virtual board's root file system: packages unpacked, a few files written, an ext4 image."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from edgepipe.errors import VirtualBoardError
from edgepipe.virtual_board import host_tools, memory_map

HOST_NAME = "ultra96"
# QEMU's SD card must have a power of two bytes.
IMAGE_BYTES = 512 << 20

_EXT4_OPTIONS = ("-O", "^metadata_csum", "-E", "root_owner=0:0")
_LEFT_OUT = (
    "./usr/lib/*/gconv/*",
    "./usr/share/bash-completion/*",
    "./usr/share/doc/*",
    "./usr/share/i18n/*",
    "./usr/share/info/*",
    "./usr/share/lintian/*",
    "./usr/share/locale/*",
    "./usr/share/man/*",
)
# Folders that the packages' own scripts would create, and mount points.
_FOLDERS = (
    *("boot", "dev", "etc", "home", "mnt", "opt", "proc", "root/.ssh", "run", "srv", "sys"),
    *("usr/local/bin", "usr/local/lib", "usr/local/sbin", "var/cache", "var/lib", "var/log"),
)
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\n"
    "sshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"
    "messagebus:x:101:106::/nonexistent:/usr/sbin/nologin\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\ntty:x:5:\ndisk:x:6:\ndialout:x:20:\naudio:x:29:\nvideo:x:44:\n"
    "input:x:104:\nrender:x:105:\nmessagebus:x:106:\nnogroup:x:65534:\n",
    "etc/shadow": "root:*:19000:0:99999:7:::\nsshd:!:19000::::::\n",
    "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    "etc/pam.d/sudo": "auth required pam_deny.so\naccount required pam_permit.so\n"
    "session required pam_permit.so\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n",
    "etc/hosts": f"127.0.0.1 localhost {HOST_NAME}\n",
    "etc/hostname": f"{HOST_NAME}\n",
    # One camera and nothing else.
    "etc/modprobe.d/vivid.conf": "options vivid n_devs=1 node_types=0x1 num_inputs=1"
    " input_types=0\n",
    # A real kernel has its FPGA's manager built in.
    "etc/modules-load.d/fpga-manager.conf": "fpga-manager\n",
    "etc/modprobe.d/fpga-manager.conf": "options fpga-manager"
    f" configured_address={memory_map.CONFIGURED_ADDRESS:#x}\n",
}
# What dpkg records of a package, besides its dependencies.
_REGISTERED = ("Package", "Version", "Architecture", "Multi-Arch", "Maintainer", "Description")
_KMOD = ("depmod", "insmod", "lsmod", "modinfo", "modprobe", "rmmod")
_UNITS = "etc/systemd/system"
_STARTED = ("ssh.service", "virtual-board-devices.service")
_PRIVATE = ("etc/shadow", "etc/ssh/ssh_host_ed25519_key", "root/.ssh/authorized_keys")


def unpack(packages: Iterable[Path], root: Path, *, log: Path) -> None:
    """Unpack packages into ``root`` in the given order, without running their scripts.

    Raises ``VirtualBoardError`` if a package is damaged.
    """
    for name in ("bin", "lib", "sbin"):  # a merged /usr, as in Debian since version 12
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    exclude = [f"--exclude={pattern}" for pattern in _LEFT_OUT]
    for package in packages:
        unpack_package(package, root, ["--keep-directory-symlink", *exclude], log=log)


def unpack_package(package: Path, target: Path, options: Iterable[str] = (), *, log: Path) -> None:
    """Unpack the files of one Debian package into ``target``, with additional tar options.

    Raises VirtualBoardError for a damaged package.
    """
    with log.open("ab") as output:
        archive = subprocess.Popen(
            [host_tools.find("dpkg-deb"), "--fsys-tarfile", package],
            stdout=subprocess.PIPE,
            stderr=output,
        )
        code = subprocess.run(
            [host_tools.find("tar"), "-x", "--no-same-owner", *options, "-C", target],
            stdin=archive.stdout,
            stdout=output,
            stderr=output,
            check=False,
        ).returncode
    if archive.wait() != 0 or code != 0:
        raise VirtualBoardError(
            f"virtual board: {package.name} could not be unpacked: {host_tools.last_line(log)}",
            hint="the download may be damaged: download it again",
            option="rebuild",
        )


def register(packages: Mapping[str, Path], root: Path) -> None:
    """Write dpkg's records of unpacked ``packages`` (file by name), for dpkg and apt on the board.

    Their dependencies are left out, because an unpacked system does not contain all of them. Raises
    VirtualBoardError for a damaged package.
    """
    records = root / "var/lib/dpkg"
    for name in ("alternatives", "info", "parts", "triggers", "updates"):
        (records / name).mkdir(parents=True, exist_ok=True)
    entries = []
    for name, package in packages.items():
        fields = _package_text(package, "--field").splitlines()
        kept = [line for line in fields if line.partition(":")[0] in _REGISTERED]
        entries.append("\n".join([*kept, "Status: install ok installed"]) + "\n")
        architecture = next(f for f in fields if f.startswith("Architecture: ")).split()[1]
        suffix = f":{architecture}" if "Multi-Arch: same" in fields else ""
        paths = [line.split(maxsplit=5)[5] for line in _package_text(package, "-c").splitlines()]
        files = [path.partition(" -> ")[0].removeprefix(".").rstrip("/") or "/." for path in paths]
        (records / "info" / f"{name}{suffix}.list").write_text("\n".join(files) + "\n")
    (records / "status").write_text("\n".join(entries))


def _package_text(package: Path, option: str) -> str:
    done = subprocess.run(
        [host_tools.find("dpkg-deb"), option, package], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise VirtualBoardError(
            f"virtual board: {package.name} could not be read: {done.stderr.strip()}",
            hint="the download may be damaged: download it again",
            option="rebuild",
        )
    return done.stdout


def configure(root: Path, guest: Path, public_key: Path, host_key: Path) -> None:
    """Write the configuration files that make the unpacked packages a system with SSH login."""
    for name in _FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp"):
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name).chmod(0o1777)
    files = {
        **_FILES,
        "etc/ssh/sshd_config": (guest / "sshd_config").read_text(),
        "etc/ssh/ssh_host_ed25519_key": host_key.read_text(),
        "root/.ssh/authorized_keys": public_key.read_text(),
        "usr/sbin/init": (guest / "init").read_text(),
        "usr/local/sbin/virtual-board-devices": (guest / "devices").read_text(),
        f"{_UNITS}/virtual-board-devices.service": (guest / "devices.service").read_text(),
        f"{_UNITS}/ssh.service": (guest / "ssh.service").read_text(),
    }
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        file.chmod(0o600 if name in _PRIVATE else 0o644)
    for program in ("usr/sbin/init", "usr/local/sbin/virtual-board-devices"):
        (root / program).chmod(0o755)
    for folder in ("root", "root/.ssh"):
        (root / folder).chmod(0o700)
    # Links that the packages' own scripts would create.
    links = {
        **{f"usr/sbin/{name}": "/bin/kmod" for name in _KMOD},
        "usr/bin/awk": "mawk",
        f"{_UNITS}/default.target": "/lib/systemd/system/multi-user.target",
        # No login on the console.
        f"{_UNITS}/serial-getty@ttyPS0.service": "/dev/null",
        f"{_UNITS}/getty.target": "/dev/null",
        **{f"{_UNITS}/multi-user.target.wants/{name}": f"../{name}" for name in _STARTED},
    }
    for name, target in links.items():
        link = root / name
        if not link.is_symlink():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)


def make_image(root: Path, image: Path, *, log: Path) -> None:
    """Write the ext4 image of a root folder; raise ``VirtualBoardError`` on failure."""
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    host_tools.run(
        "create the SD card image",
        ["mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", *_EXT4_OPTIONS, "-d", root, image],
        log=log,
    )
