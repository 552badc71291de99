"""Where a client finds a board: one server, or any board of a kind that a tracker hands out."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Self

from edgepipe.rpc.link import Link, RpcServer
from edgepipe.rpc.session import Session
from edgepipe.rpc.tracker import Tracker

WAIT_S = 60.0
"""How long a board may be in use before a client stops waiting for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A server, or a tracker with boards of one kind; a value, which other processes can use, too.

    ``boards`` is how many there were when the tracker was asked.
    """

    server: RpcServer
    boards: int = 1

    @classmethod
    def at_server(cls, server: RpcServer, *, wait_s: float = WAIT_S) -> Self:
        """Return the place of one server, which may be in use for ``wait_s``."""
        return cls(server=dataclasses.replace(server, timeout_s=wait_s))

    @classmethod
    def at_tracker(cls, address: str, key: str, *, wait_s: float = WAIT_S) -> Self:
        """Return the place of all boards that the tracker at ``HOST:PORT`` has as ``key``.

        All of them may be in use for ``wait_s``. Raises ``RpcError`` for what is no address, if the
        tracker does not answer, and if it has no such board.
        """
        tracker = Tracker.at(address, wait_s)
        server = RpcServer(
            host=tracker.host, port=tracker.port, key=key, tracker=True, timeout_s=wait_s
        )
        return cls(server=server, boards=tracker.require(key).boards)

    def open(self) -> Session:
        """Open a session with a free board, which serves nobody else until the session ends.

        Waits for the board up to ``wait_s``, and for each of its answers as long.
        Raises ``RpcError``.
        """
        return Session(Link(self.server))
