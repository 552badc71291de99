"""A network that needs more contiguous memory than a board has is arranged so that it fits."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import onnx
import pytest
import small_networks
from small_networks import DESCRIPTION, PREPROCESS, Builder

import edgepipe
from edgepipe import boards, recipe
from edgepipe.arrangement import arrange, compiled_cycles
from edgepipe.bundle import storage
from edgepipe.errors import PartitionError, UnbuildableError
from edgepipe.forecast import ForecastOptions, forecast
from edgepipe.frontend.network import import_network, read_model
from edgepipe.partition.wishes import Wishes
from edgepipe.progress import Silent
from edgepipe.quantize.quantizer import QuantizeOptions, quantize
from edgepipe.recipe import BuildOptions, build_bundle
from edgepipe.rehearsal import made_up_frames
from vta_stages.timing.timing_model import time_program

BOARD = boards.load("ultra96")
DENSE = 8 * 16 * 16 * 64  # weights


class Notices(Silent):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def notice(self, text: str) -> None:
        self.texts.append(text)


def heavy() -> onnx.ModelProto:
    """Return two convolutions and a dense layer with nearly all of the weights."""
    b = Builder(5)
    x = b.conv("image", "stem", (8, 3, 3, 3), pads=[1, 1, 1, 1])
    x = b.conv(x, "body", (8, 8, 3, 3), pads=[1, 1, 1, 1])
    x = b.node("Flatten", [x], "flat")
    weight = b.constant("dense.w", b.normal(8 * 16 * 16, 64))
    b.node("MatMul", [x, weight], "dense")
    return b.model([1, 3, 16, 16], {"dense": 2})


def board(dma_bytes: int) -> boards.Board:
    return dataclasses.replace(BOARD, dma_bytes=dma_bytes)


@pytest.fixture
def network(tmp_path: Path) -> Path:
    onnx.save(heavy(), tmp_path / "net.onnx")
    (tmp_path / "net.toml").write_text(DESCRIPTION)
    np.savez(tmp_path / "frames.npz", np.concatenate(list(small_networks.frames(2))))
    return tmp_path / "net.onnx"


def built(network: Path, dma_bytes: int, **options: object) -> tuple[Path, list[str]]:
    output = network.parent / f"{dma_bytes}.edgepipe"
    progress = Notices()
    given = BuildOptions(
        model=network,
        board=board(dma_bytes),
        calibration=network.parent / "frames.npz",
        output=output,
        objective="rule",  # a search would move the small layers without need
    )
    build_bundle(dataclasses.replace(given, **options), progress)  # type: ignore[arg-type]
    return output, [text for text in progress.texts if text.startswith("moved to arm")]


def test_a_heavy_layer_moves_to_arm_before_a_network_is_refused(network: Path) -> None:
    usual, notices = built(network, BOARD.dma_bytes)
    assert notices == []
    small, notices = built(network, DENSE)
    assert notices == [
        "moved to arm, because the pipeline would need more contiguous memory than the "
        f"{DENSE / (1 << 20):.0f} MiB of ultra96: dense.int8"
    ]
    manifests = [storage.read_manifest(bundle) for bundle in (usual, small)]
    devices = [{p.operator: p.device for p in manifest.placement} for manifest in manifests]
    assert devices[0]["dense.int8"] == "vta"
    assert devices[1] == devices[0] | {"dense.int8": "arm"}
    (reason,) = (p.reason for p in manifests[1].placement if p.operator == "dense.int8")
    assert "its weights on vta would need more contiguous memory" in reason
    frames = list(small_networks.frames(3))
    outputs = []
    for bundle in (usual, small):
        with edgepipe.load(bundle) as pipeline:
            outputs.append([pipeline.submit(frame).result().outputs["dense"] for frame in frames])
    np.testing.assert_array_equal(*outputs)


def test_a_pooling_that_a_convolution_computes_costs_nothing_more(tmp_path: Path) -> None:
    """A search would otherwise compare estimates of some layers with compiled ones of others."""
    b = Builder(3)
    x = b.conv("image", "stem", (16, 3, 3, 3), pads=[1, 1, 1, 1])
    x = b.node("Relu", [b.conv(x, "body", (16, 16, 3, 3), pads=[1, 1, 1, 1])], "relu")
    x = b.node("MaxPool", [x], "pool", kernel_shape=[2, 2], strides=[2, 2])
    b.conv(x, "result", (8, 16, 1, 1))
    onnx.save(b.model([1, 3, 16, 16], {"result": 4}), tmp_path / "net.onnx")
    imported = import_network(tmp_path / "net.onnx", read_model(tmp_path / "net.onnx"), (3, 16, 16))
    quantized = quantize(
        imported, made_up_frames(PREPROCESS), PREPROCESS, QuantizeOptions(frames=2)
    )
    check = recipe.vta_check(quantized, imported, BOARD)
    arranged = arrange(quantized, check, BOARD, Wishes(objective="rule"), Silent())
    cycles = compiled_cycles(arranged, BOARD)
    timing = time_program(next(iter(arranged.programs.values())), BOARD.timing)
    assert "relu+pool" in {layer.name for layer in timing.layers}
    assert cycles["relu"] > cycles["pool"] == 0
    assert sum(cycles.values()) == sum(layer.cycles for layer in timing.layers)


def test_what_is_asked_for_stays_and_is_refused(network: Path) -> None:
    with pytest.raises(PartitionError, match="the pipeline needs 0 MiB of contiguous memory"):
        built(network, DENSE // 2, placement={"dense.int8": "vta", "body": "vta"})


def test_the_forecast_moves_the_same_layer(network: Path) -> None:
    found = forecast(ForecastOptions(model=network, board=board(DENSE), objective="rule"))
    assert {o.name: o.device for o in found.operators}["dense.int8"] == "arm"
    assert any(notice.endswith("of ultra96: dense.int8") for notice in found.notices)
    assert found.memory.used_bytes <= DENSE
    with pytest.raises(UnbuildableError, match=r"net\.onnx does not build: the pipeline needs"):
        forecast(ForecastOptions(model=network, board=board(4096)))


def test_what_arm_cannot_run_does_not_move_there(network: Path) -> None:
    rules = network.parent / "rules.toml"
    rules.write_text(
        'format = 1\ndevice = "arm"\n\n[[rules]]\nkinds = ["conv"]\n'
        'when = { height = 1 }\ncan = false\nwhy = "no dense layers"\n'
    )
    options = ForecastOptions(model=network, board=board(DENSE), rules=(rules,))
    with pytest.raises(PartitionError, match="the pipeline needs"):
        forecast(options)
