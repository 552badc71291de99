"""Bundles of small networks for boards whose accelerator has extensions, and for stock ones."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import onnx
import small_networks
from accelerators import ALL_EXTENSIONS
from small_networks import DESCRIPTION

import edgepipe
from edgepipe import boards
from edgepipe.boards import Board
from edgepipe.bundle import storage

STOCK = dataclasses.replace(boards.load("ultra96"), architecture="x86_64")


def with_extensions(*extensions: str) -> Board:
    accelerator = dataclasses.replace(STOCK.accelerator, implementation="", extensions=extensions)
    return dataclasses.replace(STOCK, accelerator=accelerator)


EXTENDED = with_extensions(*ALL_EXTENSIONS)


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


def check_one_vta_stage(bundle: Path, *on_arm: str) -> None:
    """Check that ARM has only the picture, the first convolution ``on_arm``, and the decoding."""
    manifest = storage.read_manifest(bundle)
    assert [stage.kind for stage in manifest.stages].count("vta") == 1
    found = {p.operator for p in manifest.placement if p.device == "arm"}
    assert found == {"image.int8", *on_arm, *manifest.outputs}


def reasons(bundle: Path) -> dict[str, str]:
    """Return why each operator is where it is."""
    return {p.operator: p.reason for p in storage.read_manifest(bundle).placement}


def check_golden(bundle: Path) -> None:
    """Run the golden frame; every output must have integer Relax's bits."""
    manifest = storage.read_manifest(bundle)
    golden = next(e for e in manifest.files if e.path == manifest.golden.outputs[0].file)
    frame = next(iter(small_networks.frames(1)))
    with edgepipe.load(bundle) as pipeline:
        found = pipeline.submit(frame).result().outputs[manifest.outputs[0]]
        assert found.tobytes() == storage.read_file(bundle, golden)
