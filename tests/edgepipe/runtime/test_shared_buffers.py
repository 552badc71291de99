"""Tensors of a frame share buffers, and every frame in flight still has its own results.

The reference runs one stage after the other, each with memory of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import small_networks
from numpy.typing import NDArray
from report_bundles import build

from edgepipe.bundle import storage
from edgepipe.bundle.buffers import manifest_buffers
from edgepipe.loading import load
from edgepipe.runtime.library import call

pytestmark = pytest.mark.sim

FRAMES = 40


def swishes() -> onnx.ModelProto:
    """Return convolutions whose SiLUs run on ARM, one of them across a skip edge."""
    b = small_networks.Builder(5)

    def swish(x: str, name: str, channels: int, made: int) -> str:
        x = b.conv(x, name, (made, channels, 3, 3), pads=[1] * 4)
        return b.node("Mul", [x, b.node("Sigmoid", [x], f"{name}/sigmoid")], f"{name}/swish")

    first = swish("image", "stem", 3, 16)
    x = swish(first, "one", 16, 32)
    x = swish(x, "two", 32, 16)
    x = b.node("Concat", [x, first], "joined", axis=1)
    x = swish(x, "three", 32, 24)
    x = swish(x, "four", 24, 16)
    b.conv(x, "boxes", (8, 16, 1, 1))
    return b.model([1, 3, 16, 16], {"boxes": 4})


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("swishes"), swishes())


def pictures() -> Iterator[NDArray[np.uint8]]:
    random = np.random.default_rng(3)
    for _ in range(FRAMES):
        yield random.integers(0, 256, (1, 16, 16, 3), np.uint8)


def stage_by_stage(bundle: Path) -> Iterator[bytes]:
    """Yield each picture's output, from stages that share nothing."""
    manifest = storage.read_manifest(bundle)
    call_stage = call("open_bundle", os.fsencode(bundle).decode(), "simulator")["call_stage"]
    (output,) = manifest.outputs
    for picture in pictures():
        values = {manifest.inputs[0]: picture.tobytes()}
        for index, stage in enumerate(manifest.stages):
            found = bytes(call_stage(index, *(values[name] for name in stage.inputs)))
            for name in stage.outputs:
                size = manifest.tensor(name).bytes
                values[name], found = found[:size], found[size:]
        yield values[output]


def test_the_bundle_tests_sharing(bundle: Path) -> None:
    manifest = storage.read_manifest(bundle)
    assert len(manifest.stages) > 8  # two crews run them
    assert len(manifest_buffers(manifest)) <= len(manifest.tensors) - 4


@pytest.mark.parametrize("serial", [False, True])
@pytest.mark.parametrize("slots", [1, 2, None])
def test_every_frame_has_the_bits_of_stages_that_share_nothing(
    bundle: Path, serial: bool, slots: int | None
) -> None:
    with load(bundle, device="simulator", serial=serial, slots=slots) as pipeline:
        found = [result.outputs["boxes"].tobytes() for result in pipeline.map(pictures())]
    assert found == list(stage_by_stage(bundle))
