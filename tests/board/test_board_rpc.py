"""Hardware in the loop over TVM RPC: upload stages to the board, run and time them."""

import numpy as np
import pytest
import tvm
from killed_clients import kill_a_client_in_a_run
from tvm import te

from edgepipe import rpc
from edgepipe.cli.main import main
from edgepipe.errors import RpcError

pytestmark = [pytest.mark.board, pytest.mark.models]


@pytest.fixture(scope="module")
def server(machine):
    """Yield the address of the server, which was sent to the board, through a tunnel."""
    with rpc.open_board(machine.host, ssh_config=machine.ssh_config, allow_root=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def resnet8(bundle_of, architecture):
    return bundle_of("resnet8", architecture)


def test_the_session_is_on_the_board(server, architecture):
    with rpc.connect(server.port, key=server.key) as session:
        info = session.info()
    assert info["machine"] == {"aarch64": "aarch64", "armhf": "armv8l"}[architecture]
    assert info["cores"] == 4


def test_a_kernel_of_tvm_is_uploaded_run_and_timed(server, architecture, tmp_path):
    a = te.placeholder((1000,), "int32", name="a")
    b = te.compute((1000,), lambda i: a[i] * 3, name="b")
    triple, options = {
        "aarch64": ("aarch64-linux-gnu", {}),
        "armhf": ("arm-linux-gnueabihf", {"mcpu": "cortex-a9", "mfloat-abi": "hard"}),
    }[architecture]
    target = tvm.target.Target({"kind": "llvm", "mtriple": triple, **options})
    library = tmp_path / "triple.so"
    tvm.compile(te.create_prim_func([a, b]), target=target).export_library(
        str(library), cc=f"{triple}-g++"
    )
    numbers = np.arange(1000, dtype=np.int32)
    with rpc.connect(server.port, key=server.key) as session:
        session.remote.upload(str(library))
        module = session.remote.load_module("triple.so")
        device = session.remote.cpu(0)
        x = tvm.runtime.tensor(numbers, device)
        y = tvm.runtime.tensor(np.zeros(1000, np.int32), device)
        module["main"](x, y)
        assert (y.numpy() == numbers * 3).all()
        assert module.time_evaluator("main", device, number=2, repeat=2)(x, y).mean > 0


def test_stages_run_on_the_accelerator_bit_for_bit_and_are_timed(server, resnet8):
    with rpc.connect(server.port, key=server.key) as session:
        report = session.run_golden(resnet8, device="uio", repeat=2)
    assert report.device == "uio"
    assert {stage.kind for stage in report.stages} == {"arm", "vta"}
    assert all(stage.runs == 2 and 0 < stage.min_us <= stage.max_us for stage in report.stages)


def test_one_stage_is_timed_by_tvms_time_evaluator(server, resnet8):
    with rpc.connect(server.port, key=server.key) as session:
        session.remote.upload(str(resnet8), "net.edgepipe")
        net = session.remote.get_function("edgepipe.open_bundle")("net.edgepipe", "uio")
        net["load_golden"]()
        net["run"]()
        timed = net.time_evaluator("stage_1", session.remote.cpu(0), number=1, repeat=3)()
        assert len(timed.results) == 3
        assert timed.mean > 0
        net["check_golden"]()


def test_a_test_that_fails_releases_the_board(server, resnet8):
    """A killed client leaves neither a process nor the accelerator's lock behind."""
    process = kill_a_client_in_a_run(server, resnet8, "uio")
    with rpc.connect(
        server.port, key=server.key
    ) as session:  # waits for the end of the previous session
        assert session.info()["process"] != process
        assert session.run_golden(resnet8, device="uio", repeat=1).device == "uio"


def test_a_failure_on_the_board_is_reported_and_the_next_session_works(server, tmp_path):
    with rpc.connect(server.port, key=server.key) as session:
        session.remote.upload(bytearray(b"no bundle"), "broken.edgepipe")
        with pytest.raises(RpcError, match=r"broken\.edgepipe"):
            session.call("edgepipe.open_bundle", "broken.edgepipe", "uio")
    with rpc.connect(server.port, key=server.key) as session:
        assert session.info()["process"] > 0


def test_the_server_is_sent_once(server, machine):
    listing = "cd edgepipe/rpc && ls --full-time edgepipe-rpcd libtvm_*.so"
    before = machine.run([listing]).stdout
    assert b"edgepipe-rpcd" in before
    with (
        rpc.open_board(machine.host, ssh_config=machine.ssh_config, allow_root=True) as another,
        rpc.connect(another.port, key=another.key),
    ):
        assert machine.run([listing]).stdout == before
    left = machine.run(["ls /proc/*/exe -l 2>/dev/null | grep -c edgepipe-rpcd"])
    assert left.stdout.strip() == b"1"  # the server of this module, without a session


def test_the_command_times_a_bundle_on_the_board(machine, resnet8, capsys):
    command = [
        "rpc",
        "run",
        str(resnet8),
        "--repeat",
        "1",
        "--device",
        "uio",
        "--allow-root",
        *machine.options,
    ]
    assert main(command) == 0
    assert "VTA stages ran on: uio" in capsys.readouterr().out
