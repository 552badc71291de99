"""Rewrites preserve the meaning of a network and are done only where they pay off."""

from __future__ import annotations

import numpy as np
from compiler_support import int8, tensor
from hypothesis import given
from hypothesis import strategies as st

from vta_stages.layers.check import check_consistent, conv_extent
from vta_stages.layers.records import MaxPool
from vta_stages.layers.reference import run_layers
from vta_stages.lowering.rewrites import split_pool


def pool(
    extent: int, kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int]
) -> MaxPool:
    height, width = (
        conv_extent(extent, k, s, 1, 2 * p) for k, s, p in zip(kernel, stride, padding, strict=True)
    )
    return MaxPool(
        name="pool",
        input=tensor("x", 3, extent, extent),
        output=tensor("y", 3, height, width),
        kernel=kernel,
        stride=stride,
        padding=(*padding, *padding),
    )


def test_large_windows_are_split() -> None:
    parts = split_pool(pool(13, (5, 5), (1, 1), (2, 2)))
    assert [(part.kernel, part.output.name) for part in parts] == [
        ((1, 5), "y:rows"),
        ((5, 1), "y"),
    ]


def test_small_windows_are_not_split() -> None:
    for kernel, stride in (((2, 2), (2, 2)), ((1, 3), (1, 2)), ((3, 1), (1, 1))):
        layer = pool(12, kernel, stride, (0, 0))
        assert split_pool(layer) == [layer]


@given(
    extent=st.integers(7, 16),
    kernel=st.tuples(st.integers(2, 6), st.integers(2, 6)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.tuples(st.integers(0, 1), st.integers(0, 1)),
)
def test_parts_compute_the_same(extent, kernel, stride, padding) -> None:
    layer = pool(extent, kernel, stride, padding)
    parts = split_pool(layer)
    for part in parts:
        check_consistent(part)
    inputs = {"x": int8(np.random.default_rng(0), 3, extent, extent)}
    whole, split = run_layers([layer], inputs), run_layers(parts, inputs)
    np.testing.assert_array_equal(whole["y"], split["y"])
