"""Products of layers, counted one by one as an independent reference."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from vta_stages.layers.products import real_products
from vta_stages.layers.records import (
    Conv,
    Epilogue,
    MaxPool,
    Projection,
    TensorSpec,
    TransposedConv,
)


def tensor(channels: int, height: int, width: int) -> TensorSpec:
    return TensorSpec(name=f"t{channels}", channels=channels, height=height, width=width)


def epilogue(channels: int) -> Epilogue:
    zeros = np.zeros(channels, np.int32)
    return Epilogue(bias=zeros, shift=zeros, low=-128, high=127)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dilation", [(1, 1), (2, 1)])
@pytest.mark.parametrize("padding", [(0, 0, 0, 0), (1, 2, 0, 1)])
def test_a_convolution_multiplies_only_what_is_inside_its_input(groups, dilation, padding):
    height, width, kernel, stride = 7, 6, (3, 2), (2, 1)
    span = [dilation[axis] * (kernel[axis] - 1) + 1 for axis in (0, 1)]
    rows = (height + padding[0] + padding[2] - span[0]) // stride[0] + 1
    columns = (width + padding[1] + padding[3] - span[1]) // stride[1] + 1
    layer = Conv(
        name="c",
        input=tensor(4, height, width),
        output=tensor(6, rows, columns),
        weight=np.ones((6, 4 // groups, *kernel), np.int8),
        epilogue=epilogue(6),
        stride=stride,
        padding=padding,
        groups=groups,
        dilation=dilation,
    )
    expected = 0
    for y, x, dy, dx in itertools.product(*map(range, (rows, columns, *kernel))):
        row = y * stride[0] + dy * dilation[0] - padding[0]
        column = x * stride[1] + dx * dilation[1] - padding[1]
        expected += 6 * (4 // groups) * (0 <= row < height and 0 <= column < width)
    assert real_products(layer) == expected


def test_a_projection_adds_its_own_products():
    layer = Conv(
        name="c",
        input=tensor(4, 5, 5),
        output=tensor(6, 5, 5),
        weight=np.ones((6, 4, 1, 1), np.int8),
        epilogue=epilogue(6),
        projections=(Projection(tensor=tensor(3, 5, 5), weight=np.ones((6, 3), np.int8)),),
    )
    assert real_products(layer) == 25 * 6 * (4 + 3)


def test_a_transposed_convolution_drops_what_falls_outside_its_output():
    layer = TransposedConv(
        name="u",
        input=tensor(2, 3, 4),
        output=tensor(5, 6, 8),
        weight=np.ones((2, 5, 4, 4), np.int8),
        epilogue=epilogue(5),
        stride=(2, 2),
        padding=(1, 1, 1, 1),
    )
    expected = 0
    for y, x, dy, dx in itertools.product(range(3), range(4), range(4), range(4)):
        expected += 2 * 5 * (0 <= 2 * y - 1 + dy < 6 and 0 <= 2 * x - 1 + dx < 8)
    assert real_products(layer) == expected


def test_a_pooling_has_no_products():
    pool = MaxPool(
        name="p", input=tensor(4, 4, 4), output=tensor(4, 2, 2), kernel=(2, 2), stride=(2, 2)
    )
    assert real_products(pool) == 0
