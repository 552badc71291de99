"""The real edgepipe-rpcd with TVM's own client, a tracker, lost clients, and a bundle."""

import gc
import json
import os
import re
import resource
import signal
import socket
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import tvm
from killed_clients import kill_a_client_in_a_run
from needs import rpcd
from small_networks import build_small_bundle, with_wrong_golden
from tvm import te
from tvm.rpc.tracker import Tracker

from edgepipe import rpc
from edgepipe.cli.main import main
from edgepipe.errors import RpcError

pytestmark = pytest.mark.sim


@pytest.fixture(scope="module", autouse=True)
def program():
    return rpcd()


@pytest.fixture
def server(program, tmp_path):
    with rpc.LocalServer.start(program, ["--folder", str(tmp_path)], allow_root=True) as running:
        yield running


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return build_small_bundle(tmp_path_factory.mktemp("rpc"))


def test_a_library_built_by_tvm_is_uploaded_run_and_timed(server, tmp_path):
    a = te.placeholder((8,), "int32", name="a")
    b = te.compute((8,), lambda i: a[i] + 1, name="b")
    library = tmp_path / "add.so"
    tvm.compile(te.create_prim_func([a, b]), target="llvm").export_library(str(library))
    with rpc.connect(server.port, key=server.key) as session:
        remote = session.remote
        remote.upload(str(library))
        module = remote.load_module("add.so")
        device = remote.cpu(0)
        x = tvm.runtime.tensor(np.arange(8, dtype=np.int32), device)
        y = tvm.runtime.tensor(np.zeros(8, np.int32), device)
        module["main"](x, y)
        assert (y.numpy() == np.arange(1, 9)).all()
        assert module.time_evaluator("main", device, number=2, repeat=3)(x, y).mean > 0


def test_a_bundle_runs_bit_equal_and_every_stage_is_timed(server, bundle):
    with rpc.connect(server.port, key=server.key) as session:
        assert session.info()["cores"] >= 1
        report = session.run_golden(bundle, repeat=3)
    assert report.device == "simulator"
    assert {stage.kind for stage in report.stages} == {"arm", "vta"}
    assert all(stage.runs == 3 and 0 < stage.min_us <= stage.max_us for stage in report.stages)


def test_an_opened_bundle_is_closed_although_the_session_keeps_its_functions(server, bundle):
    """Otherwise its device would be taken until the session ends."""
    with rpc.connect(server.port, key=server.key) as session:
        with session.opened(bundle, "auto") as module:
            describe = session.function(module, "describe")
            assert json.loads(describe())["name"] == "net"
            session.function(module, "load_golden")()
        for name in ("describe", "statistics", "run"):
            with pytest.raises(RpcError, match="stages: used after close"):
                session.function(module, name)()
        session.function(module, "close")()  # again, without effect
        assert session.run_golden(bundle, repeat=1).network == "net"


def test_a_failure_within_an_opened_bundle_closes_it_and_is_reported(server, bundle):
    with rpc.connect(server.port, key=server.key) as session:
        with (
            pytest.raises(RpcError, match="found stage 99, expected one below"),
            session.opened(bundle, "auto") as module,
        ):
            session.function(module, "run_stage")(99)
        with pytest.raises(RpcError, match="used after close"):
            session.function(module, "describe")()


def test_a_golden_output_that_differs_is_named_and_the_server_keeps_serving(
    server, bundle, tmp_path
):
    altered = with_wrong_golden(bundle, tmp_path / "altered")
    with (
        pytest.raises(RpcError, match=r"differs from the golden output: 1 of \d+ bytes differ"),
        rpc.connect(server.port, key=server.key) as session,
    ):
        session.run_golden(altered)
    with rpc.connect(server.port, key=server.key) as session:
        assert session.run_golden(bundle, repeat=1).network == "net"


def test_a_file_outside_the_session_is_refused(server):
    with (
        rpc.connect(server.port, key=server.key) as session,
        pytest.raises(Exception, match="not inside"),
    ):
        session.remote.upload(bytearray(b"x"), "../escaped")


def test_a_file_larger_than_the_server_may_write_is_an_error_and_the_session_continues(
    program, tmp_path
):
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent" / "large").write_bytes(bytes(1001))
    command = ["prlimit", "--fsize=1000", str(program), "--until-eof", "--allow-root"]
    with (
        rpc.LocalServer([*command, "--folder", str(tmp_path)]) as server,
        rpc.connect(server.port, key=server.key) as session,
    ):
        with pytest.raises(RpcError, match="'there/large' cannot be written: File too large"):
            session.upload_folder(tmp_path / "sent", "there")
        session.remote.upload(bytearray(1000), "small")
        assert len(session.remote.download("small")) == 1000


def test_a_server_without_a_free_descriptor_waits_and_serves_later(server):
    with rpc.connect(server.port, key=server.key) as session:
        child = session.info()["process"]
        (parent,) = re.findall(r"PPid:\s(\d+)", Path(f"/proc/{child}/status").read_text())
    pid = int(parent)
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, before[1]))
    with socket.create_connection(("127.0.0.1", server.port)):
        time.sleep(0.2)
        began = processor_s(pid)
        time.sleep(0.5)
        assert processor_s(pid) - began < 0.1
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    with rpc.connect(server.port, key=server.key) as session:
        assert session.info()["process"] > 0
    told = "edgepipe-rpcd: a client waits: too many open files, this process may have 3\n"
    hint = "hint: raise the limit: ulimit -n, or LimitNOFILE= of a unit\n"
    end = time.monotonic() + 60
    while hint not in server.log:  # a thread reads it
        assert time.monotonic() < end, server.log
        time.sleep(0.01)
    assert server.log.count(told) == 1


def processor_s(pid):
    """Return the processor time that a process has used, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_client_with_another_key_is_refused(server):
    with pytest.raises(RpcError, match="no RPC session"):
        rpc.connect(server.port, key="other")


def test_anything_but_an_rpc_client_is_refused_and_the_server_keeps_serving(server):
    with socket.create_connection(("127.0.0.1", server.port)) as stranger:
        stranger.sendall(b"GET ")
        assert stranger.recv(1) == b""
    with rpc.connect(server.port, key=server.key) as session:
        assert session.info()["process"] > 0


def test_a_client_killed_in_the_middle_of_a_run_frees_the_server(server, bundle, tmp_path):
    kill_a_client_in_a_run(server, bundle, "simulator")
    with rpc.connect(
        server.port, key=server.key
    ) as session:  # waits for the end of the previous session
        assert session.info()["process"] > 0
    server.close()
    assert not list(tmp_path.glob("edgepipe-rpc-*"))


def test_lost_sessions_are_freed_without_the_garbage_collector(server):
    """A process can have 32 sessions of TVM's."""
    gc.disable()
    try:
        for _ in range(40):
            with rpc.connect(server.port, key=server.key) as session:
                os.kill(session.info()["process"], signal.SIGKILL)
                with pytest.raises(RpcError):
                    session.info()
    finally:
        gc.enable()


def test_a_session_ends_when_its_time_is_up(server):
    with (
        pytest.raises(RpcError, match="the session's time limit of 1500 ms has passed"),
        rpc.connect(server.port, key=server.key, limit_s=1.5) as session,
    ):
        while True:
            session.info()


def test_the_time_limit_is_reported_at_whatever_moment_of_a_call_it_comes(server):
    for milliseconds in range(50, 110, 2):
        limit = f"the session's time limit of {milliseconds} ms has passed"
        with (
            pytest.raises(RpcError, match=limit),  # on a busy machine, while it connects
            rpc.connect(server.port, key=server.key, limit_s=milliseconds / 1000) as session,
        ):
            while True:
                session.info()


def test_a_server_that_cannot_be_reached_is_an_error_with_a_remedy():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(RpcError, match="no RPC session") as caught:
        rpc.connect(port, key="x")
    assert "edgepipe-rpcd" in caught.value.hint


def test_a_taken_port_is_an_error(server, program):
    with pytest.raises(RpcError, match=r"cannot listen: Address already in use\)$") as caught:
        rpc.LocalServer.start(program, ["--port", str(server.port)], allow_root=True)
    assert caught.value.hint == "choose another port, or stop the program that uses it"


def test_wrong_use_says_what(program):
    result = subprocess.run([program, "--idle", "soon"], capture_output=True, text=True)
    assert (result.returncode, "--idle: found 'soon'" in result.stderr) == (2, True)
    assert result.stderr.endswith("\nhint: edgepipe-rpcd --help\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--traker", "lab:9190"], "unknown option '--traker'; did you mean --tracker?"),
        (["--traker"], "unknown option '--traker'; did you mean --tracker?"),
        (["--tracker"], "--tracker needs a value"),
        (["lab"], "unknown option 'lab'"),
    ],
)
def test_an_unknown_option_is_answered_with_the_nearest_one(program, arguments, text):
    result = subprocess.run([program, *arguments], capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr == f"edgepipe-rpcd: {text}\nhint: edgepipe-rpcd --help\n"


def test_the_command_runs_a_bundle(bundle, capsys):
    assert main(["rpc", "run", str(bundle), "--repeat", "2", "--allow-root"]) == 0
    assert "golden output bit-equal" in capsys.readouterr().out


def test_the_tracker_hands_out_one_session_after_another(program):
    tracker = Tracker(host="127.0.0.1", port=19190, port_end=19290)
    try:
        options = ["--tracker", f"127.0.0.1:{tracker.port}", "--key", "ultra96"]
        with rpc.LocalServer.start(program, options, allow_root=True):
            farm = tvm.rpc.connect_tracker("127.0.0.1", tracker.port)
            for _ in range(2):
                with rpc.Session(farm.request("ultra96", session_timeout=60)) as session:
                    assert session.info()["process"] > 0
    finally:
        tracker.terminate()


def test_the_tracker_serves_a_farm_of_two_at_the_same_time(program, bundle):
    tracker = Tracker(host="127.0.0.1", port=19190, port_end=19290)
    options = ["--tracker", f"127.0.0.1:{tracker.port}", "--key", "ultra96"]
    try:
        with (
            rpc.LocalServer.start(program, options, allow_root=True),
            rpc.LocalServer.start(program, options, allow_root=True),
        ):
            farm = tvm.rpc.connect_tracker("127.0.0.1", tracker.port)
            first, second = (
                rpc.Session(farm.request("ultra96", session_timeout=60)) for _ in range(2)
            )
            with second:
                with first:
                    assert first.info()["process"] != second.info()["process"]
                assert second.run_golden(bundle, repeat=1).device == "simulator"
                # The released board serves again while the other one is still in use.
                with rpc.Session(farm.request("ultra96", session_timeout=60)) as third:
                    assert third.info()["process"] != second.info()["process"]
    finally:
        tracker.terminate()
