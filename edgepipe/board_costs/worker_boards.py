"""Boards of the workers of a Dask cluster: each range is a task, which takes a free board there.

Every worker asks the tracker at the same address. That may be one tracker for all, or the
worker's own: boards whose tunnels end on the worker's machine can be reached from there alone.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from edgepipe import scratch
from edgepipe.board_costs.board_session import BoardSession, Outcome, RangeOptions
from edgepipe.cluster import Cluster
from edgepipe.errors import RpcError
from edgepipe.rpc.place import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedBoards:
    """What every worker asks for: boards named ``key`` of its tracker, which it waits for."""

    tracker: str
    key: str
    wait_s: float

    def place(self) -> Place:
        """Return where the boards are, as the calling process sees it. Raises RpcError."""
        return Place.at_tracker(self.tracker, self.key, wait_s=self.wait_s)


@dataclass(frozen=True, slots=True)
class WorkerBoard:
    """A ``Measurer`` whose ranges any worker measures on any board that is free."""

    cluster: Cluster
    boards: TrackedBoards
    options: RangeOptions
    _cut: threading.Event = field(default_factory=threading.Event)

    def measure(self, path: Path, threads: int) -> Outcome:
        """Measure a range; a worker that dies is replaced by another one.

        Raises RpcError if no board is free in time, BoardError for a machine that is not a board of
        the kind, ClusterError if the cluster loses the work.
        """
        future = self.cluster.submit(
            measured_there, self.boards, self.options, path.read_bytes(), threads
        )
        found: Outcome = self.cluster.result(future, "the measurement of a range", self._cut.is_set)
        return found

    def cut(self) -> None:
        """Stop waiting; a worker ends what it is at."""
        self._cut.set()

    def close(self) -> None:
        """Do nothing: a board is freed after each range."""


def measured_there(
    boards: TrackedBoards, options: RangeOptions, bundle: bytes, threads: int
) -> Outcome:
    """Measure a packed range on a board of this machine's tracker; a task on a worker."""
    place = boards.place()
    with scratch.folder("measure") as folder:
        path = folder / "range.edgepipe"
        path.write_bytes(bundle)
        with BoardSession.open(place.open, options) as board:
            return board.measure(path, threads)


def boards_there(boards: TrackedBoards) -> tuple[int, str, str]:
    """Return how many boards a worker has, and otherwise the error's text and hint; a task."""
    try:
        return boards.place().boards, "", ""
    except RpcError as cause:
        return 0, str(cause), cause.hint or ""


def count_boards(cluster: Cluster, boards: TrackedBoards) -> int:
    """Return how many ranges the cluster can measure at a time.

    Raises RpcError if a worker has no such boards, ClusterError if one cannot be asked.
    """
    count = 0
    threads = cluster.threads_by_worker()
    for worker, (found, failure, hint) in sorted(cluster.everywhere(boards_there, boards).items()):
        if failure:
            raise RpcError(f"Dask worker {worker}: {failure}", hint=hint)
        count += min(found, threads.get(worker, 1))
    return count
