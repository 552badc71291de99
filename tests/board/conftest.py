"""The board of the tests: a virtual Ultra96 for the whole session, or EDGEPIPE_BOARD=USER@HOST.

Tests of ``board`` run on either. Tests of ``virtual_board`` need the virtual one: its FPGA is a
program that can be loaded, given faults and inspected.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from needs import BUILD, built, lacking

from bench import models
from edgepipe import boards
from edgepipe.bundle import storage
from edgepipe.deploy import deployment
from edgepipe.deploy.connection import Target
from edgepipe.deploy.deployment import DeployOptions, Outcome
from edgepipe.errors import VirtualBoardError
from edgepipe.recipe import BuildOptions, build_bundle
from edgepipe.virtual_board import fpga_model, host_tools
from edgepipe.virtual_board.board import SSH_HOST, VirtualBoard
from edgepipe.virtual_board.fpga_model import FpgaOptions

REAL_BOARD = os.environ.get("EDGEPIPE_BOARD", "")
FOLDER = "edgepipe-test"  # everything that the tests leave on a board, in the user's home folder
HEALTHY = FpgaOptions(accelerator=boards.load("ultra96").accelerator)


@dataclass(frozen=True, kw_only=True)
class Board:
    """A board as ssh reaches it; ``ssh_config`` is None for the user's own."""

    host: str
    ssh_config: Path | None

    def run(
        self, command: Sequence[str], *, stdin: bytes = b"", deadline_s: float = 60.0
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            self.ssh_command(command), input=stdin, capture_output=True, timeout=deadline_s
        )

    def ssh_command(self, command: Sequence[str]) -> list[str]:
        config = ["-F", str(self.ssh_config)] if self.ssh_config else []
        return ["ssh", *config, "-o", "BatchMode=yes", self.host, *command]

    @property
    def options(self) -> list[str]:
        """The options with which an edgepipe command reaches the board."""
        config = ["--ssh-config", str(self.ssh_config)] if self.ssh_config else []
        return ["--host", self.host, *config]

    def deploy(self, bundle: Path, name: str, **changes) -> Outcome:
        """Deploy to a separate folder."""
        target = Target(host=self.host, root=f"{FOLDER}/{name}", ssh_config=self.ssh_config)
        options = DeployOptions(operator="tester@host", unit="", golden_timeout_s=300, **changes)
        return deployment.deploy(target, deployment.open_source(bundle), options)


@pytest.fixture(scope="session")
def virtual_board():
    """Yield a running virtual board for exclusive use; stop it afterwards."""
    if REAL_BOARD:
        pytest.skip(f"needs the virtual board, and EDGEPIPE_BOARD is {REAL_BOARD}")
    program = built("edgepipe-vta-run", "aarch64").read_bytes()
    try:
        host_tools.require(list(host_tools.PACKAGES))
        fpga_model.find_program()
    except VirtualBoardError as error:
        lacking(f"{error} ({error.hint})")
    # A cache, which may be kept between runs or missing.
    running = VirtualBoard(folder=BUILD / "test-board")
    running.down()
    running.up(fpga=HEALTHY)
    try:
        script = "cd /usr/local/bin; cat > edgepipe-vta-run && chmod +x edgepipe-vta-run && sync"
        assert running.run([script], stdin=program).returncode == 0
        yield running
    finally:
        running.down()


@pytest.fixture(scope="session")
def any_board(request):
    if REAL_BOARD:
        found = Board(host=REAL_BOARD, ssh_config=None)
    else:
        virtual = request.getfixturevalue("virtual_board")
        found = Board(host=SSH_HOST, ssh_config=virtual.ssh_config)
    # Also removes the files of a killed run.
    found.run([f"rm -rf {FOLDER}"])
    yield found
    if REAL_BOARD:
        found.run([f"rm -rf {FOLDER}"])


@pytest.fixture(scope="module")
def board(any_board, request):
    """Return the board, with its FPGA in the normal state."""
    if not REAL_BOARD:
        virtual = request.getfixturevalue("virtual_board")
        if virtual.status().fpga != HEALTHY:
            virtual.load_fpga(HEALTHY)
    return any_board


@pytest.fixture(scope="session")
def resnet8(model_path, fashion_mnist, tmp_path_factory):
    """Return the bundle of a small ResNet for Fashion-MNIST, built for the Ultra96."""
    frames, _ = fashion_mnist("train")
    folder = tmp_path_factory.mktemp("resnet8")
    np.savez(folder / "frames.npz", frames=frames[:32])
    return build(model_path("fmnist_resnet8"), folder / "frames.npz", folder / "resnet8.edgepipe")


@pytest.fixture(scope="session")
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
