"""Ranges: one for a tensor, one for each slice, or one for each channel, as its readers allow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from edgepipe.errors import QuantizeError
from edgepipe.quantize.calibrate import TensorStatistics
from edgepipe.quantize.graph import (
    AveragePoolNode,
    ConvNode,
    Graph,
    MaxPoolNode,
    Node,
    PickNode,
    ProductNode,
    SumNode,
    TableNode,
)
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.ranges import LEAST_SHARE, Ranges, Target, measured_tensors
from edgepipe.quantize.scheme import TensorRange

SEEN = np.array([4.0, 1.0, 0.01, 2.0])  # of the four channels of "x"


def covered(*readers: Node, equalise: float = 0.5) -> np.ndarray:
    """Return the range that "x" must cover if these nodes read it."""
    statistics = TensorStatistics(4)
    statistics.add(np.float32(SEEN.reshape(1, 4, 1, 1)))
    graph = Graph(
        input="image",
        nodes=(replace(pool(), name="x", input="image"), *readers),
        outputs=tuple(node.name for node in readers),
        shapes=dict.fromkeys(("image", "x", *(node.name for node in readers)), (1, 4, 1, 1)),
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


def test_a_function_allows_every_channel_its_own() -> None:
    table = TableNode(name="table", input="x", bindings=())
    assert_allclose(covered(table), [4, 1, 4 * LEAST_SHARE, 2])
    assert_allclose(covered(table, conv("depthwise", groups=4)), [4, 1, 4 * LEAST_SHARE, 2])
    assert_allclose(covered(table, conv("conv"), equalise=0.0), [4, 4, 4, 4])
    assert_allclose(covered(table, pool()), [4, 4, 4, 4])


def summed(name: str) -> SumNode:
    """Return a sum of "x" and the picture."""
    return SumNode(name=name, terms=(("x", np.ones(4)), ("image", np.ones(4))), bias=np.zeros(4))


def with_residual(name: str) -> ConvNode:
    """Return a convolution of the picture to which "x" is added."""
    return replace(conv(name), input="image", residuals=(("x", np.ones(4)),))


def test_a_sum_and_a_residual_allow_every_channel_its_own() -> None:
    assert_allclose(covered(summed("sum")), [4, 1, 4 * LEAST_SHARE, 2])
    assert_allclose(covered(with_residual("residual")), [4, 1, 4 * LEAST_SHARE, 2])
    share = np.maximum(SEEN / 4, LEAST_SHARE)
    assert_allclose(covered(with_residual("residual"), conv("conv")), 4 * share**0.5)


def test_products_and_average_pools_need_one_common_range() -> None:
    ones, zeros = np.ones(4), np.zeros(4)
    product = ProductNode(name="product", first="x", second="image", factor=ones, bias=zeros)
    average = AveragePoolNode(name="pool", input="x", channels=4, kernel=(1, 1), stride=(1, 1))
    assert_allclose(covered(product), [4, 4, 4, 4])
    assert_allclose(covered(average, summed("sum")), [4, 4, 4, 4])


def results(low: float, high: float, *readers: Node) -> Target:
    """Return the target of "x", a function with results from ``low`` to ``high``."""
    statistics = TensorStatistics(4)
    statistics.add(
        np.float32(
            np.stack([np.minimum(SEEN, 0) + low, SEEN]).reshape(1, 2, 4, 1).transpose(0, 2, 1, 3)
        )
    )
    table = TableNode(name="x", input="image", bindings=())
    shapes = dict.fromkeys(("image", "x", *(r.name for r in readers)), (1, 4, 2, 1))
    graph = Graph(
        input="image",
        nodes=(table, *readers),
        outputs=tuple(node.name for node in readers),
        shapes=shapes,
    )
    measured = {"x": TensorRange.of(statistics, "max")}
    values = np.linspace(low, high, 256)[None]
    return Ranges(graph, measured, QuantizeOptions(threshold="max")).table_target("x", values)


@given(
    st.floats(-8, 0),
    st.floats(0.125, 8),
    st.sampled_from([(), (conv("conv"),), (conv("depthwise", groups=4),), (pool(),)]),
)
def test_results_of_a_function_are_covered(low: float, high: float, readers: tuple[Node]) -> None:
    target = results(low, high, *readers)
    least, most = (-128 - target.zero) * target.step, (127 - target.zero) * target.step
    assert (most >= np.minimum(high, np.clip(SEEN, SEEN.max() * LEAST_SHARE, None)) - 1e-6).all()
    if not readers or isinstance(readers[0], MaxPoolNode):
        assert target.zero == 0
        assert (target.step == target.step[0]).all()
        assert (least <= max(low, -8) + 1e-6).all()


def test_channels_of_one_function_share_a_zero_point() -> None:
    target = results(-0.375, 4.0, conv("conv"))
    assert target.zero < -60
    assert target.step[0] > target.step[3] > target.step[1]
    assert ((-128 - target.zero) * target.step <= -0.375 * (1 - 1e-6)).all()


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
