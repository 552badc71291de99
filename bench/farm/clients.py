"""Clients of a farm: thousands in one process, or processes of their own, which can be killed.

They speak TVM's protocols themselves, because TVM's client needs a thread for each session.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import random
import signal
import socket
import struct
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from edgepipe.rpc.tracker import Tracker

_TRACKER_MAGIC, _BOARD_MAGIC = 0x2F271, 0xFF271
_REQUEST = 4


@dataclass(slots=True)
class Result:
    """What clients that came at once got: their seconds until they had a session, and failures."""

    seconds: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    wrong_kind: int = 0
    took_s: float = 0.0

    def quantile(self, part: float) -> float:
        """Return the seconds that this part of the served clients did not exceed."""
        return sorted(self.seconds)[min(int(part * len(self.seconds)), len(self.seconds) - 1)]


def at_once(
    tracker: tuple[str, int], kinds: dict[str, set[int]], count: int, *, patience_s: float,
    hold_s: float,
) -> Result:  # fmt: skip
    """Let ``count`` clients ask at the same time, and each hold its board for a while.

    They ask for the kinds in proportion to the boards of each. A client fails if it has no session
    after ``patience_s``.
    """
    result = Result()

    async def all_of_them() -> None:
        boards = sorted((kind, port) for kind, ports in kinds.items() for port in ports)
        step = len(boards) / count
        names = [boards[int(number * step) % len(boards)][0] for number in range(count)]
        await asyncio.gather(*(client(name) for name in names))

    async def client(kind: str) -> None:
        began, steps = time.monotonic(), ["connecting to the tracker"]
        try:
            async with asyncio.timeout(patience_s):
                port, writer = await _session(tracker, kind, steps)
        except TimeoutError:
            result.failures[f"no answer within {patience_s:g} s: {steps[-1]}"] += 1
            return
        except (OSError, EOFError) as cause:
            result.failures[f"{type(cause).__name__}: {steps[-1]}"] += 1
            return
        result.seconds.append(time.monotonic() - began)
        result.wrong_kind += port not in kinds[kind]
        await asyncio.sleep(hold_s)
        writer.close()

    began = time.monotonic()
    asyncio.run(all_of_them())
    result.took_s = time.monotonic() - began
    return result


async def _session(
    tracker: tuple[str, int], kind: str, steps: list[str]
) -> tuple[int, asyncio.StreamWriter]:
    """Return a board's port and the stream of a session there; ``steps`` has what is at hand."""
    reader, writer = await _greeted(tracker, steps)
    try:
        steps.append("waiting at the tracker for a free board")
        writer.write(_text(json.dumps([_REQUEST, kind, "", 1])))
        (length,) = struct.unpack("<i", await reader.readexactly(4))
        _, (host, port, key) = json.loads(await reader.readexactly(length))
    finally:
        writer.close()
    steps.append("connecting to the board")
    reader, writer = await asyncio.open_connection(host, port)
    try:
        steps.append("waiting for the board's session")
        writer.write(struct.pack("<i", _BOARD_MAGIC) + _text(f"client:{key}"))
        (magic,) = struct.unpack("<i", await reader.readexactly(4))
        if magic != _BOARD_MAGIC:
            raise ConnectionRefusedError
        (length,) = struct.unpack("<i", await reader.readexactly(4))
        await reader.readexactly(length)
    except BaseException:
        writer.close()
        raise
    return int(port), writer


async def _greeted(
    tracker: tuple[str, int], steps: list[str]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the tracker as edgepipe's client does: again if it does not answer soon."""
    patience_s = 1.0
    while True:
        steps.append("connecting to the tracker")
        reader, writer = await asyncio.open_connection(*tracker)
        try:
            steps.append("greeting the tracker")
            async with asyncio.timeout(patience_s):
                writer.write(struct.pack("<i", _TRACKER_MAGIC))
                await reader.readexactly(4)
        except TimeoutError:
            writer.close()
            patience_s *= random.uniform(1.5, 2.5)
        except BaseException:
            writer.close()
            raise
        else:
            return reader, writer


def _text(text: str) -> bytes:
    return struct.pack("<i", len(text)) + text.encode()


def killed(tracker: Tracker, kind: str, count: int) -> None:
    """Start so many processes, wait until each has a session, and kill them."""
    context = multiprocessing.get_context("fork")
    ends = [context.Pipe(duplex=False) for _ in range(count)]
    clients = [
        context.Process(target=_hold, args=(tracker, kind, sending), daemon=True)
        for _, sending in ends
    ]
    for client in clients:
        client.start()
    for receiving, _ in ends:
        assert receiving.poll(60), "a client got no session"
        receiving.recv()
    for client in clients:
        assert client.pid is not None
        os.kill(client.pid, signal.SIGKILL)
    for client in clients:
        client.join()


def _hold(tracker: Tracker, kind: str, ready: Connection) -> None:
    at = tracker.assign(kind)
    with socket.create_connection((at.host, at.port)) as board:
        board.sendall(struct.pack("<i", _BOARD_MAGIC) + _text(f"client:{at.key}"))
        assert board.recv(4, socket.MSG_WAITALL) == struct.pack("<i", _BOARD_MAGIC)
        ready.send(True)
        time.sleep(600)
