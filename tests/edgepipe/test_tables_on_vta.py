"""Activations stay on an accelerator that has a table: no ARM stage in a network's body."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import small_networks
from accelerators import ALL_EXTENSIONS
from small_networks import DESCRIPTION, Builder, silu_block

import edgepipe
from edgepipe import boards
from edgepipe.boards import Board
from edgepipe.bundle import storage

STOCK = dataclasses.replace(boards.load("ultra96"), architecture="x86_64")
EXTENDED = dataclasses.replace(
    STOCK,
    accelerator=dataclasses.replace(
        STOCK.accelerator, implementation="", extensions=ALL_EXTENSIONS
    ),
)


def hard_swish_block() -> onnx.ModelProto:
    """Hard-swish and sigmoid between convolutions."""
    b = Builder(3)
    x = b.conv("image", "stem", (16, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    x = b.node("HardSwish", [b.conv(x, "first", (24, 16, 3, 3), pads=[1] * 4)], "swish")
    x = b.node("Sigmoid", [b.conv(x, "second", (16, 24, 1, 1))], "gate")
    b.conv(x, "result", (8, 16, 1, 1))
    return b.model([1, 3, 16, 16], {"result": 4}, opset=14)


def built(model: onnx.ModelProto, board: Board, folder: Path) -> Path:
    onnx.save(model, folder / "net.onnx")
    (folder / "net.toml").write_text(DESCRIPTION)
    np.savez(folder / "frames.npz", np.concatenate(list(small_networks.frames(2))))
    output: Path = edgepipe.build(
        folder / "net.onnx",
        board=board,
        objective="rule",
        calibration=folder / "frames.npz",
        output=folder / "net.edgepipe",
    )
    return output


@pytest.mark.parametrize("model", [silu_block, hard_swish_block])
def test_no_stage_of_the_body_runs_on_arm(
    model: Callable[[], onnx.ModelProto], tmp_path: Path
) -> None:
    bundle = built(model(), EXTENDED, tmp_path)
    manifest = storage.read_manifest(bundle)
    devices = [stage.kind for stage in manifest.stages]
    assert devices.count("vta") == 1, devices
    with edgepipe.load(bundle) as pipeline:
        frames = list(small_networks.frames(1))
        golden = next(e for e in manifest.files if e.path == manifest.golden.outputs[0].file)
        found = pipeline.submit(frames[0]).result().outputs[manifest.outputs[0]]
        assert found.tobytes() == storage.read_file(bundle, golden)


def test_without_a_table_an_activation_is_on_arm(tmp_path: Path) -> None:
    manifest = storage.read_manifest(built(hard_swish_block(), STOCK, tmp_path))
    reasons = {p.operator: p.reason for p in manifest.placement}
    assert reasons["swish"] == "HardSwish: values are looked up in a table on arm"
