"""Blocks with tables and products give the bits of integer Relax, hop by hop and all on ARM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import small_networks
from levels import long

from edgepipe import boards
from edgepipe.frontend.network import load_network
from edgepipe.loading import load
from edgepipe.partition.operators import match_operators
from edgepipe.quantize.quantizer import quantize
from edgepipe.recipe import BuildOptions, build_bundle
from edgepipe.tvm_adapter import CompiledModule

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("make", [long(small_networks.silu_block), small_networks.squeeze_excite])
def test_every_placement_and_cut_gives_the_bits_of_integer_relax(
    make: Callable[[], onnx.ModelProto], tmp_path: Path
) -> None:
    options = _options(make(), tmp_path)
    pictures = list(small_networks.frames(4))
    network = load_network(options["model"])
    quantized = quantize(network, pictures, small_networks.PREPROCESS)
    frames = [*pictures[:2], np.random.default_rng(3).integers(0, 256, (1, 16, 16, 3), np.uint8)]
    compiled = CompiledModule(quantized.module, runs=len(frames))
    expected = [compiled.run({quantized.input_name: frame})["result"] for frame in frames]
    names = [operator.name for operator in match_operators(quantized.module)]
    for placement, cuts in (({}, ()), (dict.fromkeys(names, "arm"), (names[len(names) // 2],))):
        manifest = build_bundle(BuildOptions(**options, placement=placement, cuts=cuts))
        kinds = {stage.kind for stage in manifest.stages}
        assert kinds == ({"arm"} if placement else {"arm", "vta"})
        with load(options["output"]) as pipeline:
            for result, wanted in zip(pipeline.map(frames), expected, strict=True):
                np.testing.assert_array_equal(result.outputs["result"], wanted)


def _options(model: onnx.ModelProto, folder: Path) -> dict[str, object]:
    onnx.save(model, folder / "net.onnx")
    preprocess = small_networks.PREPROCESS
    (folder / "net.toml").write_text(
        '[preprocess]\nwidth = 16\nheight = 16\norder = "BGR"\n'
        f"mean = {[*preprocess.mean]}\nstd = {[*preprocess.std]}\n"
        '[postprocess]\nkind = "none"\n'
    )
    np.savez(folder / "frames.npz", frames=np.concatenate(list(small_networks.frames(4))))
    return {
        "model": folder / "net.onnx",
        "board": boards.load("host"),
        "calibration": folder / "frames.npz",
        "output": folder / "net.edgepipe",
    }
