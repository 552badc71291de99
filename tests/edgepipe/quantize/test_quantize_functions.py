"""Functions of one number: what becomes a table, and which values the table holds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import small_networks
from onnx import helper

from edgepipe.frontend.network import Network, load_network
from edgepipe.partition.operators import match_operators
from edgepipe.quantize.functions import evaluate
from edgepipe.quantize.graph import ConvNode, Graph, SumNode, TableNode, as_channels
from edgepipe.quantize.quantizer import quantize, understand
from vta_stages.layers.records import Table

NAMES = (*small_networks.ACTIVATIONS, "SiLU", "GELU", "Mish2")


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Network:
    path = tmp_path_factory.mktemp("functions") / "net.onnx"
    onnx.save(small_networks.activations(), path)
    return load_network(path)


@pytest.fixture(scope="module")
def graph(network: Network) -> Graph:
    return understand(network)


@pytest.fixture(scope="module")
def in_float() -> dict[str, np.ndarray]:
    """Run the activations in onnxruntime; return them and their argument."""
    return results(small_networks.activations(), NAMES)


def results(model: onnx.ModelProto, functions: Iterable[str]) -> dict[str, np.ndarray]:
    """Return what onnxruntime computes from a random picture, and ``source``."""
    names = ["source", *functions]
    del model.graph.output[:]
    model.graph.output.extend(
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None] * 4) for name in names
    )
    session = onnxruntime.InferenceSession(model.SerializeToString())
    picture = np.random.default_rng(1).normal(0, 2, (1, 3, 16, 16)).astype(np.float32)
    return dict(zip(names, session.run(None, {"image": picture}), strict=True))


def test_every_activation_is_one_table_after_the_convolution(graph: Graph) -> None:
    tables = {node.name: node.input for node in graph.nodes if isinstance(node, TableNode)}
    assert tables == dict.fromkeys(NAMES, "source")
    others = [node for node in graph.nodes if not isinstance(node, TableNode | SumNode)]
    assert all(isinstance(node, ConvNode) for node in others)


def test_a_prelu_with_a_slope_for_each_channel_is_a_sum_of_two_terms(graph: Graph) -> None:
    sums = {node.name: node.inputs for node in graph.nodes if isinstance(node, SumNode)}
    assert sums == {"PRelu_relu": ("source",), "PRelu": ("source", "PRelu_relu")}


@pytest.mark.parametrize("name", NAMES)
def test_a_function_has_the_values_of_onnxruntime(
    name: str, graph: Graph, in_float: dict[str, np.ndarray]
) -> None:
    node = next(node for node in graph.nodes if node.name == name)
    assert isinstance(node, TableNode)
    values = in_float["source"][0].reshape(8, -1).astype(np.float64)
    found = evaluate(node.bindings, node.input, values)
    np.testing.assert_allclose(found, in_float[name][0].reshape(8, -1), rtol=2e-5, atol=2e-6)


def test_elementary_functions_are_one_table_with_the_values_of_onnxruntime(tmp_path: Path) -> None:
    onnx.save(small_networks.elementary(), tmp_path / "net.onnx")
    graph = understand(load_network(tmp_path / "net.onnx"))
    tables = {node.name: node for node in graph.nodes if isinstance(node, TableNode)}
    assert tables.keys() == small_networks.ELEMENTARY.keys()
    expected = results(small_networks.elementary(), tables)
    values = expected["source"][0].reshape(8, -1).astype(np.float64)
    for name, node in tables.items():
        found = evaluate(node.bindings, node.input, values)
        other = expected[name][0].reshape(8, -1)
        np.testing.assert_allclose(found, other, rtol=5e-5, atol=5e-6, err_msg=name)


def test_a_constant_that_differs_by_channel_may_have_the_size_of_the_picture() -> None:
    shape = (1, 3, 4, 5)
    by_channel = np.arange(3.0).reshape(1, 3, 1, 1) * np.ones(shape)
    for constant in (by_channel, by_channel[0], by_channel[:, :, :1]):
        np.testing.assert_array_equal(as_channels(constant, shape), [0, 1, 2])
    np.testing.assert_array_equal(as_channels(np.ones((1, 1, 4, 5)), shape), [1, 1, 1])
    for constant in (np.arange(5.0), np.arange(60.0).reshape(shape), np.zeros(0), by_channel[None]):
        assert as_channels(constant, shape) is None


def test_a_table_is_the_rounded_function(network: Network, graph: Graph) -> None:
    made = quantize(network, small_networks.frames(4), small_networks.PREPROCESS)
    layers = {o.name: o.layer for o in match_operators(made.module)}
    for node in graph.nodes:
        if not isinstance(node, TableNode):
            continue
        layer = layers[node.name]
        assert isinstance(layer, Table)
        steps = np.arange(-128, 128) * made.scales["source"][:, np.newaxis]
        values = evaluate(node.bindings, node.input, steps)
        step, zero = made.scales[node.name][:, np.newaxis], made.zeros.get(node.name, 0)
        clipped = np.clip(values, (-128 - zero) * step, (127 - zero) * step)
        found = (layer.table.astype(np.int64) - zero) * step
        assert found.shape == (len(step), 256)  # a row for each channel
        assert (np.abs(found - clipped) <= 0.5001 * step).all()
