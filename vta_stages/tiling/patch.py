"""The part of an input that one output tile needs, and the products between the two."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vta_stages.lowering.kernel import AxisMap, IndexArray, Source

ELEMENTS_PER_DMA_ROW = 80
"""How many 16-byte elements the bus moves in the latency of one DMA row."""


@dataclass(frozen=True, slots=True)
class Span:
    """``count`` coordinates of one axis: ``first, first + step, ...``."""

    first: int
    step: int
    count: int


@dataclass(frozen=True, slots=True)
class Tile:
    """Output pixels ``rows[0] <= y < rows[1]``, ``cols[0] <= x < cols[1]``."""

    rows: tuple[int, int]
    cols: tuple[int, int]

    @property
    def height(self) -> int:
        return self.rows[1] - self.rows[0]

    @property
    def width(self) -> int:
        return self.cols[1] - self.cols[0]

    @property
    def pixels(self) -> int:
        return self.height * self.width


@dataclass(frozen=True, slots=True)
class Patch:
    """Input pixels on chip, ``[rows.count][cols.count]`` per channel block."""

    rows: Span
    cols: Span

    @property
    def pixels(self) -> int:
        return self.rows.count * self.cols.count


def axis_span(axis: AxisMap, low: int, high: int, *, strided: bool) -> Span:
    """Return the inputs that outputs ``low <= out < high`` need; gaps are kept if all are equal."""
    needed = np.unique(axis.window(low, high).src)
    if not len(needed):
        return Span(0, 1, 0)
    step = 1
    if strided and len(needed) > 1:
        gaps = np.diff(needed)
        step = int(gaps[0]) if (gaps == gaps[0]).all() else 1
    first, last = int(needed[0]), int(needed[-1])
    return Span(first, step, (last - first) // step + 1)


def is_faster_whole(width: int, span_rows: int, rows: int, cols: int) -> bool:
    """Tell whether all of ``span_rows`` rows of a tensor take less time than ``cols`` of ``rows``.

    Whole rows follow each other and are one DMA row, where parts of rows are one each.
    """
    whole = ELEMENTS_PER_DMA_ROW + span_rows * width
    return whole <= rows * (ELEMENTS_PER_DMA_ROW + cols)


def patch_of(source: Source, tile: Tile) -> Patch:
    """Return the input pixels of a tile.

    Those that no product needs are left out where that saves time. A tile as wide as the output may
    take whole rows, a narrower one has no room for them.
    """
    cols = axis_span(source.cols, *tile.cols, strided=False)
    rows = axis_span(source.rows, *tile.rows, strided=True)
    span = axis_span(source.rows, *tile.rows, strided=False)
    width = source.tensor.width
    widest = axis_span(source.cols, 0, int(source.cols.out.max(initial=-1)) + 1, strided=False)
    if cols == widest and is_faster_whole(width, span.count, rows.count, cols.count):
        return Patch(span, Span(0, 1, width))
    return Patch(rows, cols)


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """Steps of one pair of channel blocks, int64[n] each: accumulator pixel, patch pixel, tile."""

    dst: IndexArray
    src: IndexArray
    wgt: IndexArray

    def __len__(self) -> int:
        return len(self.dst)


def products_of(
    source: Source, tile: Tile, patch: Patch, part: tuple[int, int] = (0, 0)
) -> Products:
    """Return the products of one part of a tile, the reduction outermost.

    All pixels have their first product before any has its second: that keeps the steps that touch
    one accumulator entry far apart.
    """
    rows = source.rows.window(*tile.rows).only(part[0])
    cols = source.cols.window(*tile.cols).only(part[1])
    row, col = (g.ravel() for g in np.mgrid[: len(rows.out), : len(cols.out)])
    order = np.lexsort((cols.out[col], rows.out[row], cols.rank[col], rows.rank[row]))
    row, col = row[order], col[order]
    src_y = (rows.src[row] - patch.rows.first) // patch.rows.step
    return Products(
        dst=(rows.out[row] - tile.rows[0]) * tile.width + cols.out[col] - tile.cols[0],
        src=src_y * patch.cols.count + cols.src[col] - patch.cols.first,
        wgt=source.tile_of_tap[rows.tap[row] * cols.taps + cols.tap[col]],
    )
