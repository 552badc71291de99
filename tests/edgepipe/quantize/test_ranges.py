"""Ranges: one for a tensor, one for each slice, or one for each channel, as its readers allow."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from edgepipe.errors import QuantizeError
from edgepipe.quantize.calibrate import TensorStatistics
from edgepipe.quantize.graph import ConvNode, Graph, MaxPoolNode, Node, PickNode
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.ranges import LEAST_SHARE, Ranges, measured_tensors
from edgepipe.quantize.scheme import TensorRange

SEEN = np.array([4.0, 1.0, 0.01, 2.0])  # of the four channels of "x"


def covered(*readers: Node, equalise: float = 0.5) -> np.ndarray:
    """Return the range that "x" must cover if these nodes read it."""
    statistics = TensorStatistics(4)
    statistics.add(np.float32(SEEN.reshape(1, 4, 1, 1)))
    graph = Graph(
        input="x",
        nodes=readers,
        outputs=tuple(node.name for node in readers),
        shapes={"x": (1, 4, 1, 1)} | {node.name: (1, 4, 1, 1) for node in readers},
    )
    options = QuantizeOptions(threshold="max", equalise=equalise)
    measured = {"x": TensorRange.of(statistics, options.threshold)}
    return Ranges(graph, measured, options).covered("x")


def conv(name: str, groups: int = 1) -> ConvNode:
    return ConvNode(
        name=name,
        input="x",
        weight=np.ones((4, 4 // groups, 1, 1)),
        bias=np.zeros(4),
        groups=groups,
    )


def pool() -> MaxPoolNode:
    return MaxPoolNode(name="pool", input="x", kernel=(1, 1), stride=(1, 1), padding=(0, 0, 0, 0))


def test_readers_other_than_convolutions_need_one_common_range() -> None:
    assert_allclose(covered(pool()), [4, 4, 4, 4])
    assert_allclose(covered(conv("conv"), pool()), [4, 4, 4, 4])


def test_slices_that_are_read_separately_get_one_range_each() -> None:
    slices = (
        PickNode(name="head", input="x", channels=(0,)),
        PickNode(name="tail", input="x", channels=(1, 2, 3)),
    )
    assert_allclose(covered(*slices), [4, 2, 2, 2])


def test_a_depthwise_convolution_allows_every_channel_its_own() -> None:
    assert_allclose(covered(conv("conv", groups=4)), [4, 1, 4 * LEAST_SHARE, 2])


@pytest.mark.parametrize("equalise", [0.0, 0.5, 1.0])
def test_other_convolutions_share_by_a_power(equalise: float) -> None:
    share = np.maximum(SEEN / 4, LEAST_SHARE)
    assert_allclose(covered(conv("conv"), equalise=equalise), 4 * share**equalise)


def test_a_tensor_that_was_not_measured_is_an_error() -> None:
    graph = Graph(input="x", nodes=(), outputs=("x",), shapes={"x": (1, 4, 1, 1)})
    with pytest.raises(QuantizeError, match="x: its range is unknown") as caught:
        Ranges(graph, {}, QuantizeOptions()).covered("x")
    assert caught.value.hint == "decompose the ONNX operator that it is part of"


def test_what_convolutions_read_and_make_is_measured_but_not_the_picture() -> None:
    first = ConvNode(name="first", input="image", weight=np.ones((4, 3, 1, 1)), bias=np.zeros(4))
    x = MaxPoolNode(name="x", input="first", kernel=(1, 1), stride=(1, 1), padding=(0, 0, 0, 0))
    graph = Graph(input="image", nodes=(first, x, pool()), outputs=("pool",), shapes={})
    assert measured_tensors(graph) == ["first", "x"]
