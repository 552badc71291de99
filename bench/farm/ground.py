"""The farm: a tracker, and ``edgepipe-rpcd`` processes, each of which is a board."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edgepipe import rpc
from edgepipe.rpc.tracker import Kind, Tracker

TRACKER_FILES = 1024  # the usual limit, which `edgepipe rpc tracker` raises for itself
_START_S = 120.0
_AT_ONCE = 20  # boards that are started before one is waited for


@dataclass(slots=True, kw_only=True)
class Farm:
    """A running farm; ``ports`` are those of the boards, by kind."""

    address: tuple[str, int]
    tracker_pid: int
    ports: dict[str, set[int]] = field(default_factory=dict)
    boards: list[subprocess.Popen[str]] = field(default_factory=list)
    logs: Path
    started_s: float = 0.0

    @property
    def tracker(self) -> Tracker:
        """Return the tracker, for questions."""
        return Tracker(host=self.address[0], port=self.address[1], timeout_s=60)

    def wait_until_free(self, limit_s: float = 60.0) -> float:
        """Wait until every board is free; return the seconds. Raises TimeoutError."""
        began = time.monotonic()
        wanted = {kind: len(ports) for kind, ports in self.ports.items()}
        while True:
            kinds = self.tracker.kinds()
            if all(kinds.get(kind, Kind()).free == count for kind, count in wanted.items()):
                return time.monotonic() - began
            if time.monotonic() - began > limit_s:
                raise TimeoutError(f"not free: {kinds}, expected {wanted}")
            time.sleep(0.02)

    def refused(self) -> int:
        """Return how many clients boards have refused so far, other than those that had left."""
        return sum(log.read_text().count("refused: wrong key") for log in self.logs.iterdir())

    def board_mib(self) -> float:
        """Return the memory of a board in MiB, its share of shared pages included."""
        found = [_pss_kib(board.pid) for board in self.boards]
        return sum(found) / len(found) / 1024


@contextlib.contextmanager
def running(kinds: Mapping[str, int], folder: Path, *, tvms_own: bool = False) -> Iterator[Farm]:
    """Run a tracker and so many boards of each kind for the block; all of them are free then.

    The tracker is that of ``edgepipe rpc tracker``, or TVM's own program.
    """
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    began = time.monotonic()
    logs = folder / "logs"
    logs.mkdir()
    ours = ("edgepipe", "rpc", "tracker", "--port", str(port))
    ports = ("--port", str(port), "--port-end", str(port + 1))
    theirs = ("tvm.exec.rpc_tracker", "--silent", "--host", "127.0.0.1", *ports)
    tracker = subprocess.Popen(
        [sys.executable, "-m", *(theirs if tvms_own else ours)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # TVM's program works in a child of its own
        preexec_fn=_limit_files,
    )
    farm = Farm(address=("127.0.0.1", port), tracker_pid=tracker.pid, logs=logs)
    try:
        _wait_for_tracker(port)
        for kind, count in kinds.items():
            farm.ports[kind] = set()
            for first in range(0, count, _AT_ONCE):
                new = [_start(farm, kind, n) for n in range(first, min(first + _AT_ONCE, count))]
                farm.boards += new
                farm.ports[kind] |= {_port_of(board) for board in new}
        farm.wait_until_free(_START_S)
        farm.started_s = time.monotonic() - began
        yield farm
    finally:
        for board in farm.boards:
            assert board.stdin is not None
            with contextlib.suppress(OSError):
                board.stdin.close()  # which ends it
        for board in farm.boards:
            with contextlib.suppress(subprocess.TimeoutExpired):
                board.wait(10)
            board.kill()
            board.wait()
        os.killpg(tracker.pid, signal.SIGKILL)
        tracker.wait()


def _limit_files() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(TRACKER_FILES, hard), hard))


def _wait_for_tracker(port: int) -> None:
    end = time.monotonic() + _START_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        if time.monotonic() > end:
            raise TimeoutError("the tracker does not start")
        time.sleep(0.1)


def _start(farm: Farm, kind: str, number: int) -> subprocess.Popen[str]:
    host, port = farm.address
    command = [str(rpc.find_program()), "--until-eof", "--allow-root", "--key", kind]
    with (farm.logs / f"{kind}-{number}").open("w") as log:
        return subprocess.Popen(
            [*command, "--tracker", f"{host}:{port}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )


def _port_of(board: subprocess.Popen[str]) -> int:
    assert board.stdout is not None
    line = board.stdout.readline()  # listening on 127.0.0.1:PORT with key KEY
    return int(line.split("127.0.0.1:")[1].split()[0])


def _pss_kib(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
