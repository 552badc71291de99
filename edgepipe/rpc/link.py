"""A session with any TVM RPC server, with deadlines, that another thread can cut.

TVM's client waits for ever: for a server that serves somebody else, and for an answer. The deadline
is therefore set on its socket, which is found among this process's own.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgepipe import tvm_adapter
from edgepipe.errors import RpcError
from edgepipe.rpc.server import KEY
from edgepipe.runtime.library import status_failure

_connecting = threading.Lock()  # so that a new socket can be told from another thread's


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcServer:
    """Where a TVM RPC server is: ``tvm.exec.rpc_server``, ``edgepipe-rpcd``, or a tracker's.

    With ``tracker``, host and port are those of a TVM RPC tracker, which is asked for a server of
    ``key``. ``timeout_s`` is how long the server may stay silent: when connecting, and while one
    frame or one file is under way.
    """

    port: int
    host: str = "127.0.0.1"
    key: str = KEY
    tracker: bool = False
    timeout_s: float = 10.0

    def __str__(self) -> str:
        what = f"RPC tracker's {self.key!r}" if self.tracker else "RPC server"
        return f"{what} {self.host}:{self.port}"


class Link:
    """An open session; ``remote`` is TVM's ``RPCSession``. ``cut`` is for any thread."""

    def __init__(self, server: RpcServer) -> None:
        """Connect. Raises ``RpcError``, also when the server does not answer in time."""
        self.server = server
        self._socket: socket.socket | None = None
        host, port, key = server.host, server.port, server.key
        try:
            if server.tracker:
                host, port, key = tvm_adapter.ask_rpc_tracker(host, port, key, server.timeout_s)
            self.remote = self._connect(host, port, key)
        except (OSError, *tvm_adapter.RPC_ERRORS) as cause:
            raise RpcError(
                f"{server}: no session ({last_line(cause)})",
                hint="is the server at work there, with the same key, and free?",
            ) from cause

    def cut(self) -> None:
        """End the connection under whatever waits for it."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the session. Nothing uses it meanwhile."""
        with contextlib.suppress(*tvm_adapter.RPC_ERRORS):
            tvm_adapter.close_rpc(self.remote)
        if self._socket is not None:
            self._socket.close()

    def explain(self, cause: BaseException) -> str:
        """Return in one line why a call failed."""
        text = last_line(cause)
        if os.strerror(errno.EAGAIN) in text:  # the deadline set below
            text = f"no answer within {self.server.timeout_s:g} s"
        return f"{self.server}: {text}"

    def _connect(self, host: str, port: int, key: str) -> Any:
        found: list[Any] = []

        def connect() -> None:
            try:
                found.append(tvm_adapter.connect_rpc(host, port, key, 0.0))
            except BaseException as cause:  # handed over to the thread that waits
                found.append(cause)

        with _connecting:
            before = set(_sockets())
            thread = threading.Thread(target=connect, name="rpc-connect", daemon=True)
            thread.start()
            thread.join(self.server.timeout_s)
            new = [end for inode, end in _sockets().items() if inode not in before]
            self._socket = _take(new, port)
            if not found:
                self.cut()  # the thread ends with an error
                raise TimeoutError(f"no answer within {self.server.timeout_s:g} s")
        if isinstance(found[0], BaseException):
            raise found[0]
        if self._socket is not None:
            seconds, fraction = divmod(self.server.timeout_s, 1)
            limit = struct.pack("ll", int(seconds), int(fraction * 1e6))
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                self._socket.setsockopt(socket.SOL_SOCKET, option, limit)
        return found[0]


def last_line(cause: BaseException) -> str:
    """Return the message in TVM's text: that of a status, else the last line."""
    if found := status_failure(str(cause)):
        return str(found)
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    return lines[-1] if lines else type(cause).__name__


def _sockets() -> dict[str, int]:
    """Return the descriptors of this process's sockets by what tells them apart."""
    return dict(_each_socket())


def _each_socket() -> Iterator[tuple[str, int]]:
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the listing's own descriptor is gone by now
            target = str(path.readlink())
            if target.startswith("socket:"):
                yield target, int(path.name)


def _take(descriptors: list[int], port: int) -> socket.socket | None:
    """Return a handle of our own on the one that is connected to ``port``."""
    for number in descriptors:
        with contextlib.suppress(OSError):
            end = socket.socket(fileno=os.dup(number))
            with contextlib.suppress(OSError):
                if end.getpeername()[1] == port:
                    return end
            end.close()
    return None
