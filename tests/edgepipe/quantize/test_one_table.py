"""One table for all channels of a function, as accelerators need that look values up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import small_networks
from levels import long

from edgepipe.frontend.network import Network, load_network
from edgepipe.partition.operators import match_operators
from edgepipe.quantize.options import QuantizeOptions, needs_one_table
from edgepipe.quantize.quantizer import QuantizedNetwork, quantize
from edgepipe.quantize.scheme import Scheme
from edgepipe.tvm_adapter import CompiledModule
from vta_stages.accelerator import Accelerator
from vta_stages.layers.records import Table

Make = Callable[[], onnx.ModelProto]


def loaded(folder: Path, make: Make) -> Network:
    onnx.save(make(), folder / "net.onnx")
    return load_network(folder / "net.onnx")


def quantized(
    network: Network, *, one_table: bool = True, scheme: Scheme | None = None
) -> QuantizedNetwork:
    options = QuantizeOptions(one_table=one_table)
    frames = () if scheme else small_networks.frames(8)
    return quantize(network, frames, small_networks.PREPROCESS, options, scheme)


def rows(network: QuantizedNetwork) -> dict[str, int]:
    """Return how many rows the table of each int8 function has."""
    layers = [operator.layer for operator in match_operators(network.module)]
    return {each.name: len(each.table) for each in layers if isinstance(each, Table)}


def outputs(network: QuantizedNetwork) -> list[np.ndarray]:
    compiled = CompiledModule(network.module, runs=4)
    frames = small_networks.frames(4, seed=3)
    return [np.concatenate([v.ravel() for v in compiled.run({network.input_name: frame}).values()])
            for frame in frames]  # fmt: skip


@pytest.mark.parametrize("make", [long(small_networks.silu_block), small_networks.squeeze_excite])
def test_every_function_has_one_table_and_nearly_the_same_results(
    make: Make, tmp_path: Path
) -> None:
    network = loaded(tmp_path, make)
    one, each = quantized(network), quantized(network, one_table=False)
    assert set(rows(one).values()) == {1}
    assert max(rows(each).values()) > 1
    similar = np.corrcoef(np.concatenate(outputs(one)), np.concatenate(outputs(each)))[0, 1]
    assert similar > 0.99


def test_a_tensor_whose_channels_differ_gets_one_step_before_the_function(tmp_path: Path) -> None:
    """A concatenation keeps the steps of its parts."""

    def joined() -> onnx.ModelProto:
        b = small_networks.Builder(4)
        x = b.conv("image", "stem", (16, 3, 3, 3), pads=[1] * 4)
        large = b.node(
            "Mul",
            [b.conv(x, "large", (8, 16, 1, 1)), b.constant("ten", np.float32(10))],
            "ten/times",
        )
        x = b.node("Concat", [large, b.conv(x, "small", (8, 16, 1, 1))], "joined", axis=1)
        b.conv(b.node("HardSwish", [x], "swish"), "result", (8, 16, 1, 1))
        return b.model([1, 3, 16, 16], {"result": 4}, opset=14)

    found = quantized(loaded(tmp_path, joined))
    assert rows(found) == {"swish": 1}


def test_functions_of_results_keep_a_row_for_each_channel(tmp_path: Path) -> None:
    """What is float afterwards is looked up on ARM anyway."""

    def scores() -> onnx.ModelProto:
        b = small_networks.Builder(6)
        x = b.conv("image", "stem", (16, 3, 3, 3), pads=[1] * 4)
        b.node("Sigmoid", [b.conv(x, "logits", (8, 16, 1, 1))], "scores")
        return b.model([1, 3, 16, 16], {"scores": 4})

    network = loaded(tmp_path, scores)
    one, each = quantized(network), quantized(network, one_table=False)
    assert [v.tobytes() for v in outputs(one)] == [v.tobytes() for v in outputs(each)]


def test_a_scheme_of_another_accelerator_can_be_used(tmp_path: Path) -> None:
    network = loaded(tmp_path, small_networks.squeeze_excite)
    scheme = quantized(network, one_table=False).scheme
    one, other = quantized(network), quantized(network, scheme=scheme)
    assert set(rows(other).values()) == {1}
    assert [v.tobytes() for v in outputs(one)] == [v.tobytes() for v in outputs(other)]


@pytest.mark.parametrize(
    ("extensions", "needs"), [((), False), (("multiply",), False), (("table",), True)]
)
def test_an_accelerator_with_a_table_needs_it(extensions: tuple[str, ...], needs: bool) -> None:
    assert needs_one_table(Accelerator(extensions=extensions)) == needs
