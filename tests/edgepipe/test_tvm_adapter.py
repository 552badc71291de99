"""A module gives the same bits however long LLVM takes over it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import ordinary_operators
import pytest
import small_networks
from ordinary_operators import OPERATORS

from edgepipe.frontend.network import load_network
from edgepipe.quantize.quantizer import QuantizeOptions, quantize
from edgepipe.tvm_adapter import CompiledModule, ModuleBuilder, read_main


def every_operator() -> onnx.ModelProto:
    return ordinary_operators.network(list(OPERATORS.values()))


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(every_operator, marks=pytest.mark.networks),
        small_networks.elementary,
        small_networks.activations,
        small_networks.upsampler,
    ],
)
def test_code_that_is_not_optimised_gives_the_same_bits(
    make: Callable[[], onnx.ModelProto], tmp_path: Path
) -> None:
    onnx.save(make(), tmp_path / "net.onnx")
    network = load_network(tmp_path / "net.onnx")
    (given,) = read_main(network.module).params
    rng = np.random.default_rng(5)
    value = rng.normal(size=given.shape).astype(given.dtype)
    found = CompiledModule(network.module, runs=1).run({given.name: value})
    for name, values in CompiledModule(network.module).run({given.name: value}).items():
        np.testing.assert_array_equal(found[name], values)


def test_integers_are_the_same_too(tmp_path: Path) -> None:
    onnx.save(small_networks.activations(), tmp_path / "net.onnx")
    frames = list(small_networks.frames(2))
    made = quantize(
        load_network(tmp_path / "net.onnx"),
        frames,
        small_networks.PREPROCESS,
        QuantizeOptions(frames=2),
    )
    found = CompiledModule(made.module, runs=1).run({made.input_name: frames[0]})
    for name, values in CompiledModule(made.module).run({made.input_name: frames[0]}).items():
        np.testing.assert_array_equal(found[name], values)


def test_multiplications_are_those_of_one_element() -> None:
    builder = ModuleBuilder()
    builder.param("x", (1, 6, 8, 8), "float32")
    builder.emit("conv", "nn.conv2d", "x", np.ones((4, 3, 5, 7), np.float32), groups=2)
    builder.emit("product", "matmul", "x", np.ones((8, 2), np.float32))
    builder.emit("sum", "add", "x", "x")
    made = read_main(builder.finish(["conv", "product", "sum"]))
    found = {binding.name: binding.multiplications for binding in made.bindings}
    assert found == {"conv": 3 * 5 * 7, "product": 8, "sum": 1}
