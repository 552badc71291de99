"""Connect to a TVM RPC server, with a deadline, and find the socket of the session.

TVM's client waits without limit while a server serves another client, and it hides its socket. So a
thread connects, and the new socket is found among those that this process has open.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgepipe import tvm_adapter

_POLL_S = 0.002
_connecting = threading.Lock()  # so that another thread's new socket is not mistaken for this one


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A new session: TVM's ``RPCSession``, and its socket if it was found.

    ``socket`` is a duplicate, ``descriptor`` the number of TVM's own.
    """

    remote: Any
    socket: socket.socket | None = None
    descriptor: int = -1


def open_session(
    host: str, port: int, key: str, *, limit_s: float = 0.0, timeout_s: float | None = None
) -> Opened:
    """Open a session. An exception of a signal handler ends the wait for the server at once.

    The server ends the session after ``limit_s``, unless that is 0. The server has ``timeout_s`` to
    accept, and later to answer each call; None waits without limit. Raises ``TimeoutError`` and
    ``RPC_ERRORS``.
    """
    found: list[Any] = []

    def connect() -> None:
        try:
            found.append(tvm_adapter.connect_rpc(host, port, key, limit_s))
        except BaseException as cause:  # passed to the waiting thread
            found.append(cause)

    thread = threading.Thread(target=connect, name="rpc-connect", daemon=True)
    end = None if timeout_s is None else time.monotonic() + timeout_s
    own, descriptor = None, -1
    try:
        with _connecting:
            before = set(_sockets())
            thread.start()
            waiting = True
            while own is None and waiting:
                thread.join(_POLL_S)
                # Asked before the search: a thread may connect and end between any two lines.
                waiting = thread.is_alive() and (end is None or time.monotonic() < end)
                own, descriptor = _new_socket(before, port)
        thread.join(None if end is None else max(end - time.monotonic(), 0.0))
        if not found:
            raise TimeoutError(f"no answer within {timeout_s:g} s")
        if isinstance(found[0], BaseException):
            raise found[0]
    except BaseException:
        if own is not None:
            with contextlib.suppress(OSError):
                own.shutdown(socket.SHUT_RDWR)  # ends the thread
            own.close()
        raise
    if own is not None and timeout_s is not None:
        limit_answers(own, timeout_s)
    return Opened(remote=found[0], socket=own, descriptor=descriptor)


def limit_answers(end: socket.socket, timeout_s: float) -> None:
    """Make TVM's reads and writes of a session fail after ``timeout_s``."""
    seconds, fraction = divmod(timeout_s, 1)
    limit = struct.pack("ll", int(seconds), int(fraction * 1e6))
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        end.setsockopt(socket.SOL_SOCKET, option, limit)


def _new_socket(before: set[str], port: int) -> tuple[socket.socket | None, int]:
    """Return a duplicate of the new socket connected to ``port``, and TVM's descriptor of it."""
    for inode, number in _sockets().items():
        if inode in before:
            continue
        with contextlib.suppress(OSError):
            end = socket.socket(fileno=os.dup(number))
            with contextlib.suppress(OSError):
                if end.getpeername()[1] == port:
                    return end, number
            end.close()
    return None, -1


def _sockets() -> dict[str, int]:
    """Return the descriptors of this process's sockets by their identity."""
    return dict(_each_socket())


def _each_socket() -> Iterator[tuple[str, int]]:
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the listing's own descriptor is closed by now
            target = str(path.readlink())
            if target.startswith("socket:"):
                yield target, int(path.name)


def _renew_lock() -> None:
    global _connecting
    _connecting = threading.Lock()  # a thread of the parent may have held it


os.register_at_fork(after_in_child=_renew_lock)
