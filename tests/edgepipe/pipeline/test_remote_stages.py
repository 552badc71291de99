"""Stages on real TVM RPC servers: TVM's own, edgepipe-rpcd, a tracker; killed, hung, restarted."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pipeline_stages as made
import pytest
from interrupts import interrupted
from needs import emulated, rpcd
from numpy.testing import assert_array_equal
from pipeline_stages import chain, vector
from ports import free_port, wait_for
from small_networks import build_small_bundle
from tvm.rpc.tracker import Tracker

from edgepipe import rpc
from edgepipe.bundle import storage
from edgepipe.errors import DeadlinePassed, PipelineError, RuntimeFailure
from edgepipe.pipeline import (
    PipelineConfig,
    RpcServer,
    arm_stage,
    load,
    relax_stage,
    remote,
    remote_stage,
)
from edgepipe.tvm_adapter import run_module

pytestmark = pytest.mark.sim


@pytest.fixture
def server() -> Iterator[rpc.LocalServer]:
    with rpc.LocalServer.start(rpcd(), allow_root=True) as running:
        yield running


def at(server: rpc.LocalServer, **options: Any) -> RpcServer:
    return RpcServer(port=server.port, key=server.key, **options)


def diamond(where: RpcServer, target: Any = "llvm") -> PipelineConfig:
    """far.out0, far.out1 -> near; the second output also leaves the pipeline."""
    far = remote_stage(relax_stage(made.two_outputs(), name="far", target=target), where)
    near = relax_stage(made.difference(), name="near")
    config = PipelineConfig()
    config.inputs["data"] = (far, "x")
    config.connect(far, 0, near, "a")
    config.connect(far, "out1", near, "b")
    config.outputs.append((near, 0))
    config.outputs.append((far, 1))
    return config


def check_diamond(where: RpcServer, target: Any = "llvm") -> None:
    with diamond(where, target).build().start() as pipeline:
        for number in range(5):
            pipeline.run(data=vector(number))
        for number in range(5):
            x = vector(number)
            joined, doubled = pipeline.next(timeout_s=30).outputs
            assert_array_equal(joined, 3 * (x + 1) - 2 * x)
            assert_array_equal(doubled, 2 * x)
        assert pipeline.statistics().delivered == 5


def test_a_relax_stage_with_two_outputs_runs_on_edgepipe_rpcd(server):
    check_diamond(at(server))


def test_a_relax_stage_runs_on_tvms_own_server():
    port = free_port()
    command = [sys.executable, "-m", "tvm.exec.rpc_server", "--host", "127.0.0.1"]
    process = subprocess.Popen(
        [*command, "--port", str(port), "--port-end", str(port + 1)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_for(port)
        check_diamond(RpcServer(port=port, key=""))
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_tracker_hands_out_the_server(server):
    tracker = Tracker(host="127.0.0.1", port=19290, port_end=19390)
    try:
        options = ["--tracker", f"127.0.0.1:{tracker.port}", "--key", "ultra96"]
        with rpc.LocalServer.start(rpc.find_program(), options, allow_root=True):
            check_diamond(RpcServer(port=tracker.port, key="ultra96", tracker=True))
    finally:
        tracker.terminate()


def test_an_arm_stage_runs_there_bit_for_bit(server):
    module, picture = made.convolution()
    near = arm_stage(module, name="near")
    far = remote_stage(arm_stage(module, name="far"), at(server))
    config = PipelineConfig()
    config.inputs["data"] = [(near, "x"), (far, "x")]
    config.outputs.append((near, 0))
    config.outputs.append((far, 0))
    with config.build().start() as pipeline:
        pipeline.run(data=picture)
        here, there = pipeline.next(timeout_s=30).outputs
        assert_array_equal(here, run_module(module, {"x": picture})["conv"])
        assert_array_equal(there, here)


def test_the_vta_stage_of_a_bundle_runs_there_bit_for_bit(server, tmp_path):
    bundle = build_small_bundle(tmp_path)
    near = PipelineConfig.from_bundle(bundle)
    far = PipelineConfig.from_bundle(bundle, servers={"vta1": at(server)})
    assert "vta1 (RemoteStage on RPC server" in str(far)
    frame = np.random.default_rng(9).integers(0, 256, (1, 16, 16, 3), dtype=np.uint8)
    results = []
    for config in (near, far):
        with config.build().start() as pipeline:
            pipeline.run(frame)
            results.append(pipeline.next(timeout_s=60).outputs)
    for here, there in zip(*results, strict=True):
        assert_array_equal(here, there)


def test_all_stages_of_a_bundle_on_one_server_are_sent_and_opened_once(
    server, tmp_path, monkeypatch
):
    bundle = build_small_bundle(tmp_path)
    names = [stage.name for stage in storage.read_manifest(bundle).stages]
    assert len(names) > 2
    sent = []

    def pack(path, archive):
        sent.append(path)
        return storage.pack(path, archive)

    monkeypatch.setattr(remote, "storage", SimpleNamespace(**{**vars(storage), "pack": pack}))
    frames = np.random.default_rng(9).integers(0, 256, (4, 1, 16, 16, 3), dtype=np.uint8)
    results = []
    for servers in ({}, dict.fromkeys(names, at(server))):
        config = PipelineConfig.from_bundle(bundle, servers=servers)
        with config.build().start() as pipeline:
            for frame in frames:
                pipeline.run(frame)
            results.append([pipeline.next(timeout_s=60).outputs for _ in frames])
    assert len(sent) == 1
    for here, there in zip(*results, strict=True):
        for near, far in zip(here, there, strict=True):
            assert_array_equal(near, far)


def test_two_stages_on_one_server_share_its_session(server):
    first = remote_stage(made.scaled_stage("first"), at(server))
    second = remote_stage(made.scaled_stage("second"), at(server))
    with chain(first, made.adder(), second).build().start() as pipeline:
        for number in range(4):
            pipeline.run(data=vector(number))
        for number in range(4):
            expected = 2 * (2 * vector(number) + 1)
            assert_array_equal(pipeline.next(timeout_s=30).outputs[0], expected)


def test_parameters_on_the_server_are_replaced_between_frames(server):
    stage = remote_stage(made.scaled_stage(), at(server))
    config = chain(stage)
    config.parameter_groups["weights"] = stage
    with config.build().start() as pipeline:
        pipeline.run(data=vector(1))
        pipeline.set_parameters("weights", {"factor": made.scalar(5)})
        pipeline.run(data=vector(1))
        assert_array_equal(pipeline.next(timeout_s=30).outputs[0], 2 * vector(1))
        assert_array_equal(pipeline.next(timeout_s=30).outputs[0], 5 * vector(1))


def test_an_exported_pipeline_keeps_its_servers(server, tmp_path):
    chain(remote_stage(made.scaled_stage(), at(server))).build().export(tmp_path / "exported")
    with load(tmp_path / "exported").start() as pipeline:
        pipeline.run(data=vector(3))
        assert_array_equal(pipeline.next(timeout_s=30).outputs[0], 2 * vector(3))


def test_a_server_killed_during_a_run_ends_it_cleanly_and_a_restart_finds_the_next_one(server):
    stage = remote_stage(made.scaled_stage("far"), at(server))
    gated = made.GatedStage()
    with chain(gated.stage, stage).build().start() as pipeline:
        for number in range(3):
            pipeline.run(data=vector(number))
        assert gated.reached.wait(30)
        server._process.kill()
        server._process.wait()
        gated.gate.set()
        with pytest.raises(RuntimeFailure, match=r"stage 1 'far' at frame 0: RPC server \d"):
            pipeline.next(timeout_s=30)
        found = pipeline.statistics()
        assert found.submitted == 3 == found.delivered + found.dropped + found.failed
        assert found.failed == 1

        with rpc.LocalServer.start(
            options=["--port", str(server.port), "--key", server.key], allow_root=True
        ):
            pipeline.restart(timeout_s=30)
            pipeline.run(data=vector(7))
            assert_array_equal(pipeline.next(timeout_s=30).outputs[0], 2 * vector(7))


@contextlib.contextmanager
def stopped(server: rpc.LocalServer) -> Iterator[None]:
    """Stop the server's processes, like a board that hangs; continue them afterwards."""
    processes = [server._process.pid, *children(server._process.pid)]
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


def test_a_server_that_hangs_is_given_up_when_its_time_is_up(server):
    stage = remote_stage(made.scaled_stage("far"), at(server, timeout_s=4))
    with chain(stage).build().start() as pipeline, stopped(server):
        pipeline.run(data=vector(0))
        with pytest.raises(DeadlinePassed, match=r"(is held by|waits for) stage 0 'far'"):
            pipeline.next(timeout_s=0.1)
        late = r"'far' at frame 0: .*no answer within 4 s"
        with pytest.raises(RuntimeFailure, match=late) as caught:
            pipeline.next(timeout_s=30)
        assert caught.value.hint == (
            "check that the server still runs and is free, or allow it more time"
        )


def test_cancel_and_close_do_not_wait_for_a_server_that_hangs(server):
    stage = remote_stage(made.scaled_stage("far"), at(server, timeout_s=600))
    with stopped_after(server, chain(stage)) as pipeline:
        pipeline.cancel()
        pipeline.close()  # would take the 600 s


@contextlib.contextmanager
def stopped_after(server: rpc.LocalServer, config: PipelineConfig) -> Iterator[Any]:
    """Run a frame into a server that was stopped once the pipeline had started."""
    pipeline = config.build().start()
    with stopped(server):
        pipeline.run(data=vector(0))
        yield pipeline


def test_an_interrupt_ends_the_start_of_a_pipeline_on_a_server_that_hangs(server):
    built = chain(remote_stage(made.scaled_stage("far"), at(server, timeout_s=600))).build()
    with stopped(server), interrupted():
        built.start()
    with built.start() as pipeline:
        pipeline.run(vector(1))
        assert_array_equal(pipeline.next(timeout_s=30).outputs[0], 2 * vector(1))


def test_a_server_that_does_not_exist_is_an_error_that_names_it():
    where = RpcServer(port=free_port(), key="x", timeout_s=2)
    built = chain(remote_stage(made.scaled_stage(), where)).build()
    with pytest.raises(PipelineError, match=r"RPC server 127.0.0.1:\d+: no session") as caught:
        built.start()
    assert "check that the server is running there" in caught.value.hint


def test_the_wait_for_a_busy_server_is_limited(server):
    built = chain(remote_stage(made.scaled_stage(), at(server, timeout_s=1))).build()
    with (
        rpc.connect(server.port, key=server.key),
        pytest.raises(PipelineError, match="no answer within 1 s") as caught,
    ):
        built.start()
    assert (
        caught.value.hint == "check that the server is running there with the same key, and is free"
    )


def test_a_function_cannot_run_on_a_server():
    with pytest.raises(PipelineError, match="'adder': PythonStage cannot run on an RPC server"):
        remote_stage(made.adder(), RpcServer(port=1, key="x"))


def test_the_checks_are_those_of_local_stages():
    first = remote_stage(relax_stage(made.two_outputs(), name="first"), RpcServer(port=1, key="x"))
    config = PipelineConfig()
    config.inputs["data"] = (first, "x")
    with pytest.raises(PipelineError, match="its output 0 is connected to its own input 'x'"):
        config.connect(first, 0, first, "x")
    with pytest.raises(PipelineError, match="has no output 7"):
        config.outputs.append((first, 7))
    config.outputs.append((first, 0))
    assert "first (RemoteStage on RPC server 127.0.0.1:1)" in str(config)


TARGETS = {
    "aarch64": {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a53"},
    "armhf": {
        "kind": "llvm",
        "mtriple": "arm-linux-gnueabihf",
        "mcpu": "cortex-a9",
        "mfloat-abi": "hard",
        "mattr": ["+neon"],
    },
}
MACHINES = {"aarch64": 183, "armhf": 40}  # EM_AARCH64, EM_ARM


def test_a_relax_stage_runs_on_the_edgepipe_rpcd_of_a_board(architecture):
    command = [*emulated("edgepipe-rpcd", architecture), "--until-eof", "--allow-root"]
    with rpc.LocalServer(command) as server:
        check_diamond(at(server, timeout_s=60), TARGETS[architecture])


@pytest.mark.parametrize(("name", "machine"), MACHINES.items())
def test_a_stage_for_another_machine_is_linked_for_it(name, machine, tmp_path):
    stage = relax_stage(made.scaled(), name="far", target=TARGETS[name])
    (tmp_path / "far").mkdir()
    stage.write(tmp_path, "far")
    header = (tmp_path / "far" / "module.so").read_bytes()[:20]
    assert int.from_bytes(header[18:20], "little") == machine


def children(process: int) -> list[int]:
    path = Path(f"/proc/{process}/task/{process}/children")
    return [int(word) for word in path.read_text(encoding="ascii").split()]
