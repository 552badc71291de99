"""Detached processes that a later command can find again, even if pids have been reused."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """A process by its pid and its start time in clock ticks since boot, unique until a reboot."""

    pid: int
    start_ticks: int

    @property
    def alive(self) -> bool:
        """Whether this process is still running; a zombie is not."""
        found = _stat(self.pid)
        return found is not None and found == (self.start_ticks, True)

    def stop(self, grace_s: float = 3.0) -> None:
        """End the process, by force after ``grace_s`` seconds, and wait for its end."""
        for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 10.0)):
            if not self.alive:
                break
            os.kill(self.pid, number)
            self.wait_until_gone(patience_s)

    def wait_until_gone(self, patience_s: float) -> bool:
        """Wait until the process ends; return false if it is still running after ``patience_s``."""
        deadline = time.monotonic() + patience_s
        while self.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True


def start_detached(
    command: Sequence[str], *, folder: Path, log: Path, environment: dict[str, str] | None = None
) -> ProcessId:
    """Start a program in its own session, so that Ctrl-C here does not reach it.

    It runs in ``folder``. Its output replaces the contents of ``log``.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    found = _stat(process.pid)
    # Keep the child unreaped while this process runs: calling poll() would hide its end from _stat.
    _children.append(process)
    return ProcessId(pid=process.pid, start_ticks=found[0] if found else 0)


# Popen warns when the handle of a running child is dropped; detached children keep running.
_children: list[subprocess.Popen[bytes]] = []


def _stat(pid: int) -> tuple[int, bool] | None:
    """Return a process's start time and whether it is running, or None if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command name is in parentheses and may contain spaces; later fields are fixed (proc(5)).
    fields = text.rpartition(")")[2].split()
    state, start_ticks = fields[0], int(fields[19])
    return start_ticks, state not in ("Z", "X")
