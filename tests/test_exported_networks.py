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

from edgepipe.arrangement import partition
from edgepipe.frontend.network import Network, load_network
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.quantize.quantizer import QuantizedNetwork, QuantizeOptions, quantize
from edgepipe.recipe import vta_check
from edgepipe.tvm_adapter import Binding, read_main

# The most stages that each network may fall into. More than three: operators without an integer
# form that the accelerator runs stand between convolutions.
QUICK = {
    "blazeface": 3,
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
    "yolov5_focus": 3,
}

# Calls that may keep their neighbours float: layer normalisation, attention, and the softmax of a
# distribution of distances. Everything else between int8 operators is int8.
FLOAT_ISLANDS = {
    "convnext": {"nn.layer_norm"},
    "convnext_opset21": {"nn.layer_norm"},
    "mobilevit": {"nn.softmax"},
    "yolov8n": {"nn.softmax"},
    "yolov8n_dynamic": {"nn.softmax"},
    "yolo11n": {"nn.softmax", "matmul", "split"},
}


def exported(name: str, folder: Path) -> Path:
    onnx.save(NETWORKS[name].model(), folder / f"{name}.onnx")
    return folder / f"{name}.onnx"


def quantised(network: Network, size: int) -> QuantizedNetwork:
    preprocess = Preprocess(
        width=size, height=size, order="BGR", mean=(120.0,) * 3, std=(60.0,) * 3
    )
    pictures = itertools.islice(frames(size, size)[:, None], 2)
    return quantize(network, pictures, preprocess, QuantizeOptions(frames=2))


@pytest.mark.parametrize("name", QUICK)
def test_a_network_is_placed_in_few_stages(name: str, tmp_path: Path) -> None:
    size = NETWORKS[name].size
    given = options(tmp_path, exported(name, tmp_path), size, size)
    network = load_network(given.model, (3, size, size))
    quantized = quantised(network, size)
    check = vta_check(quantized, network, given.board)
    segments = partition(quantized, check, given.board, given.wishes).segments
    assert len(segments) <= QUICK[name]


def test_a_network_is_built_exactly(tmp_path: Path) -> None:
    size = NETWORKS["super_resolution"].size
    build_exactly(options(tmp_path, exported("super_resolution", tmp_path), size, size))


@pytest.mark.networks
@pytest.mark.parametrize("name", NETWORKS)
def test_nothing_between_int8_operators_is_float(name: str, tmp_path: Path) -> None:
    size = NETWORKS[name].size
    network = load_network(exported(name, tmp_path), (3, size, size))
    for converted, calls in float_islands(quantised(network, size)).items():
        assert calls & FLOAT_ISLANDS.get(name, set()), f"{converted}: {sorted(calls)}"


def float_islands(quantized: QuantizedNetwork) -> dict[str, set[str]]:
    """Map each int8 tensor that is converted from float to the calls between it and int8."""
    main = read_main(quantized.module)
    made_by = {binding.name: binding for binding in main.bindings}
    found = {}
    for binding in main.bindings:
        waiting = [name for name in binding.inputs if name in made_by]
        if binding.dtype != "int8" or not any(_is_float(made_by[name]) for name in waiting):
            continue
        island: dict[str, str] = {}
        while waiting:
            inner = made_by[waiting.pop()]
            if inner.name not in island and (_is_float(inner) or inner.dtype not in _INTEGERS):
                island[inner.name] = inner.op
                waiting += [name for name in inner.inputs if name in made_by]
        found[binding.name] = set(island.values())
    return found


_INTEGERS = ("int8", "uint8", "int32")


def _is_float(binding: Binding) -> bool:
    return binding.dtype.startswith("float")


@pytest.mark.networks
@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_is_built_exactly(name: str, tmp_path: Path) -> None:
    size = NETWORKS[name].size
    build_exactly(options(tmp_path, exported(name, tmp_path), size, size))


@pytest.mark.networks
@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_network_is_built_exactly(name: str, tmp_path: Path) -> None:
    build_exactly(options(tmp_path, shipped(name), *SHIPPED[name].size))
