"""The input pixels that an output area needs, and the products between the two."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vta_stages.lowering.kernel import AxisMap, IndexArray, Source

ELEMENTS_PER_DMA_ROW = 80
"""The latency of a DMA row, as the number of 16-byte elements that the bus moves in that time."""


@dataclass(frozen=True, slots=True)
class AxisRange:
    """``count`` coordinates of one axis: ``first, first + step, ...``."""

    first: int
    step: int
    count: int


@dataclass(frozen=True, slots=True)
class OutputArea:
    """The output pixels ``rows[0] <= y < rows[1]``, ``cols[0] <= x < cols[1]``."""

    rows: tuple[int, int]
    cols: tuple[int, int]

    @property
    def height(self) -> int:
        """The number of rows."""
        return self.rows[1] - self.rows[0]

    @property
    def width(self) -> int:
        """The number of columns."""
        return self.cols[1] - self.cols[0]

    @property
    def pixels(self) -> int:
        """The number of pixels."""
        return self.height * self.width


@dataclass(frozen=True, slots=True)
class Patch:
    """Input pixels on chip, ``[rows.count][cols.count]`` per channel block."""

    rows: AxisRange
    cols: AxisRange

    @property
    def pixels(self) -> int:
        """The number of pixels in one channel block."""
        return self.rows.count * self.cols.count


def axis_range(axis: AxisMap, low: int, high: int, *, strided: bool) -> AxisRange:
    """Return the inputs that outputs ``low <= out < high`` need.

    With ``strided``, the range keeps equal gaps between the inputs; otherwise it fills all gaps.
    """
    needed = np.unique(axis.window(low, high).src)
    if not len(needed):
        return AxisRange(0, 1, 0)
    step = 1
    if strided and len(needed) > 1:
        gaps = np.diff(needed)
        step = int(gaps[0]) if (gaps == gaps[0]).all() else 1
    first, last = int(needed[0]), int(needed[-1])
    return AxisRange(first, step, (last - first) // step + 1)


def is_faster_whole(width: int, span_rows: int, rows: int, cols: int) -> bool:
    """Return whether ``span_rows`` whole rows load faster than ``cols`` columns of ``rows`` rows.

    Whole rows of a tensor are contiguous and make one DMA row; parts of rows make one DMA row each.
    """
    whole = ELEMENTS_PER_DMA_ROW + span_rows * width
    return whole <= rows * (ELEMENTS_PER_DMA_ROW + cols)


def patch_of(source: Source, area: OutputArea) -> Patch:
    """Return the input pixels that an output area needs.

    Pixels that no product needs are left out where that saves time. An area as wide as the output
    may take whole rows; the slots of narrower ones have no room for them.
    """
    cols = axis_range(source.cols, *area.cols, strided=False)
    rows = axis_range(source.rows, *area.rows, strided=True)
    span = axis_range(source.rows, *area.rows, strided=False)
    width = source.tensor.width
    widest = axis_range(source.cols, 0, int(source.cols.out.max(initial=-1)) + 1, strided=False)
    if cols == widest and is_faster_whole(width, span.count, rows.count, cols.count):
        return Patch(span, AxisRange(0, 1, width))
    return Patch(rows, cols)


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """Steps of one pair of channel blocks, int64[n] each.

    ``dst`` is a pixel of the accumulator, ``src`` a pixel of the patch, ``wgt`` a weight block.
    """

    dst: IndexArray
    src: IndexArray
    wgt: IndexArray

    def __len__(self) -> int:
        return len(self.dst)


def products_of(
    source: Source, area: OutputArea, patch: Patch, part: tuple[int, int] = (0, 0)
) -> Products:
    """Return the products of one part of an area, with the reduction as the outer loop.

    All pixels get their first product before any gets its second. That keeps steps on the same
    accumulator entry far apart.
    """
    rows = source.rows.window(*area.rows).only(part[0])
    cols = source.cols.window(*area.cols).only(part[1])
    row, col = (g.ravel() for g in np.mgrid[: len(rows.out), : len(cols.out)])
    order = np.lexsort((cols.out[col], rows.out[row], cols.rank[col], rows.rank[row]))
    row, col = row[order], col[order]
    src_y = (rows.src[row] - patch.rows.first) // patch.rows.step
    return Products(
        dst=(rows.out[row] - area.rows[0]) * area.width + cols.out[col] - area.cols[0],
        src=src_y * patch.cols.count + cols.src[col] - patch.cols.first,
        wgt=source.weight_of_tap[rows.tap[row] * cols.taps + cols.tap[col]],
    )
