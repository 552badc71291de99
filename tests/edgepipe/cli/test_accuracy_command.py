"""``edgepipe accuracy`` on a small bundle: layers, labels, the board's bits, and its errors."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
import small_networks
from command_line import assert_fails, run
from needs import rpcd

from edgepipe.accuracy.data import read_pictures
from edgepipe.accuracy.devices import OnBoard, as_array
from edgepipe.bundle import storage
from edgepipe.errors import DifferenceError
from edgepipe.runtime.library import call

pytestmark = pytest.mark.sim

LAYERS = [
    *("image.int8", "stem_Clip", "block_depth_Clip", "block_Relu", "pool_Pool"),
    *("logits.int8", "logits"),
]


def accuracy(bundle: Path, *arguments: object, **changes: Path) -> int:
    """Run the command on a bundle and the files next to it."""
    given = {
        "network": bundle.parent / "net.onnx",
        "calib": bundle.parent / "calib.npz",
        "data": bundle.parent / "calib.npz",
    } | changes
    return int(
        run("accuracy", bundle, *(p for n, v in given.items() for p in (f"--{n}", v)), *arguments)
    )


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("labels") / "labels.csv"
    path.write_text("0,1\n1,2\n2,0\n3,1\n")
    return path


def test_layers_and_labels(
    built: Path, labels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chart = tmp_path / "layers.svg"
    assert accuracy(built, "--labels", labels, "--json", "--chart", chart) == 0
    found = json.loads(capsys.readouterr().out)
    assert [layer["name"] for layer in found["layers"]] == LAYERS
    assert (found["layer_pictures"], found["pictures"], found["compared"]) == (4, 4, False)
    (top,) = found["figures"]
    assert top["name"] == "top-1"
    assert {top["exact"], top["found"]} <= {0, 0.25, 0.5, 0.75, 1}
    by_name: dict[str, Any] = {layer["name"]: layer for layer in found["layers"]}
    for layer in found["layers"]:
        for mode in ("so_far", "alone"):
            assert layer[mode]["snr_db"] > 30
            assert layer[mode]["cosine"] > 0.999
    # The picture's table has no layer before it; the last operator only multiplies by a step.
    assert by_name["image.int8"]["so_far"] == by_name["image.int8"]["alone"]
    decibels = [by_name[name]["so_far"]["snr_db"] for name in ("logits", "logits.int8")]
    assert decibels[0] == pytest.approx(decibels[1], abs=0.01)
    assert by_name["block_Relu"]["alone"]["snr_db"] > by_name["block_Relu"]["so_far"]["snr_db"]
    assert by_name["block_Relu"]["stage"] == "vta1"
    titles = [
        title.text for title in ElementTree.parse(chart).iter() if title.tag.endswith("title")
    ]
    assert len(titles) == 2 * len(LAYERS)
    assert titles[2].startswith("stem_Clip, so far: ")


def test_a_server_computes_the_bits_of_the_simulator(
    built: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "own_metric.py").write_text(
        "def largest(name, outputs):\n    return float(outputs['logits'].max())\n"
    )
    monkeypatch.chdir(tmp_path)  # where the command looks for the module, too
    server = ("--device", "auto", "--server", rpcd(), "--allow-root")
    own = ("--metric", "own_metric:largest", "--pictures", 2, "--layer-pictures", 0)
    assert accuracy(built, *server, *own) == 0
    out = capsys.readouterr().out
    assert "net on edgepipe-rpcd (auto), 2 pictures\n" in out
    _, exact, found, _ = next(line for line in out.splitlines() if "largest" in line).split()
    assert float(found) == pytest.approx(float(exact), abs=0.1)
    assert (
        "edgepipe-rpcd (auto): every tensor between stages bit-equal to the simulator, 2 pictures"
        in out
    )


def flipped(built: Path, host: str) -> OnBoard:
    """Return a board that computes one wrong bit in the second stage, at element [0, 3, 2, 1]."""
    manifest = storage.read_manifest(built)
    near = call("open_bundle", os.fspath(built), "simulator")["call_stage"]
    tensor = manifest.tensor(manifest.stages[0].outputs[0])
    width = tensor.shape[3]
    block = manifest.accelerator.block_in
    place = (2 * width + 1) * block + 3

    def far(index: int, *inputs: bytes) -> bytes:
        content = bytearray(bytes(near(index, *inputs)))
        if index == 0:
            content[place] ^= 1
        return bytes(content)

    assert tensor.layout == "vta"
    array = as_array(tensor, bytes(range(256)) * (tensor.bytes // 256), manifest.accelerator)
    assert array[0, 3, 2, 1] == np.int8(np.uint8(place % 256))
    return OnBoard(host=host, device="uio", manifest=manifest, _far=far, _near=near)


@pytest.mark.parametrize("host", ["door-camera", ""])
def test_a_board_with_other_bits_is_an_error_that_names_layer_and_element(
    built: Path, host: str
) -> None:
    board = flipped(built, host)
    (picture, *_) = read_pictures(built.parent / "calib.npz", board.manifest.preprocess)
    with pytest.raises(DifferenceError) as caught:
        list(board.run([picture]))
    found = str(caught.value)
    assert found.startswith(
        f"{host or 'edgepipe-rpcd'} (uio): layer stem_Clip (stage arm0) differs from the simulator "
        "in picture 0, first at element [0, 3, 2, 1]: "
    )
    assert found.endswith(" (1 of 512 elements)")
    assert caught.value.hint == "examine the board"
    assert (caught.value.option, caught.value.value) == ("examination" if host else "", host)


def test_the_exit_code_of_a_board_with_other_bits(
    built: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    board = flipped(built, "door-camera")
    monkeypatch.setattr(OnBoard, "open", lambda *_, **__: board)
    monkeypatch.setattr("edgepipe.rpc.connect", lambda *_, **__: contextlib.nullcontext())
    arguments = ("--device", "uio", "--server", rpcd(), "--allow-root", "--layer-pictures", 0)
    assert accuracy(built, *arguments) == 20
    hint = "hint: examine the board: edgepipe doctor --host door-camera\n"
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_that_other_code_swallows(
    built: Path,
    tmp_path: Path,
    number: signal.Signals,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def swallowing(*_: object) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(number)

    monkeypatch.setattr("edgepipe.accuracy.measurement.load_pair", swallowing)
    assert accuracy(built, "--chart", tmp_path / "layers.svg") == 130
    written = capsys.readouterr()
    assert "interrupted" in written.err
    assert written.out == ""
    assert list(tmp_path.iterdir()) == []


def test_another_network(built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(small_networks.with_float_middle(), tmp_path / "other.onnx")
    assert_fails(
        capsys,
        accuracy(built, network=tmp_path / "other.onnx"),
        f"{tmp_path}/other.onnx: reads image and gives result, net.edgepipe reads image and gives "
        "logits",
        "give the network that the bundle was built from: --network MODEL",
    )


def test_other_calibration_pictures(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "other.npz", np.concatenate(list(small_networks.frames(2, seed=5))))
    assert_fails(
        capsys,
        accuracy(built, calib=tmp_path / "other.npz"),
        f"net.onnx: quantised with {tmp_path}/other.npz, its output logits is not the golden "
        "output of net.edgepipe",
        "give the network and the calibration pictures, as many of them, or the scheme that the "
        "bundle was built from, and its float and int16 layers, on a processor with the same "
        "vector instructions, or build it again",
    )


def test_a_metric_for_boxes_of_a_classifier(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_fails(
        capsys,
        accuracy(built, "--boxes", tmp_path / "none.json"),
        "net: its outputs are described as 'classify', expected a detector's",
        "write a function for this network's measure: --metric MODULE:FUNCTION",
    )


def test_a_chart_in_a_folder_that_does_not_exist(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chart = tmp_path / "none/layers.svg"
    assert_fails(
        capsys,
        accuracy(built, "--chart", chart),
        f"{chart}: its folder does not exist",
        "create the folder first",
    )
