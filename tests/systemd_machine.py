"""A machine with a real systemd as process 1, in namespaces of this machine; needs root.

It has its own processes, units, users, /run, /tmp and /var/lib, and otherwise reads this machine's
files. Only the folder that it is given is writable. Its network is this machine's.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from needs import installed, lacking

from edgepipe import resources

# What a unit needs by default, without anything that this machine would start.
TARGETS = ("sysinit", "basic", "network", "multi-user", "shutdown", "final", "umount")
BOOT = """
set -eu
folder=$1 cgroup=$2
echo $$ >"$cgroup/cgroup.procs"
# Nothing of it survives its parent.
exec setpriv --pdeathsig KILL \
    unshare --mount --pid --fork --kill-child=KILL --cgroup --ipc --uts sh -euc '
    folder=$1
    mount --make-rprivate /
    mount -t proc proc /proc
    # Of cgroup version 1, nothing is needed; version 2 shows only this machine.
    umount -l /sys/fs/cgroup
    mount -t tmpfs tmpfs /sys/fs/cgroup
    mkdir /sys/fs/cgroup/2
    mount -t cgroup2 cgroup2 /sys/fs/cgroup/2
    mount --move /sys/fs/cgroup/2 /sys/fs/cgroup
    for file in passwd group; do mount --bind "$folder/etc/$file" /etc/$file; done
    mount -t tmpfs -o mode=755 run /run
    mkdir -p /run/sshd /run/kept
    mount --bind "$folder" /run/kept
    mount -o remount,bind,ro /
    mount -t tmpfs -o mode=1777 tmp /tmp
    mount -t tmpfs -o mode=755 lib /var/lib
    case $folder in /tmp/*) mkdir -p -m 755 "$folder" ;; esac
    mount --bind /run/kept "$folder"
    umount /run/kept
    export container=lxc SYSTEMD_UNIT_PATH="/run/systemd/system:$folder/units"
    exec /lib/systemd/systemd --system --unit=multi-user.target --show-status=no \\
        --log-target=null --default-standard-output=null --default-standard-error=null
' sh "$folder"
"""


class SystemdMachine:
    """The machine; ``folder/units`` has its units. Boots in about a second. Not thread-safe."""

    def __init__(self, folder: Path) -> None:
        installed("unshare", "util-linux")
        if not Path("/lib/systemd/systemd").exists():
            lacking("/lib/systemd/systemd is missing (Debian: systemd)")
        if os.geteuid() != 0:
            lacking("systemd as process 1 needs root")
        self.folder = folder
        self.units = folder / "units"
        self.units.mkdir(parents=True)
        (folder / "etc").mkdir()
        # The user and the group that board/setup.sh creates.
        for file, entry in (
            ("passwd", "edgepipe:x:990:990::/nonexistent:/usr/sbin/nologin\n"),
            ("group", "edgepipe:x:990:\n"),
        ):
            others = Path("/etc", file).read_text().splitlines(keepends=True)
            kept = [line for line in others if not line.startswith("edgepipe:")]
            (folder / "etc" / file).write_text("".join(kept) + entry)
        for target in TARGETS:
            text = f"[Unit]\nDescription={target}\nDefaultDependencies=no\n"
            (self.units / f"{target}.target").write_text(text)
        # There is no journal: the units' output goes to a file.
        (self.units / "service.d").mkdir()
        log = f"[Service]\nStandardOutput=append:{folder}/log\nStandardError=inherit\n"
        (self.units / "service.d/log.conf").write_text(log)
        self._cgroup = _new_cgroup()
        self.boot()

    def boot(self) -> None:
        """Start systemd; return when the default target has been reached."""
        with (self.folder / "log").open("ab") as log:
            self._outer = subprocess.Popen(
                ["sh", "-c", BOOT, "sh", self.folder, self._cgroup],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + 120
        while not self._has_booted():
            assert self._outer.poll() is None and time.monotonic() < end, self.log()
            time.sleep(0.1)

    def _has_booted(self) -> bool:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            if Path(f"/proc/{self._process_1()}/comm").read_text() == "systemd\n":
                is_active = self.command("systemctl", "is-active", "multi-user.target")
                done = subprocess.run(is_active, capture_output=True, text=True, timeout=20)
                return done.stdout == "active\n"
        return False

    def _process_1(self) -> str:
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children")
        return children.read_text().strip() or "none"

    def command(self, *words: str | Path) -> list[str]:
        """Return the command that runs ``words`` on the machine."""
        enter = ["nsenter", "-t", self._process_1(), "-m", "-p", "-C", "-i", "-u"]
        return [*enter, "--", *map(str, words)]

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command on the machine."""
        return subprocess.run(self.command(*words), capture_output=True, text=True, timeout=60)

    def must(self, *words: str | Path) -> str:
        """Run a command that must succeed; return its output."""
        done = self.run(*words)
        assert done.returncode == 0, (words, done.stderr, self.log())
        return done.stdout

    def property(self, unit: str, name: str) -> str:
        """Return a property of a unit."""
        return self.must("systemctl", "show", "--value", "-p", name, unit).strip()

    def processes(self, unit: str) -> list[Path]:
        """Return the folders in /proc of a unit's processes, without asking systemd."""
        with contextlib.suppress(OSError):
            slice_ = self._cgroup / "system.slice"
            numbers = (slice_ / f"{unit}.service" / "cgroup.procs").read_text().split()
            return [Path("/proc", number) for number in numbers]
        return []

    def log(self) -> str:
        """Return the end of the units' output."""
        return (self.folder / "log").read_text(errors="replace")[-4000:]

    def cut_power(self) -> None:
        """Kill every process at once."""
        with contextlib.suppress(OSError):
            (self._cgroup / "cgroup.kill").write_text("1")
        self._outer.kill()
        self._outer.wait()
        end = time.monotonic() + 60
        while "populated 1" in (self._cgroup / "cgroup.events").read_text():
            assert time.monotonic() < end
            time.sleep(0.02)

    def close(self) -> None:
        """End the machine."""
        self.cut_power()
        for folder, _, _ in os.walk(self._cgroup, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()


def _new_cgroup() -> Path:
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    roots = [Path(words[1]) for words in mounts if words[2] == "cgroup2"]
    if not roots:
        lacking("no cgroup2 is mounted")
    own = Path("/proc/self/cgroup").read_text().splitlines()
    here = next(line.removeprefix("0::/") for line in own if line.startswith("0::"))
    folder = roots[0] / here / f"edgepipe-test-{os.getpid()}-{time.monotonic_ns()}"
    try:
        folder.mkdir()
    except OSError as error:
        lacking(f"{folder}: {error.strerror}")
    return folder


def eventually(condition: Callable[[], bool], what: str, *, within_s: float = 60.0) -> None:
    """Wait until ``condition()`` is true; fail with ``what`` if that takes too long."""
    end = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > end:
            pytest.fail(what)
        time.sleep(0.05)


def installed_unit(root: Path, *, cores: str) -> str:
    """Return board/edgepipe.service as setup.sh installs it, without the parts for boards only."""
    text = (resources.folder("board") / "edgepipe.service").read_text()
    text = text.replace("ConditionPathExists=/run/edgepipe/bitstream.json\n", "")
    return text.replace("@ROOT@", str(root)).replace("@CORES@", cores)
