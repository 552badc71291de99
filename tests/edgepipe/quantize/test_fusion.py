"""Fuse: what joins the node before it, and what becomes a separate node."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from edgepipe.quantize.fusion import Fuse
from edgepipe.quantize.graph import Activation, ConvNode, Graph, MaxPoolNode, Node, SumNode
from edgepipe.quantize.passes import run

CHANNELS = 2
ONES = np.ones(CHANNELS)
RELU = Activation(low=0.0)


def conv(name: str, size: int = 3) -> ConvNode:
    """A convolution of the picture with a square kernel."""
    weight = np.full((CHANNELS, CHANNELS, size, size), 3.0)
    return ConvNode(name=name, input="image", weight=weight, bias=ONES)


def affine(name: str, tensor: str, factor: np.ndarray, bias: np.ndarray) -> SumNode:
    return SumNode(name=name, terms=((tensor, factor),), bias=bias)


def difference(name: str, first: str, second: str) -> SumNode:
    return SumNode(name=name, terms=((first, ONES), (second, -ONES)), bias=0 * ONES)


def activated(name: str, tensor: str, activation: Activation) -> SumNode:
    return replace(affine(name, tensor, ONES, 0 * ONES), activation=activation)


def fused(*nodes: Node, outputs: tuple[str, ...] = ()) -> dict[str, Node]:
    """Return the nodes after the pass; the last node's tensor is an output."""
    graph = Graph(
        input="image",
        nodes=nodes,
        outputs=(*outputs, nodes[-1].name),
        shapes=dict.fromkeys(["image", *(n.name for n in nodes)], (1, CHANNELS, 8, 8)),
    )
    return {node.name: node for node in run(Fuse(), graph).nodes}


def only_conv(nodes: dict[str, Node]) -> ConvNode:
    (node,) = nodes.values()
    assert isinstance(node, ConvNode)
    return node


def test_numbers_that_are_not_finite_are_left_to_calibration() -> None:
    factor, bias = np.array([0.0, 1.0]), np.array([np.inf, 1e308])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = only_conv(
            fused(replace(conv("conv"), bias=bias), affine("out", "conv", factor, bias))
        )
    assert not np.isfinite(made.bias[0])


def test_a_factor_and_a_constant_become_weights_and_bias() -> None:
    factor, bias = np.array([2.0, -1.0]), np.array([10.0, 20.0])
    made = only_conv(fused(conv("conv"), affine("out", "conv", factor, bias)))
    assert made.name == "out"
    assert_allclose(made.weight[:, 0, 0, 0], [6, -3])
    assert_allclose(made.bias, [12, 19])


def test_a_tensor_that_others_read_too_stays_as_it_is() -> None:
    nodes = fused(
        conv("conv"), affine("out", "conv", 2 * ONES, 0 * ONES), difference("last", "out", "conv")
    )
    assert isinstance(nodes["conv"], ConvNode)
    assert isinstance(nodes["last"], SumNode)


def test_a_tensor_that_the_network_returns_stays_as_it_is() -> None:
    nodes = fused(conv("conv"), affine("out", "conv", 2 * ONES, 0 * ONES), outputs=("conv",))
    assert [*nodes] == ["conv", "out"]


def test_the_larger_convolution_absorbs_the_other_tensor_as_a_residual() -> None:
    nodes = fused(conv("light", 2), conv("heavy"), difference("out", "light", "heavy"))
    made = nodes["out"]
    assert [*nodes] == ["light", "out"]
    assert isinstance(made, ConvNode)
    assert_allclose(made.weight, -3.0)
    ((tensor, factor),) = made.residuals
    assert tensor == "light"
    assert_allclose(factor, 1.0)


def test_a_1x1_convolution_shares_the_accumulator() -> None:
    made = only_conv(
        fused(conv("shortcut", 1), conv("body"), difference("out", "body", "shortcut"))
    )
    (projection,) = made.projections
    assert projection.input == "image"
    assert_allclose(projection.weight, -3.0)
    assert_allclose(made.bias, 0.0)  # 1 - 1


def test_an_activation_closes_a_node() -> None:
    nodes = fused(
        conv("conv"), activated("relu", "conv", RELU), affine("out", "relu", 2 * ONES, 0 * ONES)
    )
    made = nodes["relu"]
    assert isinstance(made, ConvNode)
    assert made.activation == RELU
    assert isinstance(nodes["out"], SumNode)


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        (RELU, Activation(high=6.0), Activation(low=0.0, high=6.0)),
        (Activation(slope=0.1), RELU, Activation(low=0.0, slope=0.1)),
        (RELU, Activation(slope=0.1), None),
        (Activation(low=0.0, high=1.0), Activation(low=2.0), None),
    ],
)
def test_two_activations_are_one_where_one_does_both(
    first: Activation, second: Activation, joined: Activation | None
) -> None:
    nodes = fused(conv("conv"), activated("a", "conv", first), activated("out", "a", second))
    made = nodes["out"]
    assert isinstance(made, ConvNode if joined else SumNode)
    assert made.activation == (joined or second)  # type: ignore[attr-defined]


def test_a_pool_is_not_fused() -> None:
    pool = MaxPoolNode(
        name="pool", input="conv", kernel=(1, 1), stride=(1, 1), padding=(0, 0, 0, 0)
    )
    assert [*fused(conv("conv"), pool, activated("out", "pool", RELU))] == ["conv", "pool", "out"]
