"""Bundles whose first layer reads a folded picture on the accelerator compute the same bits."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from exported_networks.exact import build_exactly, options
from needs import built as built_program
from small_networks import Builder

from edgepipe.bundle.manifest import Manifest

pytestmark = pytest.mark.sim

HEIGHT, WIDTH = 32, 48


def network(
    kernel: int,
    stride: int,
    pads: list[int],
    *,
    channels: int = 3,
    in_float: bool = False,
    in_two: bool = False,
    height: int = HEIGHT,
    width: int = WIDTH,
) -> onnx.ModelProto:
    """A first layer with ReLU6 and a max pooling, and a residual block.

    ``in_float``: something without an integer form is between picture and first layer. ``in_two``:
    another layer reads the picture.
    """
    b = Builder(kernel)
    picture = b.node("Trilu", ["image"], "upper") if in_float else "image"
    x = b.conv(picture, "stem", (24, channels, kernel, kernel), strides=[stride] * 2, pads=pads)
    low, high = b.constant("zero", np.float32(0)), b.constant("six", np.float32(6))
    x = b.node("Clip", [x, low, high], "clip")
    if in_two:
        y = b.conv(picture, "other", (24, channels, 1, 1), strides=[stride] * 2)
        x = b.node("Add", [x, y], "both")
    x = b.node("MaxPool", [x], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    y = b.node("Relu", [b.conv(x, "first", (24, 24, 3, 3), pads=[1] * 4)], "relu")
    x = b.node("Add", [b.conv(y, "second", (24, 24, 3, 3), pads=[1] * 4), x], "added")
    x = b.node("GlobalAveragePool", [x], "mean")
    b.conv(x, "result", (6, 24, 1, 1))
    return b.model([1, channels, height, width], {"result": 4}, opset=14)


def built(model: onnx.ModelProto, folder: Path, **more: object) -> tuple[Path, Manifest]:
    """Build the network with its first layer on the accelerator, and compare its golden frame."""
    onnx.save(model, folder / "net.onnx")
    channels, height, width = (
        each.dim_value for each in model.graph.input[0].type.tensor_type.shape.dim[1:]
    )
    given = options(folder, folder / "net.onnx", height, width, channels)
    wishes = {"placement": {"clip": "vta"}} | more
    given = dataclasses.replace(given, **wishes)  # type: ignore[arg-type]
    return given.output, build_exactly(given)


@pytest.mark.parametrize(
    ("kernel", "stride", "pads", "more", "layout"),
    [
        pytest.param(7, 2, [3, 3, 3, 3], {}, "vta_2x2", id="ResNet"),
        pytest.param(3, 2, [0, 0, 1, 1], {}, "vta_2x2", id="MobileNet of TensorFlow"),
        pytest.param(6, 2, [2, 1, 3, 2], {"channels": 1}, "vta_2x2", id="gray"),
        pytest.param(4, 4, [0, 0, 0, 0], {}, "vta_4x4", id="patches"),
        pytest.param(7, 4, [2, 2, 2, 2], {}, "vta_4x4", id="overlapping patches"),
        pytest.param(3, 2, [1, 1, 1, 1], {"in_float": True}, "vta_2x2", id="after floats"),
        pytest.param(3, 2, [1, 1, 1, 1], {"in_two": True}, "vta", id="two readers"),
    ],
)
def test_a_first_layer_on_the_accelerator_is_exact(
    kernel: int, stride: int, pads: list[int], more: dict[str, bool], layout: str, tmp_path: Path
) -> None:
    _, manifest = built(network(kernel, stride, pads, **more), tmp_path)  # type: ignore[arg-type]
    (stage, *_) = [s for s in manifest.stages if s.kind == "vta"]
    assert {manifest.tensor(name).layout for name in stage.inputs} == {layout}


def test_a_search_for_latency_counts_with_the_folded_picture(tmp_path: Path) -> None:
    more = {"placement": {}, "depthwise": "auto", "objective": "latency"}
    # Smaller pictures are computed on ARM alone, in less than a launch takes.
    worth = network(7, 2, [3, 3, 3, 3], height=96, width=144)
    _, manifest = built(worth, tmp_path, **more)
    assert manifest.tensor("image.int8").layout == "vta_2x2"


def test_the_fallback_of_a_first_layer_reads_the_folded_picture(tmp_path: Path) -> None:
    output, manifest = built(network(7, 2, [3, 3, 3, 3]), tmp_path, fallback=True)
    assert manifest.tensor("image.int8").layout == "vta_2x2"
    hangs = ("--device", "model", "--fault", "hang=1", "--device-timeout", "1", "--frames", "2")
    ran = subprocess.run(
        [built_program("edgepipe-run"), output, "--golden", *hangs],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "are bit-equal" in ran.stderr
    assert "2 of 2 frames on its ARM fallback" in ran.stderr
