"""The examples run as their own texts say, from the repository's folder."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import edgepipe

ROOT = Path(__file__).resolve().parent.parent
BUNDLE = "build/demo/nanodet.edgepipe"  # what `make demo` leaves

pytestmark = [pytest.mark.models, pytest.mark.sim]


@pytest.fixture(scope="module")
def nanodet(model_path: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle like that of `make demo`, calibrated with two pictures."""
    return edgepipe.build(
        model_path("nanodet_g_coco_416"),
        board="ultra96",
        calibration=ROOT / "examples/calibration",
        output=tmp_path_factory.mktemp("nanodet") / "nanodet.edgepipe",
        calibration_frames=2,
    )


def run_as_documented(script: str, replaced: dict[str, Path]) -> str:
    """Run the command in the script's docstring; return what it prints."""
    text = ast.get_docstring(ast.parse((ROOT / script).read_text()), clean=False) or ""
    (command,) = re.findall(rf"^ *python ({script}(?:.*\\\n)*.*)$", text, re.M)
    for path, found in replaced.items():
        assert path in command
        command = command.replace(path, str(found))
    ran = subprocess.run(
        [sys.executable, *shlex.split(command)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_run_bundle_finds_the_dog(nanodet: Path) -> None:
    printed = run_as_documented("examples/run_bundle.py", {BUNDLE: nanodet})
    assert re.search(r"^dog +0\.\d\d  \(\d+, \d+\) to \(\d+, \d+\)$", printed, re.M), printed


def test_python_stage_reports_people_from_the_second_frame_on(nanodet: Path) -> None:
    printed = run_as_documented("examples/python_stage.py", {BUNDLE: nanodet})
    scores = [float(score) for score in re.findall(r"^frame +\d+: (\d\.\d\d)$", printed, re.M)]
    assert len(scores) == 40
    assert scores[0] == 0  # nothing has moved yet
    assert min(scores[1:]) > 0.4


def test_own_board_runs_on_its_own_simulator() -> None:
    printed = run_as_documented("examples/own_board/run.py", {})
    assert "frame 0: 3 classes" in printed
    assert re.search(r"^vta1: \d+\.\d\d ms$", printed, re.M), printed


@pytest.mark.parametrize("script", ["examples/run_bundle.py", "examples/own_board/run.py"])
def test_an_example_explains_what_is_wrong(script: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, script, str(tmp_path / "missing.toml"), "picture.jpg"][
            : 4 - ("own" in script)
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert ran.returncode == 1
    assert "missing.toml" in ran.stderr
    assert "\nhint: " in ran.stderr
    assert "Traceback" not in ran.stderr
