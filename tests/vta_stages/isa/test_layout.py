"""Layouts: the positions of values, and that packing loses nothing."""

from __future__ import annotations

import numpy as np
import pytest
from accelerators import FOUR_BY_EIGHT, RECTANGULAR
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from vta_stages.accelerator import Accelerator
from vta_stages.errors import LayerError
from vta_stages.isa.layout import (
    activation_bytes,
    activation_shape,
    diagonal_weights,
    pack_activation,
    pack_weights,
    unpack_activation,
    unpack_weights,
)

STOCK = Accelerator()
WIDE = Accelerator(block_in=32, block_out=32)
targets = st.sampled_from([STOCK, FOUR_BY_EIGHT, WIDE, RECTANGULAR])
channels = st.integers(1, 40)
sides = st.integers(1, 4)
shapes = st.tuples(channels, sides, sides)


def int8_arrays(*shape: int) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.int8, shape)


@given(st.data(), targets, shapes)
def test_activations_survive_a_round_trip(
    data: st.DataObject, target: Accelerator, shape: tuple[int, int, int]
) -> None:
    samples = data.draw(st.integers(1, target.batch))
    tensor = data.draw(int8_arrays(samples, *shape))
    packed = pack_activation(target, tensor)
    assert packed.shape == activation_shape(target, *shape)
    assert packed.nbytes == activation_bytes(target, *shape)
    unpacked = unpack_activation(target, packed, shape[0], samples=samples)
    assert np.array_equal(unpacked, tensor)


@given(st.data(), targets, shapes)
def test_an_activation_element_lies_at_block_row_column_lane(
    data: st.DataObject, target: Accelerator, shape: tuple[int, int, int]
) -> None:
    tensor = data.draw(int8_arrays(1, *shape))
    packed = pack_activation(target, tensor)
    c, y, x = (data.draw(st.integers(0, size - 1)) for size in shape)
    block, lane = divmod(c, target.block_in)
    assert packed[block, y, x, 0, lane] == tensor[0, c, y, x]


@given(st.data(), targets, shapes)
def test_pad_lanes_and_rows_are_zero_and_ignored(
    data: st.DataObject, target: Accelerator, shape: tuple[int, int, int]
) -> None:
    tensor = data.draw(int8_arrays(1, *shape))
    packed = pack_activation(target, tensor)
    held = pack_activation(target, np.ones_like(tensor)).astype(bool)
    assert not packed[~held].any()
    garbage = np.where(held, packed, np.int8(77))
    assert np.array_equal(unpack_activation(target, garbage, shape[0]), tensor)


@given(st.data(), targets, channels, channels, sides)
def test_weights_survive_a_round_trip(
    data: st.DataObject, target: Accelerator, outputs: int, inputs: int, kernel: int
) -> None:
    weight = data.draw(int8_arrays(outputs, inputs, kernel, kernel))
    tiles = pack_weights(target, weight)
    assert tiles.shape[-2:] == (target.block_out, target.block_in)
    assert np.array_equal(unpack_weights(tiles, outputs, inputs), weight)


def test_a_weight_block_times_an_input_element_is_a_part_of_the_convolution() -> None:
    rng = np.random.default_rng(0)
    weight = rng.integers(-128, 128, (20, 24, 1, 1), np.int8)
    tensor = rng.integers(-128, 128, (1, 24, 1, 1), np.int8)
    tiles = pack_weights(STOCK, weight).astype(np.int32)[:, :, 0, 0]
    elements = pack_activation(STOCK, tensor).astype(np.int32)[:, 0, 0]
    products = np.einsum("bni,obji->onj", elements, tiles)
    expected = weight[:, :, 0, 0].astype(np.int32) @ tensor[0, :, 0, 0].astype(np.int32)
    assert np.array_equal(products[:, 0].reshape(-1)[:20], expected)


@given(st.data(), targets, channels)
def test_diagonal_weights_multiply_every_channel_by_its_factor(
    data: st.DataObject, target: Accelerator, count: int
) -> None:
    factors = data.draw(int8_arrays(count))
    tiles = diagonal_weights(target, factors)
    assert tiles.dtype == np.int8
    block = target.block_in
    lanes = np.arange(1, len(tiles) * block + 1, dtype=np.int32).reshape(-1, block)
    products = np.einsum("boi,bi->bo", tiles.astype(np.int32), lanes).reshape(-1)
    assert np.array_equal(products[:count], factors.astype(np.int32) * np.arange(1, count + 1))
    assert not products[count:].any()


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (
            lambda: pack_activation(STOCK, np.zeros((2, 1, 1, 1), np.int8)),
            "activation: 2 samples, expected at most the batch of 1",
        ),
        (
            lambda: pack_activation(STOCK, np.zeros((1, 1, 1, 1), np.int32)),
            r"activation: int32\[1, 1, 1, 1\], expected int8 with 4 dimensions",
        ),
        (
            lambda: unpack_activation(STOCK, np.zeros((1, 2, 2, 1, 16), np.int8), 17),
            r"shape \[1, 2, 2, 1, 16\] for 1 samples of 17 channels, expected \[2, 2, 2, 1, 16\]",
        ),
    ],
)
def test_wrong_shapes_are_refused(action: object, message: str) -> None:
    assert callable(action)
    with pytest.raises(LayerError, match=message):
        action()
