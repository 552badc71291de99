"""A board that RAUC updates: two slots and a data partition in files, a U-Boot environment, RAUC.

RAUC, its D-Bus service, the file systems and the environment's format are real. U-Boot is played
by :meth:`RaucBoard.boot`, which chooses the slot as the boot script of RAUC's manual does.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from needs import installed, lacking

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/image_updates"
SLOT_BYTES = 24 << 20
ATTEMPTS = 3


class Signer:
    """A certification authority in ``folder`` and a key for bundles that it has signed."""

    def __init__(self, folder: Path, name: str) -> None:
        self.authority = folder / f"{name}-ca.pem"
        self.certificate = folder / f"{name}.pem"
        self.key = folder / f"{name}.key"
        authority_key, request = folder / f"{name}-ca.key", folder / f"{name}.csr"
        new = ["-newkey", "rsa:2048", "-nodes"]
        _run("openssl", "req", "-x509", *new, "-keyout", authority_key, "-out", self.authority,
             "-subj", f"/O={name}/CN=authority", "-days", "2")  # fmt: skip
        _run("openssl", "req", *new, "-keyout", self.key, "-out", request,
             "-subj", f"/O={name}/CN=builder")  # fmt: skip
        _run("openssl", "x509", "-req", "-in", request, "-CA", self.authority,
             "-CAkey", authority_key, "-out", self.certificate, "-days", "2")  # fmt: skip


class RaucBoard:
    """The board, in ``folder``; ``data`` is its data partition. Needs root, for loop devices."""

    def __init__(self, folder: Path, authority: Path) -> None:
        for program, package in (
            ("rauc", "rauc"),
            ("mksquashfs", "squashfs-tools"),
            ("dbus-daemon", "dbus-daemon"),
            ("fw_setenv", "libubootenv-tool"),
            ("mke2fs", "e2fsprogs"),
        ):
            installed(program, package)
        if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
            lacking("slots in files need root and loop devices")
        self.folder = folder
        self.root = folder / "data/edgepipe"
        self.root.mkdir(parents=True)
        self.slots = {name: folder / f"slot{name}" for name in "AB"}
        for slot in self.slots.values():
            slot.touch()
            os.truncate(slot, SLOT_BYTES)
        self._mounted = folder / "booted"
        self._mounted.mkdir()
        self._config = folder / "system.conf"
        self._config.write_text(self._system_conf(authority))
        # The two copies that U-Boot keeps are one here: a power cut is not tested.
        (folder / "uboot.env").write_bytes(b"\xff" * 0x2000)
        (folder / "fw_env.config").write_text(f"{folder}/uboot.env 0x0 0x2000\n")
        programs = folder / "programs"
        programs.mkdir()
        for name in ("fw_setenv", "fw_printenv"):
            (programs / name).write_text(
                f'#!/bin/sh\nexec /usr/bin/{name} -c {folder}/fw_env.config "$@"\n'
            )
            (programs / name).chmod(0o755)
        first = folder / "first.env"
        first.write_text(f"BOOT_ORDER=A B\nBOOT_A_LEFT={ATTEMPTS}\nBOOT_B_LEFT={ATTEMPTS}\n")
        self._environment = os.environ | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "DBUS_STARTER_BUS_TYPE": "session",
            "DBUS_SESSION_BUS_ADDRESS": f"unix:path={folder}/bus",
        }
        self.run("fw_setenv", "-f", first, "-s", first)

    def _system_conf(self, authority: Path) -> str:
        """Return the example's system.conf with the slots, keys and folders of this board."""
        text = (EXAMPLE / "system.conf").read_text()
        for found, here in (
            ("/dev/mmcblk0p2", self.slots["A"]),
            ("/dev/mmcblk0p3", self.slots["B"]),
            ("/data/rauc.status", self.folder / "data/rauc.status"),
            ("/etc/rauc/ca.pem", authority),
            # Its replacement, verity, needs a kernel with dm-verity.
            ("bundle-formats=-plain", f"mountprefix={self.folder}/mnt"),
        ):
            assert text.count(str(found)) == 1
            text = text.replace(str(found), str(here))
        return text

    def run(self, *command: object, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program on the board."""
        return subprocess.run(
            [str(word) for word in command],
            env=self._environment | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def write_slot(self, name: str, image: Path) -> None:
        """Write an image as a factory does."""
        _run("mke2fs", "-q", "-F", "-t", "ext4", "-d", image, self.slots[name])

    def uboot(self) -> dict[str, str]:
        """Return the boot order and the attempts that are left."""
        printed = self.run("fw_printenv").stdout.splitlines()
        return dict(line.split("=", 1) for line in printed if line.startswith("BOOT_"))

    def choose(self) -> str:
        """Choose a slot as U-Boot does: the first with attempts left, which become one less."""
        found = self.uboot()
        for name in found["BOOT_ORDER"].split():
            left = int(found[f"BOOT_{name}_LEFT"], 16)
            if left > 0:
                assert self.run("fw_setenv", f"BOOT_{name}_LEFT", f"{left - 1:x}").returncode == 0
                return name
        raise AssertionError(f"no slot can be started: {found}")

    @contextmanager
    def booted(self) -> Iterator[str]:
        """Start the board: mount the slot that U-Boot chooses, and run RAUC's service in it."""
        name = self.choose()
        _run("mount", "-o", "ro,loop", self.slots[name], self._mounted)
        address = self._environment["DBUS_SESSION_BUS_ADDRESS"]
        service = ["rauc", "service", f"--conf={self._config}", f"--override-boot-slot={name}"]
        commands = (
            ["dbus-daemon", "--session", f"--address={address}", "--nofork", "--nopidfile"],
            service,
        )
        running = []
        try:
            for command, is_ready in zip(
                commands, ((self.folder / "bus").exists, self._has_rauc), strict=True
            ):
                running.append(
                    subprocess.Popen(
                        command, env=self._environment, stdout=subprocess.DEVNULL, stderr=_log(self)
                    )
                )
                _wait_for(is_ready, command[0])
            yield name
        finally:
            for process in reversed(running):
                process.terminate()
                process.wait()
            (self.folder / "bus").unlink(missing_ok=True)
            _run("umount", self._mounted)

    def _has_rauc(self) -> bool:
        return self.run("rauc", "status").returncode == 0

    def accept(self, device: str = "simulator") -> subprocess.CompletedProcess[str]:
        """Run the health check of the booted slot, as its unit does after the start."""
        script = self._mounted / "usr/lib/edgepipe/accept_image.sh"
        return self.run(script, self.root, EDGEPIPE_DEVICE=device)

    def current(self) -> tuple[int, str]:
        """Return the number and the record of the current release in the data partition."""
        link = self.root / "current"
        return int(link.readlink().name), (link / "release.json").read_text()


def _log(board: RaucBoard) -> int:
    return os.open(board.folder / "service.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def _run(*command: object) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _wait_for(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, f"{what} does not start"
        time.sleep(0.05)
