"""Networks deployed to the board: their VTA stages run through the real driver, bit for bit."""

import contextlib
import dataclasses
import io
import os
import subprocess
import tarfile
import threading
from pathlib import Path

import pytest
from needs import built
from small_networks import build_small_bundle

from edgepipe import boards
from edgepipe.deploy import deployment, payload
from edgepipe.deploy.connection import Target
from edgepipe.errors import DeployError, FingerprintError
from edgepipe.progress import Silent
from edgepipe.virtual_board.fpga_model import FpgaOptions

pytestmark = [pytest.mark.board, pytest.mark.models]

FRAMES = 2
STEPS = ("connect", "pre-flight check", "send", "golden run", "switch", "remove old releases")


@pytest.mark.parametrize(
    ("network", "outputs"), [("resnet8", 1), pytest.param("nanodet", 6, marks=pytest.mark.systems)]
)
def test_deployed_network_gives_this_machines_result_on_the_accelerator(
    machine, architecture, bundle_of, tmp_path, network, outputs
):
    bundle = bundle_of(network, architecture)
    name = f"{network}-{architecture}"
    outcome = machine.deploy(bundle, name)
    assert (outcome.result, outcome.release) == ("deployed", 1)
    options = ["--golden", "--frames", str(FRAMES), "--tensors", "tensors"]
    folder = f"edgepipe-test/{name}"
    script = (
        f"cd {folder} && current/bin/edgepipe-run current/bundle {' '.join(options)} --device uio"
        " > /dev/null && tar -c tensors && rm -r tensors"
    )
    there = machine.run([script], deadline_s=300)
    said = there.stderr.decode()
    assert there.returncode == 0, said
    assert f"golden: {FRAMES} frames x {outputs} outputs are bit-equal" in said
    assert "VTA stages ran on: uio" in said
    command = [built("edgepipe-run"), bundle, *options, "--device", "simulator"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    here = {path.name: path.read_bytes() for path in (tmp_path / "tensors").iterdir()}
    assert len(here) == FRAMES * outputs
    with tarfile.open(fileobj=io.BytesIO(there.stdout)) as archive:
        assert here == {
            Path(member.name).name: archive.extractfile(member).read()
            for member in archive
            if member.isfile()
        }


@pytest.fixture(scope="module")
def resnet8(bundle_of, architecture):
    return bundle_of("resnet8", architecture)


def test_an_unchanged_bundle_sends_nothing(machine, architecture, resnet8):
    name = f"again-{architecture}"
    machine.deploy(resnet8, name)
    outcome = machine.deploy(resnet8, name)
    assert (outcome.result, outcome.release, outcome.sent_bytes) == ("unchanged", 1, 0)


@pytest.mark.parametrize("architecture", ["aarch64"], indirect=True)  # of both boards
def test_a_bundle_for_another_board_is_refused_before_it_can_hang(
    virtual_board, board, architecture, resnet8, tmp_path
):
    bundle = build_small_bundle(tmp_path, board="zcu104")
    wrong = "the device tree: board is ultra96, the bundle was built for zcu104"
    with pytest.raises(FingerprintError, match=wrong):
        board.deploy(bundle, "other")
    board.deploy(resnet8, "own")
    run = "edgepipe-test/own/current/bin/edgepipe-run"
    script = f"cat > other.edgepipe; {run} other.edgepipe --golden --device uio"
    ran = board.run([script], stdin=bundle.read_bytes())
    said = ran.stderr.decode()
    assert ran.returncode == 10, said
    assert wrong in said
    assert "hint: build the bundle for this board, ultra96" in said
    assert "hung" not in said


def test_accelerator_has_one_user_at_a_time(machine, architecture, resnet8):
    name = f"shared-{architecture}"
    machine.deploy(resnet8, name)
    current = f"edgepipe-test/{name}/current"
    run = f"{current}/bin/edgepipe-run {current}/bundle"
    first = subprocess.Popen(
        machine.ssh_command([f"echo $$; exec {run} --golden --frames 100000 --quiet > /dev/null"]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    process = int(first.stdout.readline())
    try:
        held = (
            "for i in $(seq 100); do grep -q FLOCK /proc/locks && exit 0; sleep 0.1; done; exit 1"
        )
        assert machine.run([held]).returncode == 0
        second = machine.run([f"{run} --golden --device uio --quiet > /dev/null"])
        assert second.returncode == 1
        assert b"/dev/uio0: another process uses it" in second.stderr
        with pytest.raises(DeployError, match="another process uses it") as caught:
            machine.deploy(resnet8, name)
        assert "stop the process that uses the accelerator" in caught.value.hint
    finally:
        machine.run([f"kill {process}"])
        first.wait(timeout=60)
        first.stdout.close()


def altered(source, content):
    """Return the source with one additional file next to the bundle."""
    more = payload.make_file("note", content)
    return dataclasses.replace(source, files=(*source.files, more))


def must(board, command):
    done = board.run([command], deadline_s=120)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


class FillAt(Silent):
    """Fills the board's disk at the start of a step."""

    def __init__(self, virtual_board, step):
        self._board = virtual_board
        self._step = step

    def step(self, text):
        if text.startswith(self._step):
            self._board.run(["dd if=/dev/zero of=/mnt/fill bs=4k; true"])


@pytest.mark.systems
def test_a_disk_that_is_full_at_any_step_leaves_a_complete_release(machine, virtual_board, resnet8):
    def run(command):
        return must(machine, command)

    def deploy(source, progress=None):
        target = Target(host=machine.host, root="/mnt/edgepipe", ssh_config=machine.ssh_config)
        options = deployment.DeployOptions(operator="t", unit="", keep=2, golden_timeout_s=300)
        return deployment.deploy(target, source, options, progress)

    run("mount -t tmpfs -o size=24m tmpfs /mnt")
    try:
        source = deployment.open_source(resnet8)
        deploy(source)
        for step in STEPS:
            changed = altered(source, step.encode() + bytes(100_000))
            said = ""
            try:
                deploy(changed, FillAt(virtual_board, step))
            except DeployError as error:
                said = str(error)
            run("rm -f /mnt/fill; cd /mnt/edgepipe/current && sha256sum --quiet -c SHA256SUMS")
            assert not said or "current" in said or "KiB are free" in said
        assert deploy(altered(source, b"last")).result == "deployed"
        assert run("ls -A /mnt/edgepipe/releases | grep -v ^[0-9] || true") == ""
    finally:
        with contextlib.suppress(AssertionError):
            run("umount /mnt")


class CutPowerIn(Silent):
    """Cuts the board's power briefly, some time after a step has started."""

    def __init__(self, virtual_board, step, after_s):
        self._reset = threading.Timer(after_s, virtual_board.reset)
        self._step = step

    def step(self, text):
        if text.startswith(self._step):
            self._reset.start()

    def wait_for_login(self):
        self._reset.join()


@pytest.mark.systems
def test_a_power_cut_in_any_step_leaves_a_complete_release(
    machine, architecture, virtual_board, resnet8
):
    source = deployment.open_source(resnet8)
    root = f"edgepipe-test/cut-{architecture}"
    target = Target(host=machine.host, root=root, ssh_config=machine.ssh_config)
    options = deployment.DeployOptions(operator="t", unit="", golden_timeout_s=300)
    assert deployment.deploy(target, source, options).release == 1
    current = 1
    steps = (
        ("pre-flight check", 0.1),
        ("send", 0.5),
        ("golden run", 0.5),
        ("switch", 0.1),
        ("remove old", 0.0),
    )
    for step, after_s in steps:
        changed = altered(source, os.urandom(2 << 20))
        power = CutPowerIn(virtual_board, step, after_s)
        said = ""
        try:
            deployment.deploy(target, changed, options, power)
        except DeployError as error:
            said = str(error)
        power.wait_for_login()
        check = (
            f"cd {target.root} && readlink current && cd current && sha256sum --quiet -c SHA256SUMS"
        )
        there = int(must(machine, check).removeprefix("releases/"))
        if step == "switch":
            assert there in (current, current + 1)
        elif step == "remove old":
            assert there == current + 1
        elif step == "pre-flight check":  # perhaps before the board has answered
            assert there == current, said
        else:
            assert (there, f"release {current} is still current" in said) == (current, True), said
        run = f"cd {target.root}/current && bin/edgepipe-run bundle --golden --device uio --quiet"
        must(machine, f"{run} > /dev/null")
        current = there
    assert deployment.deploy(target, altered(source, b"last"), options).result == "deployed"
    assert must(machine, f"ls -A {target.root}/releases | grep -v ^[0-9] || true") == ""


def test_a_hanging_fpga_is_reported_with_the_drivers_message(
    machine, architecture, virtual_board, resnet8
):
    accelerator = boards.load("ultra96").accelerator
    name = f"hanging-{architecture}"
    machine.deploy(resnet8, name)
    virtual_board.load_fpga(FpgaOptions(accelerator=accelerator, faults=("hang=1",)))
    try:
        run = f"edgepipe-test/{name}/current"
        command = f"{run}/bin/edgepipe-run {run}/bundle --golden --quiet"
        done = machine.run([command], deadline_s=120)
        assert done.returncode == 1
        assert b"vta: hangs: deadline passed in run 1 of" in done.stderr
        assert b"running the frame again" in done.stderr
        with pytest.raises(DeployError, match=r"golden run failed: .*deadline passed in run 2 of"):
            machine.deploy(resnet8, name)
    finally:
        virtual_board.load_fpga(FpgaOptions(accelerator=accelerator))
