"""A server on a board, reached over SSH: started with one session, tunnelled with another."""

from __future__ import annotations

import contextlib
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path

from edgepipe.deploy.connection import Connection, Target
from edgepipe.rpc import shipping
from edgepipe.rpc.server import LocalServer

ROOT = "edgepipe"  # deploy's own folder on the board


@contextlib.contextmanager
def open_board(host: str, *, ssh_config: Path | None = None, program: str = "") -> Iterator[int]:
    """Start the server on the board and yield the local port of a tunnel to it.

    ``program`` is its path there; without one, the server that was built here for the board is
    sent, as far as the board does not have it. ssh's own configuration is honoured. Server and
    tunnel end with the block, and the server also when the link is lost: it stops at the end of
    its standard input. Raises ``RpcError`` when the server does not start, ``DeployError`` when the
    board cannot be reached.
    """
    target = Target(host=host, root=ROOT, ssh_config=ssh_config)
    with Connection(target, script=shipping.BOARD_SIDE) as connection:
        program = program or shipping.ship(connection)
        command = f"exec {shlex.quote(program)} --until-eof"
        with LocalServer(connection.session_command(command)) as server:
            port = _free_port()
            connection.forward(port, server.port)
            yield port


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
