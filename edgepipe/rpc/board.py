"""A server on a board over SSH: one SSH session starts it, another one is the tunnel."""

from __future__ import annotations

import contextlib
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path

from edgepipe.deploy.connection import Connection, Target
from edgepipe.rpc import shipping
from edgepipe.rpc.server import LocalServer

ROOT = "edgepipe"  # the deploy folder on the board


@contextlib.contextmanager
def open_board(host: str, *, ssh_config: Path | None = None, program: str = "") -> Iterator[int]:
    """Start the server on the board and yield the local port of a tunnel to it.

    ``program`` is its path on the board. If it is empty, the server that was built here for the
    board is uploaded, unless the board already has it. ssh uses its own configuration. Server and
    tunnel end with the block. The server also ends when the connection is lost, because it stops at
    the end of its standard input. Raises ``RpcError`` if the server does not start, ``DeployError``
    if the board cannot be reached.
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
