"""``edgepipe models``: what it prints, its exit codes, and networks that build from what it got."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import cv2
import pytest
from command_line import EDGEPIPE, assert_fails, run
from needs import lacking
from small_zoo import SmallZoo

from bench import pictures
from bench.lacking import LackingError
from edgepipe.zoo import catalogue

# In the place of pip: it says that it runs, and waits.
SLOW_PIP = """
import os, pathlib, time
pathlib.Path(os.environ["RUNNING"]).write_text(str(os.getpid()))
time.sleep(300)
"""


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    folder = tmp_path / "index"
    folder.mkdir()
    made = SmallZoo(folder)
    made.set_up(monkeypatch)
    return made


def test_the_list_has_every_network(capsys):
    assert run("models", "list") == 0
    printed = capsys.readouterr().out
    assert re.search(
        r"^ppocr_det +320x320x3 +Apache-2.0 +rapidocr_onnxruntime==1.4.4 +0\.\d{4} +\d+ +\d+\.\d"
        r" +text detection$",
        printed,
        re.M,
    )
    assert re.search(r"^fmnist_resnet8 +28x28x1 +Apache-2.0 +examples ", printed, re.M)
    assert "stages, frames/s: predicted for the board ultra96 by the timing model" in printed


def test_the_list_as_json_says_where_its_figures_are_from(capsys):
    assert run("models", "list", "--json") == 0
    records = {record["name"]: record for record in json.loads(capsys.readouterr().out)}
    assert records.keys() == catalogue.models().keys()
    yolox = records["yolox"]
    assert yolox["input"] == {"width": 416, "height": 416, "channels": 3}
    assert yolox["figures"]["source"] == "docs/reference/networks.md"
    assert yolox["figures"]["board"] == "ultra96"
    assert yolox["figures"]["compares"] == "outputs"
    assert 'kind = "yolox"' in yolox["description"]


@pytest.mark.sim
def test_a_network_is_got_and_built(zoo, project, tmp_path, capsys):
    folder = tmp_path / "models"
    assert run("models", "get", "tiny", "-o", folder) == 0
    printed = capsys.readouterr().out
    assert f"{folder}/tiny.onnx\nlicence  MIT, small==1.0\n" in printed
    assert f"next: edgepipe build {folder}/tiny.onnx --board ultra96 --calib PICTURES" in printed
    assert run("models", "get", "tiny", "-o", folder) == 0
    assert "tiny.onnx: is there already, nothing was downloaded" in capsys.readouterr().out
    arguments = ["--board", "host", "--calib", project / "pictures", "-o", tmp_path / "out"]
    assert run("build", folder / "tiny.onnx", *arguments) == 0


def test_a_wrong_name_is_one_error_with_the_nearest_names(tmp_path, capsys):
    code = run("models", "get", "ppocr_dett", "-o", tmp_path)
    message = "ppocr_dett: is not a network of the zoo, expected one of 8 names"
    assert_fails(capsys, code, message, "did you mean: ppocr_det")


def test_a_file_is_replaced_only_with_force(tmp_path, capsys):
    (tmp_path / "fmnist_resnet8.onnx").write_text("mine")
    code = run("models", "get", "fmnist_resnet8", "-o", tmp_path)
    hint = "choose another folder, or replace the file: --force"
    assert_fails(capsys, code, "fmnist_resnet8.onnx: exists and is not the zoo's", hint)
    assert run("models", "get", "fmnist_resnet8", "-o", tmp_path, "--force") == 0


def test_a_folder_that_is_a_file_is_one_error(tmp_path, capsys):
    (tmp_path / "file").touch()
    code = run("models", "get", "fmnist_resnet8", "-o", tmp_path / "file")
    hint = "choose another folder: --output DIR"
    assert_fails(capsys, code, f"{tmp_path}/file: cannot be written (File exists)", hint)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_download_leaves_nothing(number, tmp_path):
    shadow = tmp_path / "shadow/pip"
    shadow.mkdir(parents=True)
    (shadow / "__init__.py").touch()
    (shadow / "__main__.py").write_text(SLOW_PIP)
    running, scratch = tmp_path / "running", tmp_path / "scratch"
    scratch.mkdir()
    paths = f"{tmp_path / 'shadow'}:{os.environ.get('PYTHONPATH', Path.cwd())}"
    own = {"PYTHONPATH": paths, "RUNNING": str(running), "TMPDIR": str(scratch)}
    command = [*EDGEPIPE, "models", "get", "yolox", "-o", str(tmp_path / "to")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | own) as ran:
        deadline = time.monotonic() + 60
        while not (running.is_file() and running.read_text()) and time.monotonic() < deadline:
            time.sleep(0.02)
        ran.send_signal(number)
        errors = ran.communicate(timeout=60)[1]
    assert ran.returncode == 130, errors
    assert "edgepipe: interrupted; no partly written output is left behind" in errors
    assert not (tmp_path / "to").exists()
    assert list(scratch.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(running.read_text()), 0)


@pytest.mark.networks
def test_a_network_of_pypi_is_got_and_built(tmp_path):
    folder = tmp_path / "models"
    try:
        texts = pictures.lines(16, 1)
    except LackingError as error:
        lacking(error)
    (tmp_path / "pictures").mkdir()
    for index, picture in enumerate(texts):
        cv2.imwrite(str(tmp_path / f"pictures/{index}.png"), picture)
    assert run("models", "get", "ppocr_cls", "-o", folder) == 0
    arguments = ["--board", "host", "--calib", tmp_path / "pictures", "-o", tmp_path / "out"]
    assert run("build", folder / "ppocr_cls.onnx", *arguments) == 0
    assert run("run", tmp_path / "out", "--input", tmp_path / "pictures/0.png") == 0
