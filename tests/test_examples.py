"""The examples run as their own texts describe, from the repository's folder."""

from __future__ import annotations

import ast
import base64
import ctypes
import importlib.util
import itertools
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient
from needs import cpp_package

import edgepipe
import edgepipe_runtime

ROOT = Path(__file__).resolve().parent.parent
BUNDLE = "build/demo/nanodet.edgepipe"  # written by `make demo`

pytestmark = [pytest.mark.models, pytest.mark.sim]


@pytest.fixture(scope="module")
def readme(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run the README's Python in a folder with the examples; return the folder and the output."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "examples").symlink_to(ROOT / "examples")
    (code,) = python_blocks("README.md")
    return folder, succeed("-c", code, folder=folder)


@pytest.fixture(scope="module")
def nanodet(readme: tuple[Path, str]) -> Path:
    """Return the bundle that the README builds, the same as that of `make demo`."""
    return readme[0] / "nanodet.edgepipe"


def python_blocks(document: str) -> list[str]:
    """Return the Python of a document, without included files."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)


def succeed(*arguments: object, folder: Path = ROOT) -> str:
    """Run Python in a folder and return what it prints."""
    ran = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def run_as_documented(script: str, replaced: dict[str, Path]) -> str:
    """Run the command in the script's docstring; return what it prints."""
    text = ast.get_docstring(ast.parse((ROOT / script).read_text()), clean=False) or ""
    (command,) = re.findall(rf"^ *python ({script}(?:.*\\\n)*.*)$", text, re.M)
    command = command.replace("\\\n", " ")
    for path, found in replaced.items():
        assert path in command
        command = command.replace(path, str(found))
    return succeed(*shlex.split(command))


def test_the_readmes_python_prints_what_the_readme_says(readme: tuple[Path, str]) -> None:
    """But for last digits: onnxruntime's sums, and so the ranges of int8, differ by processor."""
    (documented,) = re.findall(
        r"^```text\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S
    )
    line = re.compile(r"^(\w+) +(\d\.\d\d) at x (\d+), y (\d+)$", re.M)
    found, expected = line.findall(readme[1]), line.findall(documented)
    assert [label for label, *_ in found] == [label for label, *_ in expected] == ["bicycle", "dog"]
    numbers, documented_numbers = (
        np.array([numbers for _, *numbers in lines], float) for lines in (found, expected)
    )
    assert (abs(numbers - documented_numbers) <= (0.03, 4, 4)).all(), readme[1]


@pytest.mark.systems
def test_the_tutorials_python_runs(readme: tuple[Path, str]) -> None:
    boxes, people = python_blocks("docs/tutorial/first-bundle.md")
    assert "dog 0.45" in succeed("-c", boxes, folder=readme[0])
    counts = re.findall(r"^\d+ (\d+) people$", succeed("-c", people, folder=readme[0]), re.M)
    assert len(counts) == 200
    assert min(map(int, counts)) > 0


def test_the_python_stage_of_the_guide_runs() -> None:
    (code,) = python_blocks("docs/guides/own-python-stage.md")
    assert succeed("-c", code) == "[80.]\n"


def test_run_bundle_finds_the_dog(nanodet: Path) -> None:
    printed = run_as_documented("examples/run_bundle.py", {BUNDLE: nanodet})
    assert re.search(r"^dog +0\.\d\d  \(\d+, \d+\) to \(\d+, \d+\)$", printed, re.M), printed


def test_python_stage_reports_people_from_the_second_frame_on(nanodet: Path) -> None:
    printed = run_as_documented("examples/python_stage.py", {BUNDLE: nanodet})
    scores = [float(score) for score in re.findall(r"^frame +\d+: (\d\.\d\d)$", printed, re.M)]
    assert len(scores) == 40
    assert scores[0] == 0  # nothing has moved yet
    assert min(scores[1:]) > 0.4


def test_board_camera_sees_the_dog(nanodet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # where pip has not installed edgepipe_runtime
    printed = run_as_documented("examples/board_camera.py", {BUNDLE: nanodet})
    assert re.search(r"^frame 0: .*dog 0\.\d\d", printed, re.M), printed
    assert re.search(r"^\d+\.\d frames/s on simulator$", printed, re.M), printed


def test_the_notebook_runs_in_jupyter(
    nanodet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    (tmp_path / "nanodet.edgepipe").symlink_to(nanodet)
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures/dog.jpg").symlink_to(ROOT / "examples/calibration/dog.jpg")
    notebook = nbformat.read(ROOT / "examples/board.ipynb", as_version=4)
    (camera,) = (cell for cell in notebook.cells if "CAMERA = 0" in cell.source)
    camera.source = camera.source.replace("CAMERA = 0", "CAMERA = 63")  # there is none

    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, resources=resources).execute()

    outputs = [each for cell in notebook.cells for each in cell.get("outputs", ())]
    printed = "".join(each.text for each in outputs if each.get("name") == "stdout")
    assert "nanodet_g_coco_416 on simulator\nstages: arm0, vta1, arm2\n" in printed
    assert re.search(r"^dog 0\.\d\d at \d+,\d+$", printed, re.M), printed
    assert re.search(r"^\d+\.\d frames/s\narm0: \d+\.\d ms$", printed, re.M), printed
    assert "camera 63 gives no picture\n" in printed
    (picture,) = (each.data["image/jpeg"] for each in outputs if "data" in each)
    assert base64.b64decode(picture).startswith(b"\xff\xd8")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle that tells clothes apart; what it says of dogs does not matter here."""
    path = tmp_path_factory.mktemp("classifier") / "classifier.edgepipe"
    calibration = ROOT / "examples/calibration"
    edgepipe.build(
        ROOT / "examples/fmnist_resnet8.onnx", board="ultra96", calibration=calibration, output=path
    )
    return path


def test_cascade_classifies_the_dog(
    nanodet: Path, classifier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    replaced = {BUNDLE: nanodet, "build/demo/classifier.edgepipe": classifier}
    printed = run_as_documented("examples/cascade.py", replaced)
    assert re.search(r"^picture 0: dog 0\.\d\d at \d+,\d+: [A-Z].* \d\.\d\d$", printed, re.M), (
        printed
    )
    assert len(re.findall(r"^picture \d+: person ", printed, re.M)) > 20


def test_a_cascade_sees_what_its_networks_see_one_by_one(nanodet: Path, classifier: Path) -> None:
    spec = importlib.util.spec_from_file_location("cascade", ROOT / "examples/cascade.py")
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    pictures = list(itertools.islice(example.pictures(str(ROOT / "examples/pedestrians.avi")), 12))
    pictures.insert(3, np.zeros_like(pictures[0]))  # in which there is nothing
    with (
        edgepipe_runtime.load(nanodet, device="auto:shared", pinning="off") as first,
        edgepipe_runtime.load(classifier, device="auto:shared", pinning="off") as second,
    ):
        cascade = example.Cascade(first, second, labels=["person"], most=3)
        seen = list(cascade.map(iter(pictures)))
        assert all(picture is given for (picture, _), given in zip(seen, pictures, strict=True))
        assert seen[3][1] == []
        for picture, found in seen:
            people = [box for box in first(picture).detections if box.label == "person"][:3]
            assert [box for box, _ in found] == people
            for (_, crop), (_, result) in zip(
                cascade.crops(picture, first(picture)), found, strict=True
            ):
                alone = second(crop.copy())
                assert result.outputs[0].tobytes() == alone.outputs[0].tobytes()
    assert max(len(found) for _, found in seen) == 3


def test_own_board_runs_on_its_own_simulator() -> None:
    printed = run_as_documented("examples/own_board/run.py", {})
    assert "frame 0: 3 classes" in printed
    assert re.search(r"^vta1: \d+\.\d\d ms$", printed, re.M), printed


@pytest.fixture(scope="module")
def cpp_builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the C++ examples with the commands of their guides; return their folder."""
    folder = tmp_path_factory.mktemp("build")
    package = cpp_package("host", tmp_path_factory.mktemp("sdk"))
    for guide in ("own-cpp-stage.md", "own-decoder.md", "own-device.md"):
        text = (ROOT / "docs/guides" / guide).read_text(encoding="utf-8")
        (commands,) = re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S)
        commands = commands.replace("$(edgepipe --cmake-dir)", str(package))
        ran = subprocess.run(
            ["sh", "-e", "-c", commands.replace(" build/", f" {folder}/")],
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder


def test_cpp_stage_helps_the_network_to_see_in_the_dark(nanodet: Path, cpp_builds: Path) -> None:
    library = cpp_builds / "cpp_stage/libauto_contrast.so"
    printed = run_as_documented(
        "examples/cpp_stage/run.py",
        {"build/cpp_stage/libauto_contrast.so": library, BUNDLE: nanodet},
    )
    alone, behind = (float(score) for score in re.findall(r"best score (\d\.\d\d)$", printed, re.M))
    assert behind > alone + 0.3


def test_cpp_device_runs_a_bundle_bit_exactly(nanodet: Path, cpp_builds: Path) -> None:
    text = (ROOT / "docs/guides/own-device.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^build/(cpp_device/stopwatch .*)$", text, re.M)
    ran = subprocess.run(
        shlex.split(f"{cpp_builds}/{command.replace(BUNDLE, str(nanodet))}"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "golden: 20 frames x 6 outputs are bit-equal" in ran.stderr
    assert "VTA stages ran on: stopwatch" in ran.stderr
    assert re.search(r"^stopwatch: 20 runs, \d+\.\d+ ms each$", ran.stderr, re.M)


def test_the_own_decoders_library_has_the_function_of_its_description(cpp_builds: Path) -> None:
    text = (ROOT / "examples/own_decoder/fmnist.toml").read_text(encoding="utf-8")
    postprocess = tomllib.loads(text)["postprocess"]
    (library,) = postprocess["libraries"]
    loaded = ctypes.CDLL(str(cpp_builds / Path(library).relative_to("../../build")))
    assert hasattr(loaded, postprocess["symbol"])


@pytest.mark.parametrize(
    "command",
    ["examples/run_bundle.py missing.edgepipe dog.jpg", "examples/own_board/run.py missing.toml"],
)
def test_an_example_explains_the_problem(command: str) -> None:
    ran = subprocess.run(
        [sys.executable, *command.split()], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith("missing.")
    assert "\nhint: " in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.systems
def test_a_split_by_measured_costs_is_compared(tmp_path: Path) -> None:
    printed = run_as_documented("examples/choose_split.py", {"build/splits": tmp_path})
    names = ("shipped", "board", "network")
    assert {path.name for path in tmp_path.iterdir()} == {
        *(f"{name}.edgepipe" for name in names),
        *(f"{name}.json" for name in names),
        *("board.toml", "costs.toml"),
    }
    assert printed.count("all outputs bit-equal to the golden ones") == 3
    for name in names:
        assert re.search(f"^{name}: .* stages, .*, the same bits$", printed, re.MULTILINE), name
