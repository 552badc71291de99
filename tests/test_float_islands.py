"""Ordinary operators between two convolutions are int8, and give the bits of integer Relax.

``test_exported_networks`` asks the same of whole networks, ``quantize/test_attention.py`` of
attention.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import ordinary_operators
import pytest
from exported_networks.exact import build_exactly, frames, options
from levels import every
from ordinary_operators import HEIGHT, OPERATORS, WIDTH
from small_networks import Builder

from edgepipe.frontend.network import Network, load_network
from edgepipe.frontend.preprocess import Frame, Preprocess
from edgepipe.quantize.quantizer import QuantizedNetwork, QuantizeOptions, quantize
from edgepipe.tvm_adapter import Binding, CompiledModule, read_main

_INTEGERS = ("int8", "uint8", "int32")


def quantised(network: Network) -> tuple[QuantizedNetwork, list[Frame], Preprocess]:
    """Quantise a network with three pictures; return it with these and their preprocessing."""
    _, channels, height, width = network.input_shape
    preprocess = Preprocess(
        width=width, height=height, order="BGR", mean=(120.0,) * 3, std=(60.0,) * 3
    )
    pictures = list(frames(height, width, channels)[:, None])
    made = quantize(network, pictures, preprocess, QuantizeOptions(frames=len(pictures)))
    return made, pictures, preprocess


def float_islands(quantized: QuantizedNetwork) -> dict[str, set[str]]:
    """Map each int8 tensor that is made of float to the calls between int8 and it."""
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
            if inner.name not in island and inner.dtype not in _INTEGERS:
                island[inner.name] = inner.op
                waiting += [name for name in inner.inputs if name in made_by]
        found[binding.name] = set(island.values())
    return found


def _is_float(binding: Binding) -> bool:
    return binding.dtype.startswith("float")


def test_ordinary_operators_are_computed_in_int8(tmp_path: Path) -> None:
    onnx.save(ordinary_operators.network(list(OPERATORS.values())), tmp_path / "net.onnx")
    network = load_network(tmp_path / "net.onnx")
    made, pictures, preprocess = quantised(network)
    assert float_islands(made) == {}
    session = onnxruntime.InferenceSession(network.onnx_model.SerializeToString())
    compiled = CompiledModule(made.module, runs=len(pictures))
    found = [compiled.run({made.input_name: picture}) for picture in pictures]
    expected = [
        session.run(list(made.output_names), {network.input_name: preprocess.normalise(picture)})
        for picture in pictures
    ]
    for index, case in enumerate(OPERATORS):
        one = np.concatenate([results[f"y{index}"].ravel() for results in found])
        other = np.concatenate([results[index].ravel() for results in expected])
        assert np.corrcoef(one, other)[0, 1] > 0.998, case


@pytest.mark.parametrize(
    "case",
    every(
        4, ["rolled", "largest_of_joined_channels", "quotient_of_tensors", "windows_of_two_sizes"]
    ),
)
def test_an_ordinary_operator_is_built_exactly(case: str, tmp_path: Path) -> None:
    onnx.save(ordinary_operators.network([OPERATORS[case]]), tmp_path / "net.onnx")
    build_exactly(options(tmp_path, tmp_path / "net.onnx", HEIGHT, WIDTH))


@pytest.mark.networks
def test_a_choice_by_a_constant_mask_is_built_exactly(tmp_path: Path) -> None:
    """Adaptive pools of torch's newer exporter contain such a choice."""
    builder = Builder()
    x = builder.conv("image", "first", (8, 3, 3, 3), pads=[1] * 4)
    mask = np.zeros((1, 1, HEIGHT, WIDTH), bool)
    mask[..., :5, 3:9] = True
    inputs = [builder.constant("mask", mask), x, builder.constant("zero", np.float32(0))]
    builder.conv(builder.node("Where", inputs, "chosen"), "last", (4, 8, 1, 1))
    onnx.save(builder.model([1, 3, HEIGHT, WIDTH], {"last": 4}), tmp_path / "net.onnx")
    build_exactly(options(tmp_path, tmp_path / "net.onnx", HEIGHT, WIDTH))


@pytest.mark.networks
def test_all_ordinary_operators_are_built_exactly(tmp_path: Path) -> None:
    onnx.save(ordinary_operators.network(list(OPERATORS.values())), tmp_path / "net.onnx")
    build_exactly(options(tmp_path, tmp_path / "net.onnx", HEIGHT, WIDTH))
