"""Programs that wait for something outside: a reader, a writer, a device."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

PAUSE_S = 0.05


def wait_until_idle(process: int, limit_s: float = 60) -> None:
    """Wait until all threads of a process sleep, and none has run for a moment.

    A thread that waits for the processor, because the machine is busy, does not count as asleep.
    """
    end = time.monotonic() + limit_s
    before: dict[str, list[str]] = {}
    while (now := _threads(process)) != before or any(found[0] != "S" for found in now.values()):
        assert time.monotonic() < end, now
        before = now
        time.sleep(PAUSE_S)


def _threads(process: int) -> dict[str, list[str]]:
    """Return the state and the number of switches of every thread."""
    found = {}
    for task in Path(f"/proc/{process}/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            lines = (task / "status").read_text().splitlines()
            values = dict(line.partition(":")[::2] for line in lines)
            state = values["State"].split()[0]
            switches = (values[f"{kind}_ctxt_switches"] for kind in ("voluntary", "nonvoluntary"))
            found[task.name] = [state, *switches]
    return found
