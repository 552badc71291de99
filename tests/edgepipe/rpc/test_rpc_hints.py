"""The hints of RPC sessions' errors, each checked by its text."""

from __future__ import annotations

import functools
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import provoked_hints
import pytest
from needs import rpcd
from provoked_hints import hint_in_child

from edgepipe import resources, rpc
from edgepipe.errors import RpcError
from edgepipe.rpc import server as rpc_server
from edgepipe.rpc.link import Link, RpcServer

pytestmark = pytest.mark.sim

hint_of = functools.partial(provoked_hints.hint_of, error=RpcError)


@pytest.fixture(scope="module")
def server() -> Iterator[rpc.LocalServer]:
    with rpc.LocalServer.start(rpcd(), allow_root=True) as running:
        yield running


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


def test_a_server_that_does_not_listen() -> None:
    port = closed_port()
    assert hint_of(lambda: rpc.connect(port, key="x")) == (
        "check that edgepipe-rpcd is running there with the same key; through SSH, sshd on the "
        "board must forward ports (AllowTcpForwarding yes)"
    )
    assert hint_of(lambda: Link(RpcServer(port=port, key="x"))) == (
        "check that the server is running there with the same key, and is free"
    )


def test_a_program_that_does_not_start(tmp_path: Path) -> None:
    for program in (tmp_path / "none", Path("/bin/true")):
        assert hint_of(lambda program=program: rpc.LocalServer.start(program, allow_root=True)) == (
            "check that edgepipe-rpcd of this version is there, or name another"
        )


def logged(server: rpc.LocalServer, text: str) -> str:
    """Wait until the server's log has the text; return the log."""
    end = time.monotonic() + 20
    while text not in server.log:
        assert time.monotonic() < end, server.log
        time.sleep(0.01)
    return server.log


def test_a_tracker_that_does_not_listen() -> None:
    address = f"127.0.0.1:{closed_port()}"
    options = ("--tracker", address, "--key", "u96")
    with rpc.LocalServer.start(rpcd(), options, allow_root=True) as running:
        log = logged(running, "hint: ")
    assert f"tracker: {address}: cannot connect: Connection refused\n" in log
    assert "hint: check that the tracker runs at that address\n" in log


def test_a_folder_for_sessions_that_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    options = ("--folder", str(folder))
    with rpc.LocalServer.start(rpcd(), options, allow_root=True) as running:
        folder.rmdir()
        with pytest.raises(RpcError):
            rpc.connect(running.port, key=running.key).info()
        log = logged(running, "hint: ")
    assert f"{folder}/edgepipe-rpc-" in log
    assert ": cannot be created: No such file or directory\n" in log
    assert "hint: choose another folder, or free some space\n" in log


def test_a_program_that_was_not_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(resources, "folder", lambda name: tmp_path / name)
    monkeypatch.setattr(rpc_server.sysconfig, "get_path", lambda name: str(tmp_path))
    assert hint_of(rpc.find_program) == (
        "it is built only if TVM's runtime libraries are installed: install edgepipe again"
    )


def test_a_bundle_runs_at_least_once(server: rpc.LocalServer, tmp_path: Path) -> None:
    with rpc.connect(server.port, key=server.key) as session:
        assert hint_of(lambda: session.run_golden(tmp_path, repeat=0)) == "run it at least once"


def test_a_closed_session_is_opened_again(server: rpc.LocalServer) -> None:
    with rpc.connect(server.port, key=server.key) as session:
        session.info()
    assert hint_of(session.info) == "connect again"


def test_a_forked_child_opens_its_own_session(server: rpc.LocalServer) -> None:
    with rpc.connect(server.port, key=server.key) as session:
        assert hint_in_child(session.info) == "connect in the process that uses the session"
