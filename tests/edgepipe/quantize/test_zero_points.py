"""Zero points: one-sided tensors that convolutions without padding read use all of int8."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import small_networks
from exported_networks.exact import build_exactly, options
from small_networks import Builder

from edgepipe.frontend.network import load_network
from edgepipe.partition.operators import match_operators
from edgepipe.quantize.quantizer import QuantizedNetwork, quantize
from edgepipe.tvm_adapter import CompiledModule
from vta_stages.layers.records import Conv


def two_convolutions(activation: str, *, kernel: int = 1) -> onnx.ModelProto:
    """A convolution with ``activation``, read by one of ``kernel`` with "same" padding."""
    b = Builder(3)
    x = b.conv("image", "first", (16, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    x = b.node(activation, [x], "active")
    b.conv(x, "result", (8, 16, kernel, kernel), pads=[kernel // 2] * 4)
    return b.model([1, 3, 16, 16], {"result": 4}, opset=14)


def three_convolutions() -> onnx.ModelProto:
    """As above with ReLU, and a convolution on the accelerator before it."""
    b = Builder(4)
    x = b.node("Relu", [b.conv("image", "stem", (16, 3, 3, 3), pads=[1] * 4)], "stem/relu")
    x = b.node("Relu", [b.conv(x, "middle", (32, 16, 3, 3), pads=[1] * 4)], "active")
    b.conv(x, "result", (8, 32, 1, 1))
    return b.model([1, 3, 16, 16], {"result": 4})


def quantized(model: onnx.ModelProto, folder: Path) -> QuantizedNetwork:
    onnx.save(model, folder / "net.onnx")
    network = load_network(folder / "net.onnx")
    return quantize(network, small_networks.frames(16), small_networks.PREPROCESS)


def error(found: QuantizedNetwork, folder: Path) -> float:
    """Return the root mean square difference from float in steps of the output."""
    compiled = CompiledModule(found.module, runs=8)
    session = onnxruntime.InferenceSession(folder / "net.onnx")
    differences = []
    for frame in small_networks.frames(8, seed=5):
        (expected,) = session.run(None, {"image": small_networks.PREPROCESS.normalise(frame)})
        differences.append(compiled.run({found.input_name: frame})["result"] - expected)
    scale = float(found.scales["result.int8"].max())
    return float(np.sqrt(np.mean(np.square(differences)))) / scale


def test_a_rectified_tensor_uses_all_of_int8(tmp_path: Path) -> None:
    found = quantized(two_convolutions("Relu"), tmp_path)
    assert found.zeros == {"active": -128}
    layers = {operator.name: operator.layer for operator in match_operators(found.module)}
    assert isinstance(layers["active"], Conv)
    assert (layers["active"].epilogue.low, layers["active"].epilogue.high) == (-128, 127)
    assert error(found, tmp_path) < 1


def test_a_function_gets_the_zero_point_that_its_range_needs(tmp_path: Path) -> None:
    found = quantized(two_convolutions("HardSwish"), tmp_path)
    assert list(found.zeros) == ["active"]
    least = -128 - found.zeros["active"]  # in steps; the least value of hard-swish is -3/8
    # The zero point is that of all channels, so it is the one that needs most below zero.
    reached = least * found.scales["active"]
    assert reached.max() == pytest.approx(-0.375, rel=0.1)
    assert error(found, tmp_path) < 1


def test_a_function_in_float_is_converted_without_a_zero_point(tmp_path: Path) -> None:
    """Its input is float, so no table makes the zero point that a convolution could fold."""
    b = Builder(4)
    x = b.node("Sigmoid", [b.conv("image", "first", (4, 3, 3, 3))], "share")
    x = b.node("CumSum", [x, b.constant("axis", np.array(1))], "total")
    b.conv(b.node("Sqrt", [x], "active"), "result", (8, 4, 1, 1))
    found = quantized(b.model([1, 3, 16, 16], {"result": 4}), tmp_path)
    assert not found.zeros
    assert found.scales["active.int8"][0] * 127 > 1.0  # of four shares
    assert error(found, tmp_path) < 1


@pytest.mark.parametrize("activation", ["Relu", "HardSwish"])
def test_padding_needs_zero_to_be_zero(activation: str, tmp_path: Path) -> None:
    found = quantized(two_convolutions(activation, kernel=3), tmp_path)
    assert found.zeros == {}
    assert error(found, tmp_path) < 1


def test_a_slope_below_zero_needs_zero_to_be_zero(tmp_path: Path) -> None:
    assert quantized(two_convolutions("LeakyRelu"), tmp_path).zeros == {}


@pytest.mark.parametrize("make", [small_networks.projected, small_networks.detector])
def test_tensors_with_other_readers_have_none(
    make: Callable[[], onnx.ModelProto], tmp_path: Path
) -> None:
    found = quantized(make(), tmp_path)
    readers = {
        name: [o for o in match_operators(found.module) if name in o.inputs] for name in found.zeros
    }
    for name, operators in readers.items():
        assert operators, name
        assert all(isinstance(operator.layer, Conv) for operator in operators)
        assert not any(any(o.layer.padding) for o in operators if o.layer.input.name == name)


@pytest.mark.sim
def test_the_accelerator_makes_and_reads_them(tmp_path: Path) -> None:
    onnx.save(three_convolutions(), tmp_path / "net.onnx")
    manifest = build_exactly(options(tmp_path, tmp_path / "net.onnx", 16, 16))
    devices = {placed.operator: placed.device for placed in manifest.placement}
    assert devices["active"] == devices["result.int8"] == "vta"
    assert quantized(three_convolutions(), tmp_path).zeros == {"active": -128}
