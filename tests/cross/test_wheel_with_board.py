"""The installed wheels with a board: all commands that reach one, as typed, outside the repository.

The board is the virtual Ultra96, which the installed command starts, too.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from installed_wheels import MACHINE, Place, examples, install, wheel
from needs import BUILD

pytestmark = pytest.mark.networks


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Return an environment with the wheels, whose cache has the image of the tests' board."""
    folder = tmp_path_factory.mktemp("wheels")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    host = wheel(f"edgepipe-*_{MACHINE}.whl")
    found = install(folder, version, f"{host}[build]", wheel("edgepipe_boards-*.whl"))
    cache = folder / "cache"
    (cache / "edgepipe").mkdir(parents=True)
    (BUILD / "test-board").mkdir(parents=True, exist_ok=True)
    (cache / "edgepipe/virtual-board").symlink_to(BUILD / "test-board")
    return Place(found.scripts, found.folder, {"XDG_CACHE_HOME": str(cache)})


@pytest.fixture(scope="module")
def board(place: Place):
    """Yield the options by which commands reach a running virtual board."""
    place.run("edgepipe", "virtual-board", "down")
    place.run("edgepipe", "virtual-board", "up")
    config = Path(place.run("edgepipe", "virtual-board", "status", "--ssh-config").strip())
    yield ("--host", "virtual-ultra96", "--ssh-config", config)
    place.run("edgepipe", "virtual-board", "down")


@pytest.fixture(scope="module")
def bundle(place: Place) -> Path:
    calibration = ("--calib", examples(place) / "calibration")
    network = examples(place) / "fmnist_resnet8.onnx"
    build = ("edgepipe", "build", network, "--board", "ultra96", *calibration)
    place.run(*build, "-o", "net.edgepipe")
    return place.folder / "net.edgepipe"


def test_the_board_is_examined(place: Place, board: tuple[object, ...]) -> None:
    assert "coherency" in place.run("edgepipe", "doctor", *board, "--board", "ultra96")


def test_a_bundle_is_deployed_and_measured(
    place: Place, board: tuple[object, ...], bundle: Path
) -> None:
    place.run("edgepipe", "deploy", bundle, *board)
    assert "unchanged" in place.run("edgepipe", "deploy", bundle, *board)
    assert "net" in place.run("edgepipe", "deploy", "--list", *board)
    place.run("edgepipe", "bench", bundle, *board, "--frames", "2", "-o", "bench.json")


def test_its_golden_run_over_rpc_is_bit_equal_on_the_accelerator(
    place: Place, board: tuple[object, ...], bundle: Path
) -> None:
    said = place.run("edgepipe", "rpc", "run", bundle, *board, "--allow-root", "--device", "uio")
    assert "VTA stages ran on: uio" in said


def test_top_says_that_nothing_runs(place: Place, board: tuple[object, ...]) -> None:
    said = place.run("edgepipe", "top", *board, "--once", code=1)
    assert "edgepipe: error: " in said
    assert "Traceback" not in said
