"""What the tiling search needs to know about a kernel, computed once: sizes, without any cost."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from vta_stages.lowering.kernel import Accumulate, AxisMap, FoldWindows, Kernel, Source
from vta_stages.tiling.patch import is_faster_whole
from vta_stages.tiling.tiling import channel_chunks, channel_runs


class TileSize(NamedTuple):
    """A candidate for the size of a kernel's tiles.

    ``rows`` and ``cols`` are pixels, ``co`` output blocks and ``ci`` input blocks of a chunk.
    """

    rows: int
    cols: int
    co: int
    ci: int


class PatchSize(NamedTuple):
    """The most input that an area needs from each channel block, in pixels and rows.

    ``whole_rows`` says that the patch consists of whole rows, which are contiguous in DRAM.
    """

    pixels: int
    rows: int
    whole_rows: bool


class KernelShape:
    """The sizes of a kernel and of the parts that a candidate divides it into.

    The lists have one item per source:

    - ``products``: the products of one pair of channel blocks for the whole output. Folded windows
      copy every pixel once instead, regardless of how many windows it belongs to; values of
      channels are copied once for each tile, which does not count.
    - ``repeats``: how many steps read the source, at least 1.

    ``folded`` are the indices of the sources whose windows are folded.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.folded = [step.source for step in kernel.steps if isinstance(step, FoldWindows)]
        self.products = [
            len(np.unique(source.rows.src)) * len(np.unique(source.cols.src))
            if index in self.folded
            else 1
            if index in kernel.of_channels
            else len(source.rows.out) * len(source.cols.out)
            for index, source in enumerate(kernel.sources)
        ]
        self.repeats = [
            max(sum(isinstance(s, Accumulate) and s.source == index for s in kernel.steps), 1)
            for index in range(len(kernel.sources))
        ]
        self._row_steps = [_common_step(source.rows) for source in kernel.sources]
        self._extents: dict[tuple[int, int], int] = {}
        self._patches: dict[tuple[int, int, int], PatchSize] = {}

    @property
    def rereads(self) -> bool:
        """Whether several steps read the same source."""
        return max(self.repeats, default=1) > 1

    def widths(self) -> list[int]:
        """Return the widths of candidates in pixels, the widest first."""
        widths = _piece_sizes(self.kernel.output.width)
        return widths[:1] + widths[1::2]

    def sizes(self, cols: int) -> Iterator[TileSize]:
        """Yield the candidates that are ``cols`` pixels wide."""
        dense = [source.ci_count for source in self.kernel.sources if not source.diagonal]
        longest_run = max(end - first for first, end in channel_runs(self.kernel))
        for rows, co, ci in product(
            _piece_sizes(self.kernel.output.height),
            _piece_sizes(longest_run),
            _piece_sizes(max(dense, default=1)),
        ):
            yield TileSize(rows, cols, co, ci)

    def areas(self, size: TileSize) -> tuple[int, int]:
        """Return how many areas the output has, and how many side by side."""
        across = -(-self.kernel.output.width // size.cols)
        return -(-self.kernel.output.height // size.rows) * across, across

    def channel_chunks(self, size: TileSize) -> int:
        """Return how many chunks of output blocks the kernel has."""
        return len(channel_chunks(self.kernel, size.co))

    def input_chunks(self, source: Source, size: TileSize) -> tuple[int, int]:
        """Return the input blocks of a chunk, and how many chunks a tile's reduction has."""
        if source.diagonal:
            return size.co, 1
        return min(size.ci, source.ci_count), -(-source.ci_count // size.ci)

    def patch(self, index: int, rows: int, cols: int) -> PatchSize:
        """Return the most input of source ``index`` that an area of that many pixels needs.

        Agrees with :func:`vta_stages.tiling.patch.patch_of`, which decides for each area.
        """
        known = self._patches.get((index, rows, cols))
        if known is None:
            known = self._patches[index, rows, cols] = self._patch(index, rows, cols)
        return known

    def folds(self, index: int, rows: int, cols: int) -> int:
        """Return how many vector steps fold the windows of an area in one channel block."""
        source = self.kernel.sources[index]
        height = self.patch(index, rows, cols).rows
        aside = (source.cols.taps - 1) * cols * max(height - rows, 0)
        return aside + rows * cols * (source.cols.taps + source.rows.taps - 2)

    def load_rows(self, index: int, rows: int, cols: int, blocks: int) -> tuple[int, int]:
        """Return how many DMA rows and instructions load that many blocks of a patch."""
        tensor = self.kernel.sources[index].tensor
        patch = self.patch(index, rows, cols)
        if patch.pixels == tensor.height * tensor.width:
            return 1, 1
        return (blocks, 1) if patch.whole_rows else (blocks * patch.rows, blocks)

    def _patch(self, index: int, rows: int, cols: int) -> PatchSize:
        source, output = self.kernel.sources[index], self.kernel.output
        tall = self._extent(2 * index, source.rows, output.height, rows)
        wide = self._extent(2 * index + 1, source.cols, output.width, cols)
        needed_rows = -(-tall // self._row_steps[index])
        width = source.tensor.width
        if cols >= output.width and is_faster_whole(width, tall, needed_rows, wide):
            return PatchSize(tall * width, tall, True)
        return PatchSize(needed_rows * wide, needed_rows, False)

    def _extent(self, key: int, axis: AxisMap, outputs: int, size: int) -> int:
        """Return how many input coordinates ``size`` neighbouring outputs span at most."""
        known = self._extents.get((key, size))
        if known is None:
            low = np.full(outputs, np.iinfo(np.int64).max)
            high = np.full(outputs, -1)
            np.minimum.at(low, axis.out, axis.src)
            np.maximum.at(high, axis.out, axis.src)
            starts = np.arange(0, outputs, size)
            extents = np.maximum.reduceat(high, starts) - np.minimum.reduceat(low, starts) + 1
            known = self._extents[key, size] = int(max(extents.max(), 0))
        return known


def _piece_sizes(extent: int) -> list[int]:
    """Return the sizes that divide ``extent`` into 1, 2, 3, ... nearly equal pieces."""
    return sorted({-(-extent // pieces) for pieces in range(1, extent + 1)}, reverse=True)


def _common_step(axis: AxisMap) -> int:
    """Return the distance between the coordinates that an axis reads, 1 if it varies."""
    gaps = np.unique(np.diff(np.unique(axis.src)))
    return int(gaps[0]) if len(gaps) == 1 else 1
