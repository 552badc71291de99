"""Questions to TVM's tracker, with real boards of several kinds, and what is wrong with them."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from needs import rpcd
from tvm.rpc import base
from tvm.rpc.tracker import Tracker as TvmTracker

from edgepipe.errors import RpcError
from edgepipe.rpc import tracker as protocol
from edgepipe.rpc.link import RpcServer
from edgepipe.rpc.place import Place
from edgepipe.rpc.server import LocalServer
from edgepipe.rpc.tracker import Kind, Tracker, tracker_address

pytestmark = pytest.mark.sim

GREETING = struct.pack("<i", base.RPC_TRACKER_MAGIC)
START = "start one there with `edgepipe rpc tracker`, or correct its address"
OFFER = "offer boards with `edgepipe rpc offer`, or correct the name"
LONGER = "wait longer, or offer more boards with `edgepipe rpc offer`"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    running = TvmTracker(host="127.0.0.1", port=19810, port_end=19890)
    yield running.port
    running.terminate()


def offered(port: int, key: str) -> LocalServer:
    options = ["--tracker", f"127.0.0.1:{port}", "--key", key]
    return LocalServer.start(rpcd(), options, allow_root=True)


def at(port: int, timeout_s: float = 30.0) -> Tracker:
    return Tracker(host="127.0.0.1", port=port, timeout_s=timeout_s)


def free(port: int, key: str, count: int) -> None:
    """Wait until so many boards are free."""
    end = time.monotonic() + 30
    while at(port).kinds().get(key, Kind()).free != count:
        assert time.monotonic() < end
        time.sleep(0.02)


def failure(call: object, *arguments: object) -> tuple[str, str | None]:
    with pytest.raises(RpcError) as caught:
        call(*arguments)  # type: ignore[operator]
    return str(caught.value), caught.value.hint


def test_the_codes_are_those_of_tvm() -> None:
    assert protocol._MAGIC == base.RPC_TRACKER_MAGIC
    codes = base.TrackerCode
    assert (protocol._SUCCESS, protocol._REQUEST, protocol._SUMMARY) == (
        codes.SUCCESS,
        codes.REQUEST,
        codes.SUMMARY,
    )


def test_an_address_has_host_and_port() -> None:
    assert tracker_address("lab:9190") == ("lab", 9190)
    for text in ("lab", "lab:0", "lab:65536", ":9190", "lab:door", "", "two labs:9190"):
        said, hint = failure(Tracker.at, text)
        assert said == f"tracker: found {text!r}, expected HOST:PORT"
        assert hint == "give the address that the tracker prints, such as 127.0.0.1:9190"


def test_a_tracker_has_boards_by_kind_and_a_session_takes_one_of_them(port: int) -> None:
    with offered(port, "u96"), offered(port, "u96"), offered(port, "pynq"):
        free(port, "u96", 2)
        free(port, "pynq", 1)
        assert at(port).kinds() == {"u96": Kind(boards=2, free=2), "pynq": Kind(boards=1, free=1)}
        assert at(port).require("u96").boards == 2
        place = Place.at_tracker(f"127.0.0.1:{port}", "u96", wait_s=30)
        assert place.boards == 2
        with place.open() as first, place.open() as second:
            assert first.info()["process"] != second.info()["process"]
            assert at(port).kinds()["u96"] == Kind(boards=2, free=0)
        free(port, "u96", 2)
    assert at(port).kinds() == {}


def test_a_place_of_one_server_opens_sessions_there(port: int) -> None:
    with LocalServer.start(rpcd(), allow_root=True) as server:
        place = Place.at_server(RpcServer(port=server.port, key=server.key), wait_s=30)
        assert place.boards == 1
        with place.open() as session:
            assert session.info()["cores"] >= 1


def test_a_name_that_no_board_has_is_an_error_with_those_that_there_are(port: int) -> None:
    where = f"RPC tracker 127.0.0.1:{port}"
    said, hint = failure(at(port).require, "zynq")
    assert said == f"{where}: no board offers itself as 'zynq'; it has no boards at all"
    assert hint == OFFER
    with offered(port, "u96"), offered(port, "pynq"):
        free(port, "u96", 1)
        free(port, "pynq", 1)
        said, hint = failure(at(port).require, "zynq")
        assert said == f"{where}: no board offers itself as 'zynq'; it has pynq (1), u96 (1)"
        assert hint == OFFER
        said, hint = failure(at(port, 0.2).assign, "zynq")
        assert said == f"{where}: no board offers itself as 'zynq'; it has pynq (1), u96 (1)"
        assert hint == OFFER
        assert failure(Place.at_tracker, f"127.0.0.1:{port}", "zynq")[1] == OFFER


def test_boards_that_are_not_free_in_time_are_an_error_that_says_how_many_wait(port: int) -> None:
    with offered(port, "busy") as board:
        free(port, "busy", 1)
        with Place.at_tracker(f"127.0.0.1:{port}", "busy", wait_s=30).open() as session:
            assert session.info()["cores"] >= 1
            said, hint = failure(at(port, 0.2).assign, "busy")
            assert "its board 'busy' is not free after 0.2 s; no other client waits" in said
            assert hint == LONGER
            other = threading.Thread(target=at(port, 30).assign, args=("busy",))
            other.start()
            waiting = 2  # the one above counts until its turn
            end = time.monotonic() + 30
            while at(port).kinds()["busy"].waiting < waiting:
                assert time.monotonic() < end
                time.sleep(0.01)
            said, hint = failure(at(port, 0.2).assign, "busy")
            assert "its board 'busy' is not free after 0.2 s; 2 other clients wait" in said
            assert hint == LONGER
        other.join(timeout=30)
        assert not other.is_alive()
        with offered(port, "busy"):
            free(port, "busy", 1)
            with Place.at_tracker(f"127.0.0.1:{port}", "busy", wait_s=30).open():
                said, hint = failure(at(port, 0.2).assign, "busy")
                assert "none of its 2 boards 'busy' is free after 0.2 s" in said
                assert hint == LONGER
        assert "refused" not in board.log


def test_a_port_without_a_tracker_is_an_error_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    began = time.monotonic()
    said, hint = failure(at(port, 60).kinds)
    assert said == f"RPC tracker 127.0.0.1:{port}: does not answer (Connection refused)"
    assert hint == START
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "it is not an RPC tracker"),
        (b"", "it has closed the connection"),
        (GREETING + b"\x02\x00\x00\x00{}", "its answer is not one of an RPC tracker"),
        (GREETING + b"\x03\x00\x00\x00abc", "its answer is not one of an RPC tracker"),
        (GREETING + b"\x0e\x00\x00\x00[-1, ", "it has closed the connection"),
        (GREETING + b'\x0e\x00\x00\x00[-1, "closed"]', "it says 'closed'"),
    ],
)  # fmt: skip
def test_a_server_that_is_no_tracker_is_named(says: bytes, reason: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(says)
                # A client that knows enough has closed the connection.
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(1024):
                        pass

        thread = threading.Thread(target=answer)
        thread.start()
        said, hint = failure(at(port, 5).kinds)
        thread.join()
    assert said == f"RPC tracker 127.0.0.1:{port}: does not answer ({reason})"
    assert hint == START


def test_a_connection_that_the_tracker_did_not_accept_is_made_again(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TVM's tracker has a queue of one, so many clients at once lose connections."""
    monkeypatch.setattr(protocol, "_GREETING_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def pass_on_the_second() -> None:
            there = socket.create_connection(("127.0.0.1", port))
            with there, listener.accept()[0], listener.accept()[0] as client:
                client.sendall(exchanged(there, client.recv(4), 4))
                client.sendall(exchanged(there, client.recv(1024), 4))
                client.sendall(there.recv(1024))

        thread = threading.Thread(target=pass_on_the_second)
        thread.start()
        assert at(listener.getsockname()[1]).kinds() == at(port).kinds()
        thread.join()


def exchanged(there: socket.socket, text: bytes, count: int) -> bytes:
    there.sendall(text)
    return there.recv(count)


def test_a_tracker_that_says_nothing_is_an_error_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_ANSWER_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        said, hint = failure(at(port, 0.2).kinds)
    assert said == f"RPC tracker 127.0.0.1:{port}: does not answer (timed out)"
    assert hint == START
