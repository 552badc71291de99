"""Well-known networks as exporters write them: each is placed in few stages, and built exactly.

The networks are in ``exported_networks``. The quick tests take one of each kind; ``-m networks``
builds all of them, and those that packages on PyPI contain.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import onnx
import pytest
from exported_networks import NETWORKS, WITH_PROLOGUE, Exported
from exported_networks.exact import build_exactly, frames, options
from exported_networks.shipped import CLASSICS, SHIPPED, shipped
from levels import every

from edgepipe.arrangement import partition
from edgepipe.description import load as load_description
from edgepipe.frontend.network import Network, load_network
from edgepipe.partition.placement import Segment
from edgepipe.quantize.int16.names import computing_nodes
from edgepipe.quantize.quantizer import (
    QuantizedNetwork,
    QuantizeOptions,
    quantize,
    understand,
)
from edgepipe.recipe import BuildOptions, vta_check
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


def described(network: Exported, folder: Path) -> BuildOptions:
    """Write the network and its description."""
    path = folder / "net.onnx"
    onnx.save(network.model(), path)
    size, reads_bytes = network.size, bool(network.prologue)
    return options(folder, path, size, size, network.channels, reads_bytes=reads_bytes)


def read(network: Exported, given: BuildOptions) -> Network:
    return load_network(given.model, (network.channels, network.size, network.size))


def quantised(
    network: Exported, given: BuildOptions, int16_layers: tuple[str, ...] = ()
) -> QuantizedNetwork:
    assert given.description is not None
    preprocess = load_description(given.description).preprocess
    pictures = itertools.islice(frames(network.size, network.size, network.channels)[:, None], 2)
    wishes = QuantizeOptions(frames=2, int16_layers=int16_layers)
    return quantize(read(network, given), pictures, preprocess, wishes)


def placed(network: Exported, folder: Path) -> tuple[Segment, ...]:
    """Quantise the network and return the stages that it falls into."""
    given = described(network, folder)
    quantized = quantised(network, given)
    check = vta_check(quantized, read(network, given), given.board)
    return partition(quantized, check, given.board, given.wishes).segments


@pytest.mark.parametrize("name", every(4, QUICK))
def test_a_network_is_placed_in_few_stages(name: str, tmp_path: Path) -> None:
    assert len(placed(NETWORKS[name], tmp_path)) <= QUICK[name]


@pytest.mark.parametrize("name", WITH_PROLOGUE)
def test_a_network_that_prepares_bytes_does_so_in_integers(name: str, tmp_path: Path) -> None:
    segments = placed(WITH_PROLOGUE[name], tmp_path)
    assert len(segments) <= 3
    kinds = {placed.operator.kind for placed in segments[0].operators}
    assert kinds <= {"conv", "input_table", "pick", "sum"}


def test_a_network_is_built_exactly(tmp_path: Path) -> None:
    build_exactly(described(NETWORKS["super_resolution"], tmp_path))


@pytest.mark.parametrize("name", every(11, NETWORKS))
def test_every_layer_of_a_network_can_be_in_int16(name: str, tmp_path: Path) -> None:
    network = NETWORKS[name]
    given = described(network, tmp_path)
    layers = computing_nodes(understand(read(network, given)))
    made = quantised(network, given, int16_layers=tuple(layers))
    kinds = {binding.name: binding.dtype for binding in read_main(made.module).bindings}
    assert "int16" in kinds.values()
    assert not [layer for layer in layers if kinds.get(layer) == "int8"]


@pytest.mark.networks
@pytest.mark.parametrize("name", [*NETWORKS, *WITH_PROLOGUE])
def test_nothing_between_int8_operators_is_float(name: str, tmp_path: Path) -> None:
    network = {**NETWORKS, **WITH_PROLOGUE}[name]
    quantized = quantised(network, described(network, tmp_path))
    for converted, calls in float_islands(quantized).items():
        raise AssertionError(f"{converted} is converted to int8 after {sorted(calls)}")


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


def test_the_package_onnx_contains_nine_classics() -> None:
    assert len(CLASSICS) == 9


@pytest.mark.networks
@pytest.mark.parametrize("name", [*NETWORKS, *WITH_PROLOGUE])
def test_every_network_is_built_exactly(name: str, tmp_path: Path) -> None:
    build_exactly(described({**NETWORKS, **WITH_PROLOGUE}[name], tmp_path))


@pytest.mark.networks
@pytest.mark.parametrize("name", [*SHIPPED, *CLASSICS])
def test_a_shipped_network_is_built_exactly(name: str, tmp_path: Path) -> None:
    size = (SHIPPED | CLASSICS)[name]
    build_exactly(options(tmp_path, shipped(name), *size))
