"""Readers of the live page as plain sockets, many in one thread, for tests and the benchmark."""

from __future__ import annotations

import re
import selectors
import socket
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

EVENTS = b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
PICTURE = b"GET /picture/%d HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
STALLED_BUFFER_BYTES = 2048
FRAME = re.compile(rb'data: \{"frame": ?(\d+)')


def connect(url: str, request: bytes = b"", receive_bytes: int = 0) -> socket.socket:
    """Connect to a page and send a request, optionally with a small receive buffer."""
    address = urlsplit(url)
    made = socket.socket()
    if receive_bytes:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    made.settimeout(60)
    made.connect((address.hostname, address.port))
    made.sendall(request)
    return made


def status_of(url: str, request: bytes) -> int:
    """Return the status code of the answer to a request, 0 if the connection is closed instead."""
    with connect(url, request) as made:
        try:
            line = made.recv(4096).split(b"\r\n")[0]
        except ConnectionResetError:
            return 0
    return int(line.split()[1]) if line else 0


class Readers:
    """Readers of /events that read everything and keep only counts.

    Each index in ``viewers`` has a second connection, for the picture of each of its results.
    """

    def __init__(self, sockets: list[socket.socket], viewers: dict[int, socket.socket]) -> None:
        self.results = [0] * len(sockets)
        self.statistics = [0] * len(sockets)
        self.pictures_bytes = 0
        self._tails = [b""] * len(sockets)
        self._viewers = viewers
        self._selector = selectors.DefaultSelector()
        for index, made in [*enumerate(sockets), *((-1, made) for made in viewers.values())]:
            made.setblocking(False)
            self._selector.register(made, selectors.EVENT_READ, (index, made))

    def read_until(self, condition: Callable[[], bool], limit_s: float = 120) -> None:
        """Read until a condition is met."""
        end = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < end, (self.results, self.statistics)
            for key, _ in self._selector.select(0.1):
                index, made = key.data
                piece = made.recv(65536)
                assert piece, "the page has closed a reader"
                if index < 0:
                    self.pictures_bytes += len(piece)
                else:
                    self._take(index, piece)

    def _take(self, index: int, piece: bytes) -> None:
        *lines, self._tails[index] = (self._tails[index] + piece).split(b"\n")
        self.results[index] += lines.count(b"event: result")
        self.statistics[index] += lines.count(b"event: statistics")
        if index not in self._viewers:
            return
        frames = [int(found[1]) for found in map(FRAME.match, lines) if found]
        self._viewers[index].sendall(b"".join(PICTURE % frame for frame in frames))


@contextmanager
def reading(url: str, count: int, pictures: Collection[int] = ()) -> Iterator[Readers]:
    """Yield that many readers of a page's events; those in ``pictures`` take pictures too."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(connect(url, EVENTS)) for _ in range(count)]
        yield Readers(sockets, {index: stack.enter_context(connect(url)) for index in pictures})
