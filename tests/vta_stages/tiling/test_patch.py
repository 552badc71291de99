"""Patches: the input pixels of a tile, in as few DMA rows as pays off."""

from __future__ import annotations

import numpy as np
import pytest
from compiler_support import STOCK, conv, tensor

from vta_stages.lowering.lower import lower
from vta_stages.tiling.patch import AxisRange, OutputArea, Patch, patch_of


def source(extent: int, stride: int):
    layer = conv(
        np.random.default_rng(0), "c", tensor("x", 16, extent, extent), 16, 1, stride=stride
    )
    return lower(layer, STOCK).sources[0]


@pytest.mark.parametrize(
    ("extent", "rows", "cols", "expected"),
    [
        # 7 rows of 13 pixels are 7 DMA rows; 13 whole rows are one of 182 elements.
        (14, (0, 7), (0, 7), Patch(AxisRange(0, 1, 13), AxisRange(0, 1, 14))),
        # 4 parts of rows take 4 * (80 + 111) elements' time, 7 whole ones 80 + 7 * 112.
        (112, (0, 4), (0, 56), Patch(AxisRange(0, 2, 4), AxisRange(0, 1, 111))),
        # The slot of a narrow tile has no room for whole rows.
        (14, (0, 7), (0, 3), Patch(AxisRange(0, 2, 7), AxisRange(0, 1, 5))),
    ],
)
def test_whole_rows_are_loaded_where_that_is_faster(extent, rows, cols, expected) -> None:
    assert patch_of(source(extent, 2), OutputArea(rows, cols)) == expected


def test_a_copy_loads_whole_rows() -> None:
    assert patch_of(source(14, 1), OutputArea((2, 5), (0, 14))) == Patch(
        AxisRange(2, 1, 3), AxisRange(0, 1, 14)
    )
