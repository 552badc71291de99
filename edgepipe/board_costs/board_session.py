"""A board that measures ranges of a network's operators, one after another, in one session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from edgepipe.board_costs.runner import Runner, check_machine
from edgepipe.boards import Board
from edgepipe.closing import Closing
from edgepipe.errors import BoardError, EdgepipeError, RpcError
from edgepipe.rpc.session import Session

_PATIENCE_S = 60.0  # for all answers of a board but the end of a run


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeOptions:
    """How boards measure: on ``device``, ``repeat`` runs at once (``Runner.least``).

    ``limit_s`` is how long one run of a range may take. Kernels are compiled for ``architecture``,
    which in a trial need not be the board's.
    """

    board: Board
    architecture: str
    device: str
    repeat: int
    limit_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a board found: the least time in us, or why there is none.

    After ``lost`` the session has ended, because of the range or for another reason.
    """

    host: str
    us: float = 0.0
    failure: str = ""
    lost: bool = False


class Measurer(Protocol):
    """What measures ranges for a farm, in one of its threads: a board, or a worker that has one."""

    def measure(self, path: Path, threads: int) -> Outcome:
        """Measure the range that is the bundle at ``path``, on so many cores.

        Raises RpcError if there is no board to measure it.
        """

    def cut(self) -> None:
        """End a ``measure`` of another thread."""

    def close(self) -> None:
        """Free the board."""


class BoardSession(Closing):
    """A ``Measurer`` with a session of its own; a context manager."""

    def __init__(self, session: Session, options: RangeOptions) -> None:
        """Take over the session.

        Raises RpcError, and BoardError for a machine that is not a board of the kind.
        """
        self._session = session
        self._options = options
        try:
            self.host = _checked(session, options)
        except BaseException:
            session.close()
            raise

    @classmethod
    def open(cls, connect: Callable[[], Session], options: RangeOptions) -> Self:
        """Measure in a session of ``connect``. Raises as it does, and as the constructor does."""
        return cls(connect(), options)

    def measure(self, path: Path, threads: int) -> Outcome:
        """Measure a range; what happens to its session is part of the outcome."""
        options = self._options
        exchange = self._session.exchange
        try:
            with Runner.open(self._session, path, options.device, threads=threads) as runner:
                exchange.allow(options.limit_s)
                try:
                    least = runner.least(0, options.repeat)
                finally:
                    exchange.allow(_PATIENCE_S)
        except RpcError as cause:
            failure = _reason(cause, options.limit_s)
            return Outcome(host=self.host, failure=failure, lost=bool(exchange.broken))
        return Outcome(host=self.host, us=least.us, failure=least.fault)

    def cut(self) -> None:
        """Close the connection, also in the middle of a call of another thread."""
        self._session.exchange.cut()

    def close(self) -> None:
        """End the session; may be called twice."""
        self._session.close()


def _checked(session: Session, options: RangeOptions) -> str:
    """Return the host that the session is with, if it is a board of the kind."""
    machine = session.info()
    found = check_machine(machine, options.board, trial=options.device != "auto")
    if found != options.architecture:
        raise BoardError(
            f"{machine['host']} is {found}, but the kernels of this trial are for "
            f"{options.architecture}",
            hint="offer only machines with the architecture of this one",
        )
    return str(machine["host"])


def _reason(cause: EdgepipeError, limit_s: float) -> str:
    """Return why a range failed, in one line."""
    text = str(cause)
    if "Resource temporarily unavailable" in text:
        return f"no answer within {limit_s:g} s"
    return text
