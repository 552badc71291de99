"""TVM's RPC tracker: which boards it has, and requests for one of them by the name of their kind.

    tracker = Tracker.at("lab:9190", timeout_s=60)
    tracker.kinds()            # {"ultra96": Kind(boards=3, free=1, waiting=0)}
    tracker.assign("ultra96")  # host, port and key of a board, which serves one session with it

The protocol is that of ``tvm/rpc/tracker.py`` (TVM 0.27): after a magic number, texts of JSON, each
behind its length. A board's own half, which offers it there, is ``cpp_runtime/rpc/tracker.h``.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from edgepipe import tvm_adapter
from edgepipe.errors import RpcError

_ADDRESS = re.compile(r"(?P<host>[^:\s]+):(?P<port>[0-9]{1,5})")
_GREETING_S = 1.0  # of the first connection, and longer of each next one
_ANSWER_S = 10.0  # for all answers but that to a request, which may wait for a board
_MAGIC = 0x2F271
_SUCCESS, _REQUEST, _SUMMARY = 0, 4, 6
_MOST_BYTES = 1 << 24
_QUEUE = 4096  # connections that wait to be accepted
_SERVER = "server:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The boards that a tracker has under one name.

    ``free`` of them wait for a client, and ``waiting`` clients for a board. A tracker counts a
    client that has gone until its turn comes.
    """

    boards: int = 0
    free: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """The board that a tracker sends a client to, and the key for one session there."""

    host: str
    port: int
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracker:
    """A tracker at an address; a request for a board waits up to ``timeout_s``."""

    host: str
    port: int
    timeout_s: float = _ANSWER_S

    @classmethod
    def at(cls, address: str, timeout_s: float = _ANSWER_S) -> Self:
        """Return the tracker at ``HOST:PORT``. Raises ``RpcError`` for another text."""
        host, port = tracker_address(address)
        return cls(host=host, port=port, timeout_s=timeout_s)

    def __str__(self) -> str:
        return f"RPC tracker {self.host}:{self.port}"

    def kinds(self) -> dict[str, Kind]:
        """Return what the tracker has, by name. Raises ``RpcError`` if it does not answer."""
        with self._connected() as connection:
            return _kinds(self._answer(connection, [_SUMMARY], _ANSWER_S))

    def require(self, key: str) -> Kind:
        """Return the boards named ``key``.

        Raises ``RpcError`` if there are none, with the names that the tracker has, and if it does
        not answer.
        """
        kinds = self.kinds()
        found = kinds.get(key, Kind())
        if not found.boards:
            raise self._unknown(key, kinds)
        return found

    def assign(self, key: str) -> Assigned:
        """Wait for a free board named ``key``, and return where it is.

        Raises ``RpcError`` if the tracker does not answer, or if no board is free in time: because
        there is none with that name, or because others use or wait for all of them.
        """
        with self._connected() as connection:
            try:
                found = self._answer(connection, [_REQUEST, key, "", 1], self.timeout_s)
            except TimeoutError:
                kinds = self.kinds()  # while the own request still waits there
                kind = kinds.get(key, Kind())
                if not kind.boards:
                    raise self._unknown(key, kinds) from None
                raise self._busy(key, kind) from None
        return Assigned(host=str(found[0]), port=int(found[1]), key=str(found[2]))

    @contextlib.contextmanager
    def _connected(self) -> Iterator[socket.socket]:
        """Yield a connection that both sides have greeted.

        TVM's tracker lets one connection wait to be accepted. Of many that come at once, the kernel
        drops some that the client takes for open, so a silent one is given up and made again.
        """
        end = time.monotonic() + max(_ANSWER_S, self.timeout_s)  # a busy tracker is late
        greeting_s = _GREETING_S
        connection = None
        while connection is None:
            left_s = max(end - time.monotonic(), 0.001)
            try:
                connection = self._greeted(min(greeting_s, left_s), left_s)
            except TimeoutError:
                if time.monotonic() > end:
                    raise self._silent("timed out") from None
                greeting_s *= random.uniform(1.5, 2.5)  # not all clients again at once
            except OSError as cause:
                raise self._silent(cause.strerror or str(cause)) from cause
        with connection:
            yield connection

    def _greeted(self, greeting_s: float, connecting_s: float) -> socket.socket:
        """Return a new connection. Raises OSError, and ``RpcError`` for what is no tracker."""
        connection = socket.create_connection((self.host, self.port), timeout=connecting_s)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(greeting_s)
            connection.sendall(struct.pack("<i", _MAGIC))
            (magic,) = struct.unpack("<i", _received(connection, 4))
            if magic != _MAGIC:
                raise self._silent("it is not an RPC tracker")
        except BaseException:
            connection.close()
            raise
        return connection

    def _answer(self, connection: socket.socket, question: list[Any], timeout_s: float) -> Any:
        """Return the answer to a question.

        Raises ``RpcError``, and ``TimeoutError`` if a request is not answered in time.
        """
        text = json.dumps(question).encode()
        try:
            connection.settimeout(timeout_s)
            connection.sendall(struct.pack("<i", len(text)) + text)
            (length,) = struct.unpack("<i", _received(connection, 4))
            code, found = json.loads(_received(connection, min(length, _MOST_BYTES)))
        except TimeoutError:
            if question[0] == _REQUEST:
                raise
            raise self._silent(f"nothing within {timeout_s:g} s") from None
        except OSError as cause:
            raise self._silent(cause.strerror or str(cause)) from cause
        except (TypeError, ValueError) as cause:
            raise self._silent("its answer is not one of an RPC tracker") from cause
        if code != _SUCCESS:
            raise self._silent(f"it says {found!r}")
        return found

    def _silent(self, reason: str) -> RpcError:
        return RpcError(
            f"{self}: does not answer ({reason})",
            hint="start one there with `edgepipe rpc tracker`, or correct its address",
        )

    def _unknown(self, key: str, kinds: Mapping[str, Kind]) -> RpcError:
        has = ", ".join(
            f"{name} ({kind.boards})" for name, kind in sorted(kinds.items()) if kind.boards
        )
        return RpcError(
            f"{self}: no board offers itself as {key!r}; "
            + (f"it has {has}" if has else "it has no boards at all"),
            hint="offer boards with `edgepipe rpc offer`, or correct the name",
        )

    def _busy(self, key: str, kind: Kind) -> RpcError:
        others = kind.waiting - 1
        queue = f"{others} other client{'s' * (others != 1)} wait{'s' * (others == 1)}"
        boards = "its board" if kind.boards == 1 else f"none of its {kind.boards} boards"
        free = "is not" if kind.boards == 1 else "is"
        return RpcError(
            f"{self}: {boards} {key!r} {free} free after {self.timeout_s:g} s; "
            f"{queue if others > 0 else 'no other client waits'}",
            hint="wait longer, or offer more boards with `edgepipe rpc offer`",
        )


@contextlib.contextmanager
def serving(port: int) -> Iterator[int]:
    """Run a tracker on 127.0.0.1 for the block and yield its port; 0: any free port.

    It is TVM's own, with a queue long enough for a whole farm's connections. Its thread ends with
    the process. Raises ``RpcError`` if the port is in use.
    """
    try:
        listener = socket.create_server(("127.0.0.1", port), backlog=_QUEUE)
    except OSError as cause:
        raise RpcError(
            f"127.0.0.1:{port}: a tracker cannot listen there ({cause.strerror})",
            hint="stop the program that uses the port, or choose another one",
            option="port",
            value="N",
        ) from cause
    threading.Thread(
        target=tvm_adapter.serve_rpc_tracker, args=(listener,), name="rpc-tracker", daemon=True
    ).start()
    yield int(listener.getsockname()[1])


def tracker_address(text: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``; raise ``RpcError`` for another text."""
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found["port"]) < 1 << 16:
        raise RpcError(
            f"tracker: found {text!r}, expected HOST:PORT",
            hint="give the address that the tracker prints, such as 127.0.0.1:9190",
        )
    return found["host"], int(found["port"])


def _received(connection: socket.socket, count: int) -> bytes:
    """Return ``count`` bytes. Raises OSError, also for the connection's end."""
    found = bytearray()
    while len(found) < count:
        part = connection.recv(count - len(found))
        if not part:
            raise ConnectionError("it has closed the connection")
        found += part
    return bytes(found)


def _kinds(summary: Mapping[str, Any]) -> dict[str, Kind]:
    """Return the kinds in a tracker's summary; those without boards and clients are left out."""
    boards: dict[str, int] = {}
    for each in summary["server_info"]:
        name = str(each.get("key", "")).removeprefix(_SERVER)
        boards[name] = boards.get(name, 0) + 1
    queues: Mapping[str, Mapping[str, int]] = summary["queue_info"]
    kinds = {
        name: Kind(
            boards=boards.get(name, 0),
            free=int(queues.get(name, {}).get("free", 0)),
            waiting=int(queues.get(name, {}).get("pending", 0)),
        )
        for name in sorted(boards.keys() | queues.keys())
    }
    return {name: kind for name, kind in kinds.items() if kind != Kind()}
