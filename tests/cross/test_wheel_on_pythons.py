"""The wheels of `make wheel` on every Python at hand: commands as typed, outside the repository.

For each Python, pip downloads what the wheels require, among it TVM, so the marker is `networks`. A
Python that is not at hand is a skipped test that names it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from installed_wheels import MACHINE, examples, install, wheel

from edgepipe.cli.commands import COMMANDS

pytestmark = pytest.mark.networks

PYTHONS = ("3.11", "3.12", "3.13")
NO_BOARD = "xilinx@no-such-board.invalid"


@pytest.fixture(scope="module", params=PYTHONS)
def version(request):
    return request.param


@pytest.fixture(scope="module")
def builder(version, tmp_path_factory):
    """What builds: the wheel with `[build]`, and the programs for boards."""
    packages = (f"{wheel(f'edgepipe-*_{MACHINE}.whl')}[build]", wheel("edgepipe_boards-*.whl"))
    return install(tmp_path_factory.mktemp("builder"), version, *packages)


@pytest.fixture(scope="module")
def watcher(version, tmp_path_factory):
    """What deploys, examines and watches: the wheel alone."""
    return install(tmp_path_factory.mktemp("watcher"), version, wheel(f"edgepipe-*_{MACHINE}.whl"))


@pytest.fixture(scope="module")
def bundle(builder):
    """A bundle that the installed command has built from an example in the wheel."""
    builder.run("edgepipe", "models", "get", "fmnist_resnet8")
    builder.run(
        *("edgepipe", "build", "fmnist_resnet8.onnx", "--board", "ultra96"),
        *("--calib", examples(builder) / "calibration", "-o", "net.edgepipe"),
    )
    return builder.folder / "net.edgepipe"


def test_every_command_shows_its_help(builder):
    assert re.fullmatch(r"edgepipe \d+\.\d+\.\d+\n", builder.run("edgepipe", "--version"))
    listed = builder.run("edgepipe", "--help")
    for command in COMMANDS:
        name = command.replace("_", "-")
        assert re.search(rf"^    {name}\s", listed, re.M)
        assert builder.run("edgepipe", name, "--help").startswith(f"usage: edgepipe {name} ")


def test_documents_in_help_and_hints_are_files_of_the_wheel(builder):
    said = builder.run("edgepipe", "deploy", "--help")
    (path,) = re.findall(r"\((/\S+\.md)\)", said)
    assert Path(path).read_text(encoding="utf-8").startswith("# ")
    (builder.folder / "wrong.toml").write_text("[preprocess]\nwidth = 'a'\n")
    network = examples(builder) / "fmnist_resnet8.onnx"
    said = builder.run(
        *("edgepipe", "inspect", network, "--description", "wrong.toml"),
        code=1,
    )
    (path,) = re.findall(r"correct the description; (/\S+\.md) explains every key", said)
    assert path.endswith("/docs/reference/description.md")
    assert Path(path).is_file()


def test_a_network_of_the_wheel_is_built_examined_and_run(builder, bundle):
    assert "fmnist_resnet8" in builder.run("edgepipe", "models", "list")
    assert "net" in builder.run("edgepipe", "inspect", bundle, "--operators")
    builder.run("edgepipe", "report", bundle, "-o", "report.html")
    assert "<svg" in (builder.folder / "report.html").read_text(encoding="utf-8")
    pictures = examples(builder) / "calibration"
    builder.run("edgepipe", "run", bundle, "--input", pictures, "--output", "results")
    lines = (builder.folder / "results" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(list(pictures.iterdir()))
    assert all(json.loads(line) for line in lines)


def test_the_programs_without_python_run(builder, bundle):
    assert "bit-equal" in builder.run("edgepipe-run", bundle, "--golden")
    for program in ("edgepipe-cam", "edgepipe-rpcd"):  # the second one loads TVM's libraries
        assert "usage" in builder.run(program, "--help").lower()


def test_deploy_finds_the_programs_for_boards_and_then_looks_for_the_board(builder, bundle):
    said = builder.run("edgepipe", "deploy", bundle, "--host", NO_BOARD, code=1)
    assert "no-such-board.invalid" in said.split("edgepipe: error: ")[1]


def test_what_deploys_examines_and_watches_needs_no_tvm(watcher, bundle):
    assert "No module named 'tvm'" in watcher.run("python", "-c", "import tvm", code=1)
    for command in ("deploy", "doctor", "logs", "top", "bitstream", "virtual-board", "setup-board"):
        watcher.run("edgepipe", command, "--help")
    assert "net" in watcher.run("edgepipe", "inspect", bundle)
    pictures = examples(watcher) / "calibration"
    watcher.run("edgepipe", "run", bundle, "--input", pictures, "--output", "results")


def test_deploy_without_programs_for_boards_says_so_before_it_looks_for_the_board(watcher, bundle):
    said = watcher.run("edgepipe", "deploy", bundle, "--host", NO_BOARD, code=1)
    assert "edgepipe: error: edgepipe-run: no program for aarch64 boards" in said
    assert (
        "hint: install edgepipe-boards, build it with `make board`, or name one: --runtime FILE"
        in said
    )
