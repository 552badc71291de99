"""A deploy folder and the unit that runs its current release, on a machine with a real systemd."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
from pathlib import Path

from systemd_machine import SystemdMachine, eventually, installed_unit


class Place:
    """A deploy folder with release 1, whose unit ``setup.sh`` would install.

    ``kind`` is "waiting", or "foreign" for a unit that does not know of deploys.
    """

    def __init__(
        self,
        machine: SystemdMachine,
        program: Path,
        name: str,
        kind: str = "waiting",
        root: Path | None = None,
    ) -> None:
        self.machine, self.program = machine, program
        self.unit = f"edgepipe-{name}"
        self.folder = root.parent if root else machine.folder / name
        self.root = root or self.folder / "edgepipe"
        self.root.mkdir(parents=True)
        (self.root / "accelerator").touch()
        self.numbers = itertools.count(2)
        self.make_release("1")
        (self.root / "current").symlink_to("releases/1")
        lines = installed_unit(self.root, cores="0").splitlines(keepends=True)
        if kind == "foreign":
            lines = [line for line in lines if not line.startswith("ExecStartPre=")]
        (machine.units / f"{self.unit}.service").write_text("".join(lines))
        wants = machine.units / "multi-user.target.wants"  # the unit is enabled
        wants.mkdir(exist_ok=True)
        (wants / f"{self.unit}.service").symlink_to(machine.units / f"{self.unit}.service")

    def make_release(self, name: str) -> None:
        folder = self.root / "releases" / name
        (folder / "bundle").mkdir(parents=True)
        (folder / "bin").mkdir()
        for tool in ("edgepipe-run", "edgepipe-cam"):
            os.link(self.program, folder / "bin" / tool)

    @property
    def current(self) -> int:
        return int((self.root / "current").readlink().name)

    def runs_the_current_release(self) -> bool:
        # systemd is asked only if the program runs: it starts units when it has nothing else to do.
        if not any(self._is_the_program(process) for process in self.machine.processes(self.unit)):
            return False
        state = self.machine.must("systemctl", "show", "-p", "MainPID,ActiveState", self.unit)
        shown = dict(line.split("=", 1) for line in state.splitlines())
        if shown["ActiveState"] != "active" or shown["MainPID"] == "0":
            return False
        where = self.machine.run("readlink", f"/proc/{shown['MainPID']}/cwd").stdout.strip()
        return where == f"{self.root}/releases/{self.current}"

    def _is_the_program(self, process: Path) -> bool:
        with contextlib.suppress(OSError):
            return (process / "comm").read_text() == "edgepipe-cam\n"
        return False

    def comes_back(self, what: str, *, within_s: float = 120.0) -> None:
        eventually(
            self.runs_the_current_release,
            f"{self.unit} does not run after {what}",
            within_s=within_s,
        )


def start(*places: Place) -> None:
    """Start the units of new places, which are on one machine."""
    places[0].machine.must("systemctl", "daemon-reload")
    places[0].machine.must("systemctl", "start", *(place.unit for place in places))
    for place in places:
        assert place.runs_the_current_release()


def compile_program(output: Path) -> Path:
    """Compile the replacement for edgepipe-cam and edgepipe-run."""
    source = Path(__file__).with_name("supervised_service.c")
    subprocess.run(["cc", "-o", output, source], check=True)
    return output
