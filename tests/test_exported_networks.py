"""Well-known networks as exporters write them: each is placed in few stages, and built exactly.

The networks are in ``exported_networks``. The quick tests take one of each kind; ``-m networks``
builds all of them, and those that packages on PyPI contain.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import onnx
import pytest
from exported_networks import NETWORKS
from exported_networks.exact import build_exactly, frames, options
from exported_networks.shipped import SHIPPED, shipped

from edgepipe.arrangement import Wishes, partition
from edgepipe.frontend.network import load_network
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.quantize.quantizer import QuantizeOptions, quantize
from edgepipe.recipe import vta_check

# The most stages that each network may fall into. More than three: operators without an integer
# form that the accelerator runs stand between convolutions.
QUICK = {
    "centernet": 3,
    "efficientnet_lite0": 3,
    # A gate of squeeze-and-excitation is one stage with its neighbours.
    "efficientnet_b0": 35,
    "fpn": 3,
    "mobilenet_v1": 3,
    "retinaface": 3,
    "shufflenet_v2": 3,
    "super_resolution": 3,
    "unet": 3,
    "yolov3_tiny": 3,
}


def exported(name: str, folder: Path) -> Path:
    onnx.save(NETWORKS[name].model(), folder / f"{name}.onnx")
    return folder / f"{name}.onnx"


@pytest.mark.parametrize("name", QUICK)
def test_a_network_is_placed_in_few_stages(name: str, tmp_path: Path) -> None:
    size = NETWORKS[name].size
    given = options(tmp_path, exported(name, tmp_path), size, size)
    network = load_network(given.model, (3, size, size))
    preprocess = Preprocess(
        width=size, height=size, order="BGR", mean=(120.0,) * 3, std=(60.0,) * 3
    )
    pictures = itertools.islice(frames(size, size)[:, None], 2)
    quantized = quantize(network, pictures, preprocess, QuantizeOptions(frames=2))
    segments = partition(
        quantized, vta_check(quantized, network, given.board), given.board, Wishes()
    ).segments
    assert len(segments) <= QUICK[name]


def test_a_network_is_built_exactly(tmp_path: Path) -> None:
    size = NETWORKS["super_resolution"].size
    build_exactly(options(tmp_path, exported("super_resolution", tmp_path), size, size))


@pytest.mark.networks
@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_is_built_exactly(name: str, tmp_path: Path) -> None:
    size = NETWORKS[name].size
    build_exactly(options(tmp_path, exported(name, tmp_path), size, size))


@pytest.mark.networks
@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_network_is_built_exactly(name: str, tmp_path: Path) -> None:
    build_exactly(options(tmp_path, shipped(name), *SHIPPED[name].size))
