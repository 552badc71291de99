"""``edgepipe rpc boards`` and ``edgepipe rpc run --tracker``, with a real tracker and boards."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import EDGEPIPE, assert_fails, run
from needs import rpcd
from small_networks import build_small_bundle
from tvm.rpc.tracker import Tracker

from edgepipe import rpc
from edgepipe.rpc.link import RpcServer
from edgepipe.rpc.tracker import tracker_address

pytestmark = pytest.mark.sim


@pytest.fixture(scope="module")
def tracker() -> Iterator[str]:
    running = Tracker(host="127.0.0.1", port=19610, port_end=19690)
    yield f"127.0.0.1:{running.port}"
    running.terminate()


@pytest.fixture(scope="module")
def board(tracker: str) -> Iterator[rpc.LocalServer]:
    options = ["--tracker", tracker, "--key", "u96"]
    with rpc.LocalServer.start(rpcd(), options, allow_root=True) as running:
        with rpc.Place.at_server(rpc_server(tracker)).open():
            pass  # the tracker has it
        yield running


def rpc_server(tracker: str) -> RpcServer:
    port = int(tracker.rpartition(":")[2])
    return RpcServer(port=port, key="u96", tracker=True)


def test_boards_are_listed_by_their_names(
    tracker: str, board: rpc.LocalServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with rpc.Place.at_tracker(tracker, "u96").open():
        assert run("rpc", "boards", "--tracker", tracker, "--json") == 0
        assert json.loads(capsys.readouterr().out) == {
            "u96": {"boards": 1, "free": 0, "waiting": 0}
        }
        assert run("rpc", "boards", "--tracker", tracker) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("  ")[0] == "key"
    assert lines[-1].split() == ["u96", "1", "0", "0"]


def test_a_bundle_runs_on_a_board_that_the_tracker_hands_out(
    tracker: str, board: rpc.LocalServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = build_small_bundle(tmp_path)
    assert run("rpc", "run", bundle, "--repeat", "2", "--tracker", tracker, "--key", "u96") == 0
    assert "golden output bit-equal" in capsys.readouterr().out
    assert board.log.count("begins") >= 2


def test_a_board_of_a_tracker_needs_both_address_and_name(
    tracker: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--tracker", tracker)
    lacking = (where, ("--key", "u96"), ("--wait", "5"))
    for more in (*lacking, (*where, "--key", "u96", "--host", "door")):
        assert_fails(
            capsys, run("rpc", "run", tmp_path / "net.edgepipe", *more),
            "--tracker, --key and --wait are for a board of a tracker: expected the first two, "
            "and no --host",
            "add --tracker HOST:PORT --key NAME, or name one board with --host",
        )  # fmt: skip


def test_a_tracker_runs_until_its_input_ends_and_takes_many_clients_at_once() -> None:
    command = [*EDGEPIPE, "rpc", "tracker", "--port", "0"]
    with subprocess.Popen(
        command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        said, _, address = process.stdout.readline().strip().rpartition(" ")
        assert said == "tracker at"
        host, port = tracker_address(address)
        clients = [socket.create_connection((host, port)) for _ in range(200)]
        for client in clients:
            client.settimeout(60)
            client.sendall(b"\x71\xf2\x02\x00")
        assert {client.recv(4) for client in clients} == {b"\x71\xf2\x02\x00"}
        for client in clients:
            client.close()
        options = ["--tracker", address, "--key", "u96"]
        with (
            rpc.LocalServer.start(rpcd(), options, allow_root=True),
            rpc.Place.at_server(rpc_server(address)).open() as session,
        ):
            assert session.info()["cores"] >= 1
        process.communicate("")
    assert process.returncode == 0


def test_a_port_that_is_taken_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert_fails(
            capsys, run("rpc", "tracker", "--port", port),
            f"127.0.0.1:{port}: a tracker cannot listen there (Address already in use",
            "stop the program that uses the port, or choose another one: --port N",
        )  # fmt: skip


def test_a_tracker_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert_fails(
        capsys, run("rpc", "boards", "--tracker", "127.0.0.1:1"),
        "RPC tracker 127.0.0.1:1: does not answer (Connection refused)",
        "start one there with `edgepipe rpc tracker`, or correct its address",
    )  # fmt: skip
