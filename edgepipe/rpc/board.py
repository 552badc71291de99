"""A server on a board, reached over SSH: started with one session, tunnelled with another."""

from __future__ import annotations

import contextlib
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path

from edgepipe.deploy.connection import Connection, Target
from edgepipe.rpc.server import PROGRAM, LocalServer


@contextlib.contextmanager
def open_board(
    host: str, *, ssh_config: Path | None = None, program: str = PROGRAM
) -> Iterator[int]:
    """Start ``program`` on the board and yield the local port of a tunnel to it.

    ssh's own configuration is honoured. Server and tunnel end with the block, and the server also
    when the link is lost: it stops at the end of its standard input. Raises ``RpcError``
    when the server does not start, ``DeployError`` when the board cannot be reached.
    """
    with Connection(Target(host=host, root="edgepipe", ssh_config=ssh_config)) as connection:
        command = f"exec {shlex.quote(program)} --until-eof"
        with LocalServer(connection.session_command(command)) as server:
            port = _free_port()
            connection.forward(port, server.port)
            yield port


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
