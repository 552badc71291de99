"""Ports on 127.0.0.1 for programs that do not choose one themselves."""

from __future__ import annotations

import contextlib
import random
import socket
import time

# Below those that the kernel gives to connections and to servers on port 0: between the choice and
# the start of the program, nothing else takes such a port.
_RANGE = range(10_000, 32_000)


def free_port() -> int:
    """Return a port on which nothing listens."""
    while True:
        port = random.SystemRandom().choice(_RANGE)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def wait_for(port: int, limit_s: float = 60) -> None:
    """Wait until something listens on a port."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.02)
    raise TimeoutError(f"nothing listens on port {port}")
