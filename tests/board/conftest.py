"""The board of the tests: a virtual Ultra96 for the whole session, or EDGEPIPE_BOARD=USER@HOST.

Tests of ``board`` run on either. Tests of ``virtual_board`` need the virtual one: its FPGA is a
program that can be loaded, given faults and inspected. Tests of ``machine`` run twice: on the
board, and with programs for armhf on the virtual one, whose kernel runs 32-bit programs, too.
"""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from needs import ARCHITECTURES, BUILD, built, lacking

from bench import models
from edgepipe import boards, resources
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
ARMHF_HOST = "virtual-ultra96-armhf"
ARMHF_PROGRAMS = ("edgepipe-cam", "edgepipe-vta-run")
# From Debian's armhf: programs for a board need no other libraries (cross/check_board.py).
ARMHF_LIBRARIES = (
    *("ld-linux-armhf.so.3", "libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libm.so.6"),
    *("libpthread.so.0", "librt.so.1"),
)
# A shell in which `uname -m` says armv8l, as a 32-bit kernel does on these cores.
ARMHF_SHELL = """#!/bin/sh
PATH=/usr/local/armhf/bin:$PATH exec setarch linux32 /bin/bash "$@"
"""
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

    def ssh_command(self, command: Sequence[str], options: Sequence[str] = ()) -> list[str]:
        config = ["-F", str(self.ssh_config)] if self.ssh_config else []
        return ["ssh", *config, "-o", "BatchMode=yes", *options, self.host, *command]

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
def started_board():
    """Yield a running virtual board for exclusive use, whatever its FPGA; stop it afterwards."""
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


@pytest.fixture(scope="module")
def virtual_board(started_board):
    """Return the virtual board; a module finds its FPGA in the normal state, and may change it."""
    if started_board.status().fpga != HEALTHY:
        started_board.load_fpga(HEALTHY)
    return started_board


@pytest.fixture(scope="session")
def any_board(request):
    if REAL_BOARD:
        found = Board(host=REAL_BOARD, ssh_config=None)
    else:
        virtual = request.getfixturevalue("started_board")
        found = Board(host=SSH_HOST, ssh_config=virtual.ssh_config)
    # Also removes the files of a killed run.
    found.run([f"rm -rf {FOLDER}"])
    yield found
    if REAL_BOARD:
        found.run([f"rm -rf {FOLDER}"])


@pytest.fixture(scope="module")
def board(any_board, request):
    """Return the board, with its FPGA in the normal state when a module begins."""
    if not REAL_BOARD:
        request.getfixturevalue("virtual_board")
    return any_board


@pytest.fixture(scope="module", params=ARCHITECTURES)
def architecture(request):
    """Return a board's architecture, once each; by module, so that no test changes its place."""
    return request.param


@pytest.fixture(scope="module")
def armhf_login(virtual_board, tmp_path_factory):
    """Return the ssh configuration of a login to the virtual board as to a 32-bit board."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", dereference=True) as tar:
        for name in ARMHF_LIBRARIES:
            folder = "usr/lib" if name.startswith("ld-") else "usr/lib/arm-linux-gnueabihf"
            tar.add(f"/usr/arm-linux-gnueabihf/lib/{name}", f"{folder}/{name}")
        for name in ARMHF_PROGRAMS:
            tar.add(built(name, "armhf"), f"usr/local/armhf/bin/{name}")
        shell = tarfile.TarInfo("usr/local/bin/armhf-shell")
        shell.size, shell.mode = len(ARMHF_SHELL), 0o755
        tar.addfile(shell, io.BytesIO(ARMHF_SHELL.encode()))
    script = (
        "tar -x -C / && { grep -q ^armhf: /etc/passwd"
        " || echo armhf:x:0:0::/root:/usr/local/bin/armhf-shell >> /etc/passwd; } && sync"
    )
    done = virtual_board.run([script], stdin=content.getvalue(), deadline_s=120)
    assert done.returncode == 0, done.stderr.decode()
    text = virtual_board.ssh_config.read_text().replace(f"Host {SSH_HOST}", f"Host {ARMHF_HOST}", 1)
    # A connection of its own, because the other one's sessions are root's.
    own = [line for line in text.splitlines() if not line.strip().startswith("Control")]
    config = tmp_path_factory.mktemp("armhf") / "ssh_config"
    config.write_text("\n".join(own).replace("User root", "User armhf") + "\n")
    return config


@pytest.fixture(scope="module")
def machine(architecture, request):
    """Return the board to programs of ``architecture``: as it is, or as a 32-bit board."""
    board = request.getfixturevalue("board")
    if architecture == "armhf":
        return Board(host=ARMHF_HOST, ssh_config=request.getfixturevalue("armhf_login"))
    return board


@pytest.fixture(scope="session")
def board_file(tmp_path_factory):
    """Return a function to the file of the Ultra96, or of one whose system is for ``armhf``."""

    def of(architecture):
        file = resources.folder("board") / "ultra96.toml"
        if architecture == "aarch64":
            return file
        text = file.read_text().replace('"aarch64"', f'"{architecture}"')
        copy = tmp_path_factory.mktemp("board") / file.name
        copy.write_text(text.replace('"cortex-a53"', '"cortex-a9"'))
        return copy

    return of


@pytest.fixture(scope="session")
def bundle_of(board_file, model_path, fashion_mnist, tmp_path_factory):
    """Return a function that builds resnet8 or nanodet for the Ultra96's accelerator, once."""
    made = {}

    def of(network, architecture="aarch64"):
        if (network, architecture) not in made:
            folder = tmp_path_factory.mktemp(network)
            model = models.model("nanodet_g_coco_416")
            calibration = models.EXAMPLES / "calibration"
            if network == "resnet8":
                model, calibration = model_path("fmnist_resnet8"), folder / "frames.npz"
                np.savez(calibration, frames=fashion_mnist("train")[0][:32])
            output = folder / f"{network}.edgepipe"
            build_bundle(
                BuildOptions(
                    model=model,
                    board=boards.load(str(board_file(architecture))),
                    calibration=calibration,
                    output=output,
                )
            )
            assert any(stage.kind == "vta" for stage in storage.read_manifest(output).stages)
            made[network, architecture] = output
        return made[network, architecture]

    return of


@pytest.fixture(scope="session")
def resnet8(bundle_of):
    """Return the bundle of a small ResNet for Fashion-MNIST, built for the Ultra96."""
    return bundle_of("resnet8")
