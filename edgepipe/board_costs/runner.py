"""Time the stages of a bundle on a board, in a session with its RPC server."""

from __future__ import annotations

import contextlib
import json
import math
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgepipe.boards import Board
from edgepipe.deploy.plan import MACHINES
from edgepipe.errors import BoardError
from edgepipe.rpc.session import Session

TRIAL = "timed"
"""The device on which a program takes as long as the board's file says."""

_MOST_ROUNDS = 10
_SETTLED = 0.998  # a round of runs that lowers the least time by less is the last one


@dataclass(frozen=True, slots=True, kw_only=True)
class Least:
    """The least times of a stage in us: its own, and that in which its device worked.

    ``fault`` is what happened to its device, empty if nothing did.
    """

    us: float
    device_us: float
    fault: str = ""


class Runner:
    """A bundle on a board, whose stages are timed one by one; ``device`` runs its programs."""

    def __init__(self, session: Session, module: Any) -> None:
        """Take over a module of ``Session.opened``. Raises RpcError."""
        self._run, self._statistics, self._set_threads, describe = (
            session.function(module, name)
            for name in ("run_stage", "statistics", "set_threads", "describe")
        )
        self.device: str = json.loads(describe())["device"]

    @classmethod
    @contextlib.contextmanager
    def open(
        cls, session: Session, path: Path, device: str, *, threads: int = 1
    ) -> Iterator[Runner]:
        """Upload the bundle at ``path`` for the block; its ARM stages run on ``threads`` cores.

        The accelerator is free again after the block. Raises RpcError.
        """
        with session.opened(path, device) as module:
            runner = cls(session, module)
            if threads > 1:
                runner._set_threads(threads)
            yield runner

    def least(self, stage: int, repeat: int) -> Least:
        """Return the least times of a stage.

        ``repeat`` runs are repeated until the least time no longer falls, because something else
        may have slowed all of them down. Raises RpcError.
        """
        self._run(stage)  # the first run also fills caches
        self._statistics()
        least = device = math.inf
        for _ in range(_MOST_ROUNDS):
            for _ in range(repeat):
                self._run(stage)
            found = json.loads(self._statistics())[stage]
            if found["fault"]:
                return Least(us=least, device_us=device, fault=str(found["fault"]))
            before, least = least, min(least, found["min_us"])
            device_before, device = device, min(device, found["device_min_us"])
            if least > _SETTLED * before and device >= _SETTLED * device_before:
                break
        return Least(us=least, device_us=device)


def this_architecture() -> str:
    """Return the architecture of this machine, on which a trial runs."""
    return MACHINES.get(platform.machine(), platform.machine())


def check_machine(machine: Mapping[str, Any], board: Board, *, trial: bool) -> str:
    """Return the architecture of the machine that is measured.

    Raises BoardError if it is not that of the board, and without an accelerator. A trial may run on
    any machine.
    """
    found = str(MACHINES.get(machine["machine"], machine["machine"]))
    if trial:
        return found
    if not machine["has_accelerator"]:
        raise BoardError(
            f"{machine['host']} has no accelerator, and the simulator's times say nothing about a "
            "board",
            hint="name a board that has one",
            option="host",
            value="HOST",
        )
    if found != board.architecture:
        raise BoardError(
            f"{machine['host']} is {found}, but board {board.name} is {board.architecture}",
            hint="name the board that is measured, or its file",
            option="board",
            value="BOARD",
        )
    return found
