"""Folded windows: which poolings have centres, and the maxima that the moves compute."""

from __future__ import annotations

import numpy as np
import pytest
from compiler_support import STOCK, int8, tensor
from hypothesis import given
from hypothesis import strategies as st

from vta_stages.emission.window_fold import window_fold
from vta_stages.layers.check import conv_extent
from vta_stages.layers.records import MaxPool
from vta_stages.layers.reference import run_layer
from vta_stages.lowering.axis_maps import clamped_axis
from vta_stages.lowering.kernel import FoldWindows
from vta_stages.lowering.lower import lower
from vta_stages.lowering.window_centres import centre_tap
from vta_stages.tiling.patch import OutputArea, patch_of


def pool(extent: int, kernel: int, stride: int, pad: int) -> MaxPool:
    size = conv_extent(extent, kernel, stride, 1, 2 * pad)
    return MaxPool(
        name="pool",
        input=tensor("x", 16, extent, extent),
        output=tensor("y", 16, size, size),
        kernel=(kernel, kernel),
        stride=(stride, stride),
        padding=(pad,) * 4,
    )


@pytest.mark.parametrize(
    ("kernel", "stride", "pad", "tap"),
    [
        (3, 2, 1, 1),  # windows share their rims only
        (2, 2, 0, 0),  # windows share nothing
        (3, 3, 0, 0),
        (3, 1, 1, None),  # every pixel is in three windows
        (5, 2, 2, None),
    ],
)
def test_windows_with_centres(kernel, stride, pad, tap) -> None:
    extent = 12
    size = conv_extent(extent, kernel, stride, 1, 2 * pad)
    assert centre_tap(clamped_axis(size, extent, kernel, stride, pad)) == tap


@given(
    extent=st.integers(6, 15),
    shape=st.sampled_from([(2, 2, 0), (2, 2, 1), (3, 2, 0), (3, 2, 1), (3, 3, 1), (2, 3, 0)]),
    rows=st.integers(1, 5),
    cols=st.integers(1, 5),
)
def test_the_moves_compute_every_maximum(extent: int, shape, rows: int, cols: int) -> None:
    layer = pool(extent, *shape)
    kernel = lower(layer, STOCK)
    assert any(isinstance(step, FoldWindows) for step in kernel.steps)
    picture = int8(np.random.default_rng(extent), 16, extent, extent)
    expected = run_layer(layer, {"x": picture})[0]
    source = kernel.sources[0]
    for y in range(0, layer.output.height, rows):
        for x in range(0, layer.output.width, cols):
            area = OutputArea(
                (y, min(y + rows, layer.output.height)), (x, min(x + cols, layer.output.width))
            )
            patch = patch_of(source, area)
            y_in = patch.rows.first + patch.rows.step * np.arange(patch.rows.count)
            x_in = patch.cols.first + patch.cols.step * np.arange(patch.cols.count)
            content = picture[0][np.ix_(y_in, x_in)].ravel()
            fold = window_fold(source, area, patch)
            # Entries that no copy fills must never be the maximum.
            main, temp = (np.full(n, -200) for n in (area.pixels, patch.pixels))
            main[fold.to_main.dst] = content[fold.to_main.src]
            temp[fold.to_temp.dst] = content[fold.to_temp.src]
            for moves in fold.in_temp:
                assert not np.isin(moves.dst, moves.src).any()
                temp[moves.dst] = np.maximum(temp[moves.dst], temp[moves.src])
            for moves in fold.into_main:
                main[moves.dst] = np.maximum(main[moves.dst], temp[moves.src])
            found = main.reshape(area.height, area.width)
            np.testing.assert_array_equal(found, expected[slice(*area.rows), slice(*area.cols)])
