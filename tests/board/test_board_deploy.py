"""Networks deployed to the virtual Ultra96: their VTA stages run through the real driver."""

import json
import subprocess
import time

import numpy as np
import pytest

from bench import models
from edgepipe import boards
from edgepipe.build import BuildOptions, build_bundle
from edgepipe.bundle import storage
from edgepipe.deploy import deployment
from edgepipe.deploy.connection import Target
from edgepipe.deploy.deployment import DeployOptions
from edgepipe.virtual_board.board import SSH_HOST
from edgepipe.virtual_board.fpga_model import FpgaOptions

pytestmark = [pytest.mark.board, pytest.mark.models]

FRAMES = 4


@pytest.fixture(scope="module")
def resnet8(model_path, fashion_mnist, tmp_path_factory):
    """Return the bundle of a small ResNet for Fashion-MNIST, built for the Ultra96."""
    frames, _ = fashion_mnist("train")
    folder = tmp_path_factory.mktemp("resnet8")
    np.savez(folder / "frames.npz", frames=frames[:32])
    model = model_path("fmnist_resnet8")
    return build(model, folder / "frames.npz", folder / "resnet8.edgepipe")


@pytest.fixture(scope="module")
def nanodet(tmp_path_factory):
    """Return the bundle of the demo's detector, built for the Ultra96."""
    output = tmp_path_factory.mktemp("nanodet") / "nanodet.edgepipe"
    return build(models.model("nanodet_g_coco_416"), models.EXAMPLES / "calibration", output)


def build(model, calibration, output):
    build_bundle(
        BuildOptions(
            model=model,
            board=boards.load("ultra96"),
            calibration=calibration,
            output=output,
        )
    )
    assert any(stage.kind == "vta" for stage in storage.read_manifest(output).stages)
    return output


def deploy(board, bundle, root):
    target = Target(host=SSH_HOST, root=root, ssh_config=board.ssh_config)
    options = DeployOptions(operator="tester@host", golden_timeout_s=120)
    return deployment.deploy(target, deployment.open_source(bundle), options)


def run_golden(board, root, options=""):
    """Run a release's golden frames; return the results without times and what was said."""
    command = f"{root}/current/bin/edgepipe-run {root}/current/bundle --golden --frames {FRAMES} "
    done = board.run([command + options], deadline_s=120)
    assert done.returncode == 0, done.stderr.decode()
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    for frame in frames:
        del frame["latency_ms"]
    return frames, done.stderr.decode()


@pytest.mark.parametrize(("network", "outputs"), [("resnet8", 1), ("nanodet", 6)])
def test_deployed_network_runs_on_the_fpga_bit_for_bit(virtual_board, request, network, outputs):
    virtual_board.load_fpga(FpgaOptions(accelerator=boards.load("ultra96").accelerator))
    outcome = deploy(virtual_board, request.getfixturevalue(network), network)
    assert (outcome.result, outcome.release) == ("deployed", 1)
    lines, said = run_golden(virtual_board, network)
    assert f"golden: {FRAMES} frames x {outputs} outputs are bit-equal" in said
    assert "VTA stages ran on: uio" in said
    simulated, said = run_golden(virtual_board, network, "--device simulator")
    assert "VTA stages ran on: simulator" in said
    assert lines == simulated


def test_unchanged_bundle_is_deployed_within_three_seconds(virtual_board, resnet8):
    deploy(virtual_board, resnet8, "again")
    began = time.monotonic()
    outcome = deploy(virtual_board, resnet8, "again")
    assert outcome.result == "unchanged"
    # Three seconds on an idle machine; the limit here leaves room for a busy one.
    assert time.monotonic() - began < 15


def test_accelerator_has_one_user_at_a_time(virtual_board, resnet8):
    deploy(virtual_board, resnet8, "shared")
    run = "shared/current/bin/edgepipe-run shared/current/bundle --golden"
    first = subprocess.Popen(
        virtual_board.ssh_command([f"{run} --frames 100000 --quiet > /dev/null"]),
        stdin=subprocess.DEVNULL,
    )
    try:
        held = (
            "for i in $(seq 100); do grep -q FLOCK /proc/locks && exit 0; sleep 0.1; done; exit 1"
        )
        assert virtual_board.run([held]).returncode == 0
        second = virtual_board.run([f"{run} --device uio --quiet > /dev/null"])
        assert second.returncode == 1
        assert b"/dev/uio0: another process uses it" in second.stderr
    finally:
        virtual_board.run(["busybox killall edgepipe-run"])
        first.wait(timeout=30)


def test_hanging_fpga_is_told_in_the_drivers_words(virtual_board, resnet8):
    accelerator = boards.load("ultra96").accelerator
    deploy(virtual_board, resnet8, "hanging")
    virtual_board.load_fpga(FpgaOptions(accelerator=accelerator, faults=("hang=1",)))
    try:
        command = "hanging/current/bin/edgepipe-run hanging/current/bundle --golden --quiet"
        done = virtual_board.run([command], deadline_s=120)
        assert done.returncode == 1
        assert b"vta: deadline passed in run 1 of" in done.stderr
    finally:
        virtual_board.load_fpga(FpgaOptions(accelerator=accelerator))
