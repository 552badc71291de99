"""A server on a board over SSH: one SSH session starts it, another one is the tunnel."""

from __future__ import annotations

import contextlib
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path

from edgepipe.deploy.connection import Connection, Target
from edgepipe.rpc import shipping
from edgepipe.rpc.link import RpcServer
from edgepipe.rpc.server import LocalServer

ROOT = "edgepipe"  # the deploy folder on the board


@contextlib.contextmanager
def open_board(
    host: str, *, ssh_config: Path | None = None, program: str = "", allow_root: bool = False
) -> Iterator[RpcServer]:
    """Start the server on the board and yield its address: this end of a tunnel, and its key.

    ``program`` is its path on the board. If it is empty, the server that was built here for the
    board is uploaded, unless the board already has it. ssh uses its own configuration. Server and
    tunnel end with the block. The server also ends when the connection is lost, because it stops at
    the end of its standard input. It does not run as root, unless ``allow_root``. Only clients with
    its key, which is random and travels over SSH alone, get a session. Raises ``RpcError`` if the
    server does not start, ``DeployError`` if the board cannot be reached.
    """
    target = Target(host=host, root=ROOT, ssh_config=ssh_config)
    with Connection(target, script=shipping.BOARD_SIDE) as connection:
        program = program or shipping.ship(connection)
        root = " --allow-root" if allow_root else ""
        command = f"exec {shlex.quote(program)} --until-eof{root}"
        with LocalServer(connection.session_command(command)) as server:
            port = _free_port()
            connection.forward(port, server.port)
            yield RpcServer(port=port, key=server.key)


@contextlib.contextmanager
def offer_board(
    host: str,
    tracker: tuple[str, int],
    key: str,
    *,
    ssh_config: Path | None = None,
    program: str = "",
    allow_root: bool = False,
) -> Iterator[LocalServer]:
    """Offer the board to the clients of a TVM RPC tracker as ``key``, until the block ends.

    ``tracker`` is its host and port as this machine reaches it. The other arguments are those of
    ``open_board``. The board reaches the tracker, and clients reach the board, through tunnels of
    this machine, so clients must run here. Raises ``RpcError`` if the server does not start,
    ``DeployError`` if the board cannot be reached or refuses a tunnel.
    """
    target = Target(host=host, root=ROOT, ssh_config=ssh_config)
    with Connection(target, script=shipping.BOARD_SIDE) as connection:
        program = program or shipping.ship(connection)
        near = _free_port()
        far = connection.forward_back(*tracker)
        options = ["--until-eof", *(["--allow-root"] if allow_root else [])]
        options += ["--tracker", f"127.0.0.1:{far}", "--key", key]
        options += ["--advertise", f"127.0.0.1:{near}"]
        command = f"exec {shlex.join([program, *options])}"
        with LocalServer(connection.session_command(command)) as server:
            connection.forward(near, server.port)
            yield server


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
