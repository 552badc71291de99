"""RPC sessions when a call is interrupted, the server is lost, or the process forks."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from interrupts import Storm, assert_interrupted_soon, interrupted, paused
from needs import rpcd

from edgepipe import boards, rpc
from edgepipe.errors import RpcError

pytestmark = pytest.mark.sim


@pytest.fixture(scope="module")
def server() -> Iterator[rpc.LocalServer]:
    with rpc.LocalServer.start(rpcd(), allow_root=True) as running:
        yield running


@pytest.fixture
def session(server: rpc.LocalServer) -> Iterator[rpc.Session]:
    with rpc.connect(server.port, key=server.key) as opened:
        yield opened


def test_an_interrupted_call_leaves_the_next_calls_their_own_answers(session):
    process = session.info()["process"]
    with paused(process), interrupted():
        session.info()
    board = boards.load("ultra96").accelerator
    accelerators = [dataclasses.replace(board, revision=found) for found in ("0.0.1", "0.0.2")]
    texts = [json.dumps(dataclasses.asdict(accelerator)) for accelerator in accelerators]
    answers = [session.call("edgepipe.describe_accelerator", text) for text in texts]
    assert len(set(answers)) == 2
    assert session.info()["process"] == process


def test_an_interrupted_call_ends_within_50_ms(session):
    process = session.info()["process"]
    with paused(process):
        assert_interrupted_soon(session.info)
    assert session.info()["process"] == process


def test_an_interrupt_at_any_moment_of_a_call_is_raised_as_itself(session):
    storm = Storm()
    with storm.raging():
        for _ in storm.rounds(100, interrupts=100):
            storm(lambda: session.exchange.call(time.sleep, 0), longest_s=0.0002)
    assert session.info()["process"] > 0


def test_an_interrupted_upload_leaves_the_session_usable(session, tmp_path):
    process = session.info()["process"]
    large = tmp_path / "folder" / "large"
    large.parent.mkdir()
    large.write_bytes(bytes(16 << 20))
    with paused(process), interrupted():
        session.upload_folder(large.parent, "uploaded")
    assert session.info()["process"] == process


def test_a_wait_for_a_server_that_is_busy_is_interrupted(server, session):
    with interrupted():
        rpc.connect(server.port, key=server.key)
    assert session.info()["process"] > 0
    session.close()
    with rpc.connect(server.port, key=server.key) as following:
        assert following.info()["process"] > 0


def test_a_session_ends_soon_though_an_interrupted_call_never_does(server):
    session = rpc.connect(server.port, key=server.key)
    with paused(session.info()["process"]):
        with interrupted():
            session.info()
        begun = time.monotonic()
        session.close()
        assert time.monotonic() - begun < 5
    with rpc.connect(server.port, key=server.key) as following:
        assert following.info()["process"] > 0


# How TVM reports a connection that ended. Code 1 is the last message of a server that ends cleanly.
_CUT = "(reset|pipe|code=1)"


def test_a_session_that_has_lost_its_server_says_so_on_every_later_call(session):
    os.kill(session.info()["process"], signal.SIGKILL)
    with pytest.raises(RpcError, match=rf"RPC: .*{_CUT}"):
        session.info()
    for _ in range(2):
        with pytest.raises(RpcError, match=rf"the RPC session is broken: .*{_CUT}") as caught:
            session.info()
        assert caught.value.hint == "close it and connect again"


def test_an_error_of_the_server_does_not_break_the_session(session):
    with pytest.raises(RpcError, match=r"nofile: no such bundle"):
        session.call("edgepipe.open_bundle", "nofile", "auto")
    with pytest.raises(RpcError, match=r"has no function 'edgepipe\.nonsense'"):
        session.call("edgepipe.nonsense")
    assert session.info()["process"] > 0


def test_a_call_of_tvms_own_client_cut_in_half_is_noticed(session):
    info = session.remote.get_function("edgepipe.info")
    with paused(session.info()["process"]), interrupted():
        info()
    end = time.monotonic() + 60
    while not session.exchange._waiting_bytes():  # the answer that nothing waits for
        assert time.monotonic() < end
        time.sleep(0.01)
    with pytest.raises(RpcError, match="the RPC session is broken: found an answer"):
        session.info()


def test_a_forked_child_neither_uses_nor_ends_the_session(session):
    process = session.info()["process"]
    child = os.fork()
    if child == 0:
        code = 1
        try:
            session.info()
        except RpcError as error:
            code = 0 if f"belongs to process {os.getppid()}" in str(error) else 2
        session.close()
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert session.info()["process"] == process


def test_a_forked_child_keeps_a_file_that_has_a_closed_sessions_number(server):
    session = rpc.connect(server.port, key=server.key)
    number = session.exchange._descriptor
    assert number >= 0
    reader, writer = os.pipe()
    session.close()
    os.dup2(writer, number)
    if (child := os.fork()) == 0:
        with contextlib.suppress(OSError):
            os.write(number, b"written")
        os._exit(0)
    for end in (writer, number):
        os.close(end)
    os.waitpid(child, 0)
    with os.fdopen(reader) as answer:
        assert answer.read() == "written"


FORKED = """
import os, sys
from edgepipe import rpc

session = rpc.connect(int(sys.argv[1]), key=sys.argv[2])
process = session.info()["process"]
child = os.fork()
if child == 0:
    sys.exit(0)  # the interpreter frees what the child has inherited
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert session.info()["process"] == process
print("alive")
"""


def test_a_forked_child_exits_without_ending_the_session(server):
    command = [sys.executable, "-c", FORKED, str(server.port), server.key]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stdout) == (0, "alive\n"), found.stderr


def test_a_dropped_session_ends(server):
    session = rpc.connect(server.port, key=server.key)
    assert session.info()["process"] > 0
    del session
    gc.collect()
    with rpc.connect(
        server.port, key=server.key
    ) as following:  # waits for the end of the one before
        assert following.info()["process"] > 0
