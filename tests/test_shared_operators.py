"""Operators that ARM and the VTA share give the bits that they give on one device."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
import small_networks
from small_networks import DESCRIPTION, Builder

import edgepipe
from edgepipe import boards
from edgepipe.bundle import storage
from edgepipe.bundle_report.reading import read_report
from edgepipe.bundle_report.text import to_text
from edgepipe.cli.main import main
from edgepipe.errors import PartitionError
from edgepipe.forecast import ForecastOptions, forecast
from edgepipe.partition.target import share_text

BOARD = dataclasses.replace(boards.load("ultra96"), architecture="x86_64")
EXAMPLES = Path(__file__).parents[1] / "examples"
pytestmark = pytest.mark.sim


def residual() -> onnx.ModelProto:
    """Return residual sums with and without projections, a leaky one, and a dense layer."""
    b = Builder(11)
    same = {"pads": [1, 1, 1, 1]}
    x = b.conv("image", "stem", (32, 3, 3, 3), strides=[2, 2], **same)
    x = b.node("Relu", [x], "stem.relu")
    y = b.node("Relu", [b.conv(x, "a1", (32, 32, 3, 3), **same)], "a1.relu")
    x = b.node("Relu", [b.node("Add", [b.conv(y, "a2", (32, 32, 3, 3), **same), x], "a.sum")], "a")
    y = b.node("LeakyRelu", [b.conv(x, "b1", (40, 32, 3, 3), strides=[2, 2], **same)], "b1.relu",
               alpha=0.1)  # fmt: skip
    skip = b.conv(x, "b.skip", (40, 32, 1, 1), strides=[2, 2])
    x = b.node("Add", [b.conv(y, "b2", (40, 40, 3, 3), **same), skip], "b")
    up = b.constant("up.w", 0.2 * b.normal(40, 24, 2, 2))
    x = b.node("ConvTranspose", [x, up], "up", strides=[2, 2], kernel_shape=[2, 2])
    x = b.node("Flatten", [b.node("GlobalAveragePool", [x], "pool")], "flat")
    dense = [b.constant("dense.w", b.normal(37, 24)), b.constant("dense.b", b.normal(37))]
    b.node("Gemm", [x, *dense], "logits", transB=1)
    return b.model([1, 3, 16, 16], {"logits": 2})


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("residual")
    onnx.save(residual(), folder / "net.onnx")
    (folder / "net.toml").write_text(DESCRIPTION)
    np.savez(folder / "frames.npz", np.concatenate(list(small_networks.frames(4))))
    return folder / "net.onnx"


def built(network: Path, output: Path, placement: Mapping[str, str], **options: object) -> Path:
    return edgepipe.build(
        network, board=BOARD, calibration=network.parent / "frames.npz", output=output,
        placement=placement, **{"objective": "rule", **options},
    )  # fmt: skip


def outputs(bundle: Path, frames: list[np.ndarray]) -> Iterator[bytes]:
    name = storage.read_manifest(bundle).outputs[0]
    with edgepipe.load(bundle) as pipeline:
        for result in pipeline.map(frames):
            yield result.outputs[name].tobytes()


SHARES = {
    "stem.relu": 16, "a1.relu": 16, "a": 16, "b1.relu": 24, "b": 8, "up": 8, "logits.int8": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def expected(network: Path, tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Return the outputs of the network without shared operators."""
    frames = list(small_networks.frames(4))
    return list(outputs(built(network, tmp_path_factory.mktemp("plain") / "net", {}), frames))


@pytest.fixture(scope="module")
def bundle(network: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the network with every operator shared that can be, and export the placement."""
    path = tmp_path_factory.mktemp("shared") / "net.edgepipe"
    placement = {name: share_text(channels) for name, channels in SHARES.items()}
    return built(network, path, placement, export_placement=path.parent / "placement.toml")


def test_shared_operators_give_the_same_bits(bundle: Path, expected: list[bytes]) -> None:
    assert list(outputs(bundle, list(small_networks.frames(4)))) == expected


def test_the_bundle_says_where_the_halves_are(bundle: Path) -> None:
    placed = {p.operator: p for p in storage.read_manifest(bundle).placement}
    for name in SHARES:
        assert (placed[f"{name}.vta"].device, placed[f"{name}.arm"].device) == ("vta", "arm")
        assert placed[name].kind == "concat"
        assert placed[name].reason == f"joins the channels of {name} on vta and on arm"
    assert {name for name in SHARES if placed[name].device == "vta"} == {"stem.relu"}
    assert placed["b1.relu.vta"].reason == ("channels 0 to 15 of b1.relu; arm has its other 24")
    term = placed["a.arm.term0"]
    assert (term.kind, term.device, term.reason) == ("pick", "arm", "the channels that a.arm adds")
    shown = to_text(read_report(bundle))
    for name in SHARES:
        assert placed[f"{name}.vta"].reason in shown
        assert placed[f"{name}.arm"].reason in shown


@pytest.mark.networks
def test_a_placement_file_keeps_shares(network: Path, bundle: Path, tmp_path: Path) -> None:
    file = bundle.parent / "placement.toml"
    text = file.read_text()
    for name, channels in SHARES.items():
        assert f'"{name}" = "vta+arm:{channels}"  # conv' in text.replace("transposed_conv", "conv")
        assert f'"{name}.arm"' not in text
    again = built(network, tmp_path / "again.edgepipe", {}, placement_file=file)
    stages = [
        [(p.operator, p.stage) for p in storage.read_manifest(each).placement]
        for each in (bundle, again)
    ]
    assert stages[0] == stages[1]
    found = forecast(ForecastOptions(model=network, board=BOARD, placement_file=file))
    assert {o.name for o in found.operators} == {name for name, _ in stages[0]}


@pytest.mark.networks
def test_the_accuracy_of_shared_layers(
    network: Path, bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pictures = network.parent / "frames.npz"
    given = ("--network", network, "--calib", pictures, "--data", pictures)
    assert main(list(map(str, ("accuracy", bundle, *given, "--json")))) == 0
    layers = {each["name"]: each for each in json.loads(capsys.readouterr().out)["layers"]}
    stages = {p.operator: p.stage for p in storage.read_manifest(bundle).placement}
    assert layers["a"]["kind"] == "conv"
    assert layers["a"]["device"] == "vta+arm"
    assert layers["a"]["stage"] == f"{stages['a.vta']}+{stages['a.arm']}"
    assert layers["pool"]["device"] == "vta"
    assert layers["a"]["alone"]["snr_db"] > 20
    assert not {f"{name}.vta" for name in SHARES} & layers.keys()


def test_an_unknown_operator_cannot_be_shared(network: Path) -> None:
    with pytest.raises(PartitionError) as caught:
        forecast(ForecastOptions(model=network, board=BOARD, placement={"stem.rule": "vta+arm:16"}))
    assert str(caught.value) == "operator 'stem.rule' is unknown"
    assert "stem.relu" in caught.value.hint


@pytest.mark.models
@pytest.mark.networks
def test_a_real_network_gives_the_golden_bits(tmp_path: Path) -> None:
    """The golden output is that of the network without shared operators, on stock TVM."""
    start = "PartitionedCall_onnx_tf_prefix_"
    placement = {
        f"{start}LeakyRelu_14": "vta+arm:32",
        f"{start}Add_86": "vta+arm:48",
        "Conv_178": "vta+arm:44",
    }
    bundle = edgepipe.build(
        EXAMPLES / "nanodet_g_coco_416.onnx", board=BOARD, calibration=EXAMPLES / "calibration",
        calibration_frames=2, output=tmp_path / "net.edgepipe", placement=placement,
        objective="rule",
    )  # fmt: skip
    manifest = storage.read_manifest(bundle)
    golden = {
        each.tensor: storage.read_file(bundle, entry)
        for each in (*manifest.golden.inputs, *manifest.golden.outputs)
        for entry in manifest.files
        if entry.path == each.file
    }
    (name,) = manifest.inputs
    frame = np.frombuffer(golden[name], np.uint8).reshape(manifest.preprocess.frame_shape)
    with edgepipe.load(bundle) as pipeline:
        found = pipeline.submit(frame).result().outputs
    for output in manifest.outputs:
        assert found[output].tobytes() == golden[output]
