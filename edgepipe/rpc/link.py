"""A session with any TVM RPC server: the server's address, and deadlines for its answers."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field

from edgepipe import tvm_adapter
from edgepipe.errors import RpcError
from edgepipe.rpc.connecting import open_session
from edgepipe.rpc.exchange import Exchange
from edgepipe.rpc.failures import last_line
from edgepipe.rpc.tracker import Tracker


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcServer:
    """Where a TVM RPC server is: ``tvm.exec.rpc_server``, ``edgepipe-rpcd``, or a tracker's.

    ``key`` is what the server expects: ``edgepipe-rpcd`` prints it, TVM's own has none unless it
    was started with one. With ``tracker``, host and port are those of a TVM RPC tracker, which
    assigns a server with ``key``. ``timeout_s`` is how long the server may take to answer: when
    connecting, and for each frame or file.
    """

    port: int
    host: str = "127.0.0.1"
    key: str = field(repr=False)
    tracker: bool = False
    timeout_s: float = 10.0

    def __str__(self) -> str:
        what = f"RPC tracker's {self.key!r}" if self.tracker else "RPC server"
        return f"{what} {self.host}:{self.port}"


class Link(Exchange):
    """An open session with a server; every answer has a deadline."""

    def __init__(self, server: RpcServer) -> None:
        """Connect. Raises ``RpcError``, also if the server does not answer in time."""
        self.server = server
        host, port, key = server.host, server.port, server.key
        if server.tracker:
            at = Tracker(host=host, port=port, timeout_s=server.timeout_s).assign(key)
            host, port, key = at.host, at.port, at.key
        try:
            opened = open_session(host, port, key, timeout_s=server.timeout_s)
        except (OSError, *tvm_adapter.RPC_ERRORS) as cause:
            raise RpcError(
                f"{server}: no session ({last_line(cause)})",
                hint="check that the server is running there with the same key, and is free",
            ) from cause
        super().__init__(opened, f"{server}: the session")

    def error(self, cause: BaseException) -> RpcError:
        """Return the error of a failed call, with the reason in one line."""
        if isinstance(cause, RpcError):
            return cause
        text = last_line(cause)
        if os.strerror(errno.EAGAIN) in text:  # the deadline
            return RpcError(
                f"{self.server}: no answer within {self.server.timeout_s:g} s",
                hint="check that the server still runs and is free, or allow it more time",
            )
        return RpcError(f"{self.server}: {text}")
