"""Boards behind a real sshd, bundles, and a runtime, for the deploy tests."""

from __future__ import annotations

import os
import platform
import subprocess

import pytest
import supervised_place
from ssh_board import SshBoard
from systemd_machine import SystemdMachine

from edgepipe.boards import ARCHITECTURES
from edgepipe.bundle import storage
from edgepipe.bundle.manifest import FORMAT, Fingerprint, Golden, Manifest
from edgepipe.deploy.deployment import DeployOptions
from edgepipe.description import Postprocess
from edgepipe.frontend.preprocess import Preprocess
from vta_stages.accelerator import Accelerator

# Replaces edgepipe-run; the bundle's file `verdict` decides whether its golden run fails, hangs or
# succeeds.
RUNTIME_SOURCE = """
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char** argv) {
  char path[4096], verdict[32] = "";
  if (argc < 3 || strcmp(argv[2], "--golden") != 0) return 2;
  snprintf(path, sizeof path, "%s/verdict", argv[1]);
  FILE* file = fopen(path, "r");
  if (!file || !fgets(verdict, sizeof verdict, file)) return 3;
  if (strcmp(verdict, "hang") == 0) sleep(60);
  if (strcmp(verdict, "simulated") == 0) {
    fprintf(stderr, "golden: 1 frames x 1 outputs are bit-equal\\nVTA stages ran on: simulator\\n");
    return 0;
  }
  fprintf(stderr, "golden: %s\\n", verdict);
  return strcmp(verdict, "equal") != 0;
}
"""


@pytest.fixture(scope="session")
def runtime(tmp_path_factory):
    program = tmp_path_factory.mktemp("runtime") / "edgepipe-run"
    subprocess.run(
        ["cc", "-x", "c", "-o", program, "-"], input=RUNTIME_SOURCE, text=True, check=True
    )
    return program


@pytest.fixture
def options(runtime):
    return DeployOptions(operator="tester@host", runtimes=(runtime,), golden_timeout_s=20)


@pytest.fixture
def make_board(tmp_path):
    boards = []

    def make(name="board", **limits):
        folder = tmp_path / name
        folder.mkdir()
        boards.append(SshBoard(folder, name, **limits))
        return boards[-1]

    yield make
    for board in boards:
        board.close()


@pytest.fixture
def board(make_board):
    return make_board()


@pytest.fixture
def make_bundle(tmp_path):
    """Return a function that writes a bundle and returns its path."""

    def make(
        name="net.edgepipe",
        *,
        verdict="equal",
        board="host",
        architecture=None,
        stages=(),
        **files,
    ):
        contents = {"verdict": verdict.encode(), "stages/0_arm/weights.bin": bytes(100_000)}
        contents |= {f"stages/0_arm/{name}.bin": content for name, content in files.items()}
        architecture = architecture or platform.machine()
        assert architecture in ARCHITECTURES

        def manifest(entries):
            return Manifest(
                format=FORMAT,
                name="net",
                board=board,
                architectures=(architecture,),
                accelerator=Accelerator(),
                fingerprint=Fingerprint.of(Accelerator(), bitstream="", builder_version="0.1.0"),
                tensors=(),
                inputs=(),
                outputs=(),
                stages=stages,
                placement=(),
                preprocess=Preprocess(width=2, height=2, order="GRAY", mean=(0.0,), std=(1.0,)),
                postprocess=Postprocess(kind="none"),
                golden=Golden(inputs=(), outputs=()),
                files=entries,
            )

        path = tmp_path / name
        storage.write(path, contents, manifest)
        return path

    return make


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Return a program that replaces edgepipe-run and edgepipe-cam on ``machine``."""
    return supervised_place.compile_program(tmp_path_factory.mktemp("service") / "program")


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """Yield a machine with a real systemd."""
    folder = tmp_path_factory.mktemp("machine")
    for parent in (folder, *folder.parents):
        mode = parent.stat().st_mode
        if parent.stat().st_uid == os.geteuid() and mode & 0o055 != 0o055:
            parent.chmod(mode | 0o055)  # keeps what /tmp allows
    machine = SystemdMachine(folder)
    yield machine
    machine.close()
