"""Folded convolutions have the sums of the original ones, and fewer taps."""

from __future__ import annotations

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from vta_stages.layers.folding import fold_factor, folded, folded_spec, unfolded
from vta_stages.layers.records import Conv, Epilogue, Projection, TensorSpec, Term
from vta_stages.layers.reference import run_layer

BLOCK = 16


def convolution(channels, kernel, stride, padding, size=(16, 24), outputs=5, **more):
    """A convolution of a picture ``x``, with random weights."""
    rng = np.random.default_rng(kernel[0] * 10 + channels)
    made = [(size[i] + padding[i] + padding[i + 2] - kernel[i]) // stride[i] + 1 for i in range(2)]
    return Conv(
        name="y",
        input=TensorSpec(name="x", channels=channels, height=size[0], width=size[1]),
        output=TensorSpec(name="y", channels=outputs, height=made[0], width=made[1]),
        weight=rng.integers(-128, 128, (outputs, channels, *kernel)).astype(np.int8),
        epilogue=Epilogue(
            bias=rng.integers(-999, 999, outputs).astype(np.int32),
            shift=np.full(outputs, 7, np.int32),
            low=-128,
            high=127,
        ),
        stride=stride,
        padding=padding,
        **more,
    )


def fold(picture, factor):
    """Fold int8[c, h, w] by moving single pixels."""
    channels, height, width = picture.shape
    result = np.zeros((channels * factor**2, height // factor, width // factor), np.int8)
    for c, y, x in np.ndindex(picture.shape):
        phase = y % factor * factor + x % factor
        result[phase * channels + c, y // factor, x // factor] = picture[c, y, x]
    return result


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "taps"),
    [
        pytest.param((7, 7), (2, 2), (3, 3, 3, 3), (4, 4), id="ResNet"),
        pytest.param((3, 3), (2, 2), (1, 1, 1, 1), (2, 2), id="MobileNet"),
        pytest.param((3, 3), (2, 2), (0, 0, 1, 1), (2, 2), id="MobileNet of TensorFlow"),
        pytest.param((6, 6), (2, 2), (2, 2, 2, 2), (3, 3), id="YOLOv5"),
        pytest.param((4, 4), (4, 4), (0, 0, 0, 0), (1, 1), id="ConvNeXt"),
    ],
)
def test_first_layers_of_known_networks_have_fewer_taps(kernel, stride, padding, taps):
    layer = convolution(3, kernel, stride, padding)
    factor = fold_factor(layer, BLOCK)
    assert factor == stride[0]
    found = folded(layer, factor)
    assert found.weight.shape == (5, 3 * factor**2, *taps)
    assert found.input == folded_spec(layer.input, factor)
    assert (found.stride, found.output) == ((1, 1), layer.output)


SIDES = st.integers(0, 3)


@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(
    channels=st.integers(1, 8),
    kernel=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    stride=st.sampled_from([2, 4]),
    padding=st.tuples(SIDES, SIDES, SIDES, SIDES),
    size=st.tuples(st.integers(2, 5), st.integers(2, 5)),
)
def test_a_folded_convolution_has_the_values_of_the_original(
    channels, kernel, stride, padding, size
):
    size = (size[0] * stride, size[1] * stride)
    layer = convolution(channels, kernel, (stride, stride), padding, size)
    hypothesis.assume(fold_factor(layer, BLOCK) == stride)
    hypothesis.assume(layer.output.height > 0 and layer.output.width > 0)
    picture = np.random.default_rng(1).integers(-128, 128, (channels, *size)).astype(np.int8)
    found = run_layer(folded(layer, stride), {"x": fold(picture, stride)})
    np.testing.assert_array_equal(found, run_layer(layer, {"x": picture}))


def test_unfolding_restores_the_picture():
    picture = np.random.default_rng(2).integers(-128, 128, (3, 8, 12)).astype(np.int8)
    for factor in (2, 4):
        np.testing.assert_array_equal(unfolded(fold(picture, factor)[None], factor)[0], picture)


@pytest.mark.parametrize(
    "layer",
    [
        pytest.param(convolution(3, (3, 3), (1, 1), (1, 1, 1, 1)), id="no stride"),
        pytest.param(convolution(3, (3, 3), (2, 1), (1, 1, 1, 1)), id="two strides"),
        pytest.param(convolution(3, (3, 3), (3, 3), (1, 1, 1, 1)), id="stride 3"),
        pytest.param(
            convolution(3, (3, 3), (2, 2), (1, 1, 1, 1), size=(15, 24)), id="an odd height"
        ),
        pytest.param(
            convolution(16, (3, 3), (2, 2), (1, 1, 1, 1)), id="as many products in whole blocks"
        ),
        pytest.param(convolution(3, (1, 1), (2, 2), (0, 0, 0, 0)), id="one tap"),
        pytest.param(convolution(3, (3, 3), (2, 2), (1, 1, 1, 1), dilation=(2, 2)), id="dilation"),
    ],
)
def test_a_convolution_that_would_gain_nothing_is_not_folded(layer):
    assert fold_factor(layer, BLOCK) == 1


def test_a_picture_that_is_read_in_another_way_is_not_folded():
    picture = TensorSpec(name="x", channels=3, height=8, width=12)
    term = Term(tensor=picture, factor=np.ones(3, np.int32))
    projection = Projection(tensor=picture, weight=np.ones((5, 3), np.int8))
    for more in ({"terms": (term,)}, {"projections": (projection,)}):
        assert fold_factor(convolution(3, (3, 3), (2, 2), (1, 1, 1, 1), **more), BLOCK) == 1
