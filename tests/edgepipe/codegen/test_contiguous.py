"""The contiguous memory of a pipeline, and the slots that fit into a board's."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import small_networks

from edgepipe import boards
from edgepipe.bundle import storage
from edgepipe.bundle.buffers import manifest_buffers
from edgepipe.bundle.manifest import Manifest
from edgepipe.codegen.contiguous import Contiguous, fitting_slots
from edgepipe.errors import PartitionError
from edgepipe.progress import Silent
from edgepipe.recipe import BuildOptions, build_bundle

PAGE = 4096
BOARD = boards.load("ultra96")


class Notices(Silent):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def notice(self, text: str) -> None:
        self.texts.append(text)


def built(folder: Path, dma_bytes: int) -> tuple[Manifest, list[str]]:
    onnx.save(small_networks.classifier(1), folder / "net.onnx")
    (folder / "net.toml").write_text(small_networks.DESCRIPTION)
    np.savez(folder / "frames.npz", np.concatenate(list(small_networks.frames(2))))
    progress = Notices()
    manifest = build_bundle(
        BuildOptions(
            model=folder / "net.onnx",
            board=dataclasses.replace(BOARD, dma_bytes=dma_bytes),
            calibration=folder / "frames.npz",
            output=folder / "net.edgepipe",
            objective="rule",
        ),
        progress,
    )
    # Two pictures are few for calibration.
    few = "calibrated with 2 pictures: ranges are reliable with 16 or more typical ones"
    assert few in progress.texts
    return manifest, [text for text in progress.texts if "in flight" in text]


def test_a_bundle_has_as_many_slots_as_fit(tmp_path: Path) -> None:
    manifest, notices = built(tmp_path, BOARD.dma_bytes)
    usual = BOARD.slots(len(manifest.stages))
    assert manifest.slots == usual
    assert notices == []
    slot = sum(manifest_buffers(manifest).values())
    shared = 0
    bundle = tmp_path / "net.edgepipe"
    for entry in manifest.files:
        if entry.path.endswith("/program.json"):
            regions = json.loads(storage.read_file(bundle, entry))["regions"]
            shared += sum(pages(r["bytes"]) for r in regions if r["kind"] in ("const", "scratch"))
        if entry.path.endswith("/insns.bin"):
            slot += pages(entry.bytes)
    fewer, (notice,) = built(tmp_path, shared + 3 * slot)
    assert fewer.slots == 3
    assert notice.startswith(f"3 frames in flight instead of {usual}, which would need ")


def pages(size_bytes: int) -> int:
    return -(-max(size_bytes, 1) // PAGE) * PAGE


def test_a_frame_that_does_not_fit_is_refused() -> None:
    memory = Contiguous(shared_bytes=100 << 20, slot_bytes=53 << 20)
    with pytest.raises(PartitionError) as caught:
        fitting_slots(memory, (1, 2, 3), BOARD)
    assert str(caught.value) == (
        "the pipeline needs 153 MiB of contiguous memory for one frame (100 MiB of weights and "
        "scratch memory), expected at most 128 MiB on ultra96"
    )
    assert caught.value.hint == (
        "reserve more contiguous memory and set dma_bytes in the board's file, "
        "use smaller pictures, or place more operators on arm"
    )
    assert fitting_slots(Contiguous(slot_bytes=53 << 20), (1, 2, 3), BOARD) == 2
    assert fitting_slots(Contiguous(), (1, 2, 3), BOARD) == BOARD.slots(3)
