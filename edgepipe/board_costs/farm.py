"""Boards that share the measurement of ranges: each takes the next one as soon as it is free.

A board that is lost loses only the range that it is at, which another session measures. If two
sessions are lost at the same range, the range is to blame: it has failed.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from edgepipe.board_costs.board_session import Measurer
from edgepipe.errors import RpcError

_MOST_WAITING = 4  # compiled ranges for each board, so that none waits for the compiler
_MOST_LOST = 2  # sessions that may end at one range
_POLL_S = 0.1  # for signals to be handled
_END_S = 10.0

Report = Callable[["Job", float, str, str], None]
"""Takes a job that has ended, its time in us, its failure or an empty text, and the host."""


@dataclass(slots=True, kw_only=True)
class Job:
    """A range that is compiled: its key, the bundle at ``path``, and the cores it runs on."""

    key: str
    path: Path
    threads: int
    lost: int = 0


class _Board:
    """A thread with its board, if it has one."""

    def __init__(self, name: str, serve: Callable[[_Board], None]) -> None:
        self.thread = threading.Thread(target=serve, args=(self,), name=name, daemon=True)
        self.board: Measurer | None = None


@dataclass(slots=True)
class Farm:
    """Up to ``boards`` boards at once, each from ``connect``; a context manager.

    ``report`` is called in the thread of a board. ``counts`` are the measured ranges by host.
    """

    connect: Callable[[], Measurer]
    boards: int
    report: Report
    counts: Counter[str] = field(default_factory=Counter)
    _todo: deque[Job] = field(default_factory=deque)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _members: list[_Board] = field(default_factory=list)
    _busy: int = 0
    _ended: bool = False
    _lost: str = ""
    _error: BaseException | None = None

    def __enter__(self) -> Self:
        """Start the threads, which connect to their boards."""
        for number in range(self.boards):
            member = _Board(f"board-{number}", self._serve)
            self._members.append(member)
            member.thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        cause: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the sessions, also in the middle of a call, so that the boards are free again."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        for member in self._members:
            board = member.board
            if kind is not None and board is not None:
                board.cut()
        for member in self._members:  # one that still waits for a board ends with the process
            member.thread.join(timeout=_END_S if member.board is not None else 0.0)

    def measure(self, jobs: Iterable[Job]) -> None:
        """Measure all ``jobs``, which are made while boards work.

        Raises BoardError for a machine that is not a board of the kind, and RpcError if no board
        is left.
        """
        for job in jobs:
            with self._changed:
                self._wait_until(lambda: len(self._todo) < _MOST_WAITING * self.boards)
                self._todo.append(job)
                self._changed.notify_all()
        with self._changed:
            self._wait_until(lambda: not self._todo and not self._busy)

    def _wait_until(self, done: Callable[[], bool]) -> None:
        while True:
            if self._error is not None:
                raise self._error
            if done():
                return
            if not any(member.thread.is_alive() for member in self._members):
                raise RpcError(f"no board is left to measure on: {self._lost}")
            self._changed.wait(_POLL_S)

    def _serve(self, member: _Board) -> None:
        try:
            while not self._ended:
                if member.board is None:
                    member.board = self.connect()
                job = self._next()
                if job is not None:
                    self._measure(member, job)
        except RpcError as cause:  # the board is gone: others go on
            self._lost = str(cause)
        except BaseException as cause:  # raised by ``measure``
            self._error = cause
        finally:
            if member.board is not None:
                member.board.close()
            with self._changed:
                self._changed.notify_all()

    def _next(self) -> Job | None:
        with self._changed:
            while not self._todo and not self._ended:
                self._changed.wait()
            if self._ended:
                return None
            self._busy += 1
            self._changed.notify_all()
            return self._todo.popleft()

    def _measure(self, member: _Board, job: Job) -> None:
        board = member.board
        assert board is not None
        again = True  # by another board, if there is none for this thread any more
        try:
            outcome = board.measure(job.path, job.threads)
            if outcome.lost:
                member.board = None
                board.close()
                job.lost += 1
            again = outcome.lost and job.lost < _MOST_LOST
            if not again and not self._ended:
                self.report(job, outcome.us, outcome.failure, outcome.host)
                self.counts[outcome.host] += not outcome.failure
        finally:
            with self._changed:
                self._busy -= 1
                if again:
                    self._todo.appendleft(job)
                self._changed.notify_all()
