"""What joins the node before it, and what becomes a node of its own."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from edgepipe.quantize.fusion import FusedNodes
from edgepipe.quantize.graph import Activation, ConvNode, Node, SumNode

CHANNELS = 2
RELU = Activation(low=0.0)


class Chain:
    """Convolutions of given kernels, as nodes that were read before; ``fused`` makes the next."""

    def __init__(self, single: bool = True, **kernels: int) -> None:
        self.nodes: dict[str, Node] = {
            name: ConvNode(
                name=name,
                input=f"{name}.in",
                weight=np.full((CHANNELS, CHANNELS, size, size), 3.0),
                bias=np.ones(CHANNELS),
            )
            for name, size in kernels.items()
        }
        names = {*kernels, "x", "out"}
        shapes = dict.fromkeys(names, (1, CHANNELS, 8, 8))
        self.fused = FusedNodes(self.nodes, shapes, names if single else set())


def conv(node: Node) -> ConvNode:
    assert isinstance(node, ConvNode)
    return node


def test_a_factor_and_a_constant_become_weights_and_bias() -> None:
    chain = Chain(conv=3)
    made = conv(chain.fused.affine("out", "conv", np.array([2.0, -1.0]), np.array([10.0, 20.0])))
    assert made.name == "out"
    assert_allclose(made.weight[:, 0, 0, 0], [6, -3])
    assert_allclose(made.bias, [12, 19])
    assert not chain.nodes, "the convolution has been taken in"


def test_a_tensor_that_others_read_too_stays_as_it_is() -> None:
    chain = Chain(single=False, conv=3)
    made = chain.fused.affine("out", "conv", np.full(CHANNELS, 2.0), 0.0)
    assert isinstance(made, SumNode)
    assert "conv" in chain.nodes


def test_the_heavier_convolution_takes_the_other_tensor_as_a_residual() -> None:
    chain = Chain(light=2, heavy=3)
    made = conv(chain.fused.sum("out", "light", "heavy", -1.0))
    assert made.input == "heavy.in"
    assert_allclose(made.weight, -3.0)
    ((tensor, factor),) = made.residuals
    assert tensor == "light"
    assert_allclose(factor, 1.0)
    assert [*chain.nodes] == ["light"]


def test_a_1x1_convolution_shares_the_accumulator() -> None:
    chain = Chain(shortcut=1, body=3)
    made = conv(chain.fused.sum("out", "body", "shortcut", -1.0))
    (projection,) = made.projections
    assert projection.input == "shortcut.in"
    assert_allclose(projection.weight, -3.0)
    assert_allclose(made.bias, 0.0)  # 1 - 1
    assert not chain.nodes


def test_an_activation_closes_a_node() -> None:
    chain = Chain(conv=3)
    chain.nodes["out"] = chain.fused.activated("out", "conv", RELU)
    assert conv(chain.nodes["out"]).activation == RELU
    assert isinstance(chain.fused.affine("x", "out", np.full(CHANNELS, 2.0), 0.0), SumNode)


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
    chain = Chain(conv=3)
    chain.nodes["out"] = chain.fused.activated("out", "conv", first)
    made = chain.fused.activated("x", "out", second)
    if joined is None:
        assert isinstance(made, SumNode)
        assert made.activation == second
    else:
        assert conv(made).activation == joined
