"""Clients that wait for one board at TVM's tracker: the board serves each, and refuses none."""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from needs import rpcd
from tvm.rpc import base
from tvm.rpc.tracker import Tracker as TvmTracker

from edgepipe.rpc.link import Link, RpcServer
from edgepipe.rpc.server import LocalServer
from edgepipe.rpc.session import Session
from edgepipe.rpc.tracker import Assigned, Tracker

pytestmark = pytest.mark.sim

CLIENTS = 24
KEY = "u96"
PATIENCE_S = 240.0


@pytest.fixture
def tracker() -> Iterator[int]:
    """Return the port of a tracker."""
    running = TvmTracker(host="127.0.0.1", port=19710, port_end=19790)
    yield running.port
    running.terminate()


@pytest.fixture
def board(tracker: int) -> Iterator[LocalServer]:
    options = ["--tracker", f"127.0.0.1:{tracker}", "--key", KEY]
    with LocalServer.start(rpcd(), options, allow_root=True) as running:
        yield running


def at(tracker: int) -> RpcServer:
    return RpcServer(port=tracker, key=KEY, tracker=True, timeout_s=PATIENCE_S)


def serve(tracker: int) -> int:
    """Open a session with the board and return the process that serves it."""
    with Session(Link(at(tracker))) as session:
        return int(session.info()["process"])


def assigned(port: int) -> Assigned:
    """Let the tracker send a client to the board, which does not connect yet."""
    return Tracker(host="127.0.0.1", port=port, timeout_s=PATIENCE_S).assign(KEY)


def greeted(where: Assigned) -> bool:
    """Return whether the board accepts the client that has this key."""
    with socket.create_connection((where.host, where.port), timeout=PATIENCE_S) as client:
        client.sendall(struct.pack("<i", base.RPC_MAGIC))
        said = f"client:{where.key}".encode()
        client.sendall(struct.pack("<i", len(said)) + said)
        code: int = struct.unpack("<i", base.recvall(client, 4))[0]
        if code != base.RPC_MAGIC:
            return False
        # A client that leaves in the middle of the board's name was not served.
        base.recvall(client, struct.unpack("<i", base.recvall(client, 4))[0])
    return True


def test_every_client_that_waits_at_once_is_served(tracker: int, board: LocalServer) -> None:
    with ThreadPoolExecutor(CLIENTS) as threads:
        processes = list(threads.map(serve, [tracker] * CLIENTS))
    assert len(set(processes)) == CLIENTS
    assert "refused" not in board.log


def test_every_client_is_served_one_after_another(tracker: int, board: LocalServer) -> None:
    assert len({serve(tracker) for _ in range(CLIENTS)}) == CLIENTS
    assert "refused" not in board.log


def test_a_client_that_comes_late_is_served_although_the_next_one_was_offered(
    tracker: int, board: LocalServer
) -> None:
    late = assigned(tracker)
    next_one = assigned(tracker)  # the board offers itself again after some seconds
    assert late.key != next_one.key
    assert greeted(late)
    assert greeted(next_one)
    assert serve(tracker)
    assert "refused" not in board.log


def test_a_key_serves_one_session(tracker: int, board: LocalServer) -> None:
    where = assigned(tracker)
    assert greeted(where)
    assert not greeted(where)


def test_the_name_of_a_board_is_not_its_key_while_the_tracker_is_away() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        nowhere = f"127.0.0.1:{unused.getsockname()[1]}"
    options = ["--tracker", nowhere, "--key", KEY]
    with LocalServer.start(rpcd(), options, allow_root=True) as board:
        assert not greeted(Assigned(host="127.0.0.1", port=board.port, key=KEY))
        assert not greeted(Assigned(host="127.0.0.1", port=board.port, key=""))


def test_a_client_that_was_sent_before_the_tracker_died_is_served() -> None:
    tracker = TvmTracker(host="127.0.0.1", port=19710, port_end=19790)
    try:
        options = ["--tracker", f"127.0.0.1:{tracker.port}", "--key", KEY]
        with LocalServer.start(rpcd(), options, allow_root=True):
            where = assigned(tracker.port)
            tracker.terminate()
            time.sleep(3)  # longer than the board waits before it asks the tracker
            assert greeted(where)
    finally:
        tracker.terminate()


CLIENT = """
import sys, time
from edgepipe.rpc.link import Link, RpcServer
from edgepipe.rpc.session import Session
from edgepipe.rpc.tracker import Assigned, Tracker
at = RpcServer(port=int(sys.argv[1]), key=sys.argv[2], tracker=True, timeout_s=60)
with Session(Link(at)) as session:
    print(session.info()["process"], flush=True)
    time.sleep(600)
"""


def test_killed_clients_free_the_board_for_those_that_wait(
    tracker: int, board: LocalServer
) -> None:
    command = [sys.executable, "-c", CLIENT, str(tracker), KEY]
    clients = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    left = list(clients)
    try:
        while left:
            served = next_served(left)
            os.kill(served.pid, signal.SIGKILL)
            left.remove(served)
        assert serve(tracker)
    finally:
        for client in clients:
            client.kill()
            client.communicate()
    assert "refused" not in board.log


def next_served(clients: list[subprocess.Popen[str]]) -> subprocess.Popen[str]:
    """Wait until one of the clients has a session."""
    streams = [client.stdout for client in clients]
    ready, _, _ = select.select(streams, [], [], PATIENCE_S)
    assert ready
    (found,) = [client for client in clients if client.stdout is ready[0]]
    return found
