"""Where the pictures of a batch lie in one picture, and the gaps between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from edgepipe.frontend.rewrites.places import Places

_TALLEST = 1024
"""The most rows of pictures below each other; more of them lie beside each other as well."""

Shape = tuple[int, ...]
Number = TypeVar("Number", np.float64, np.int64)


@dataclass(frozen=True, slots=True)
class Layout:
    """A batch [n, c, h, w] as a picture [1, ``channels`` c, ``rows`` h, ``columns`` w].

    n is the product of the three. Depthwise layers and pools take pictures as further channels,
    other layers take them below and beside each other.
    """

    channels: int
    rows: int
    columns: int

    @property
    def is_grid(self) -> bool:
        """Whether channels are those of the batch."""
        return self.channels == 1

    def picture(self, shape: Shape) -> Shape:
        """Return the shape of the picture for a batch of ``shape``."""
        _, channels, height, width = shape
        return (1, self.channels * channels, self.rows * height, self.columns * width)

    def places(self, shape: Shape) -> Places:
        """Return the place in the flat picture of every element of a batch of ``shape``."""
        _, channels, height, width = shape
        split = (self.channels, channels, self.rows, height, self.columns, width)
        flat = np.arange(int(np.prod(shape)), dtype=np.int64)
        return flat.reshape(split).transpose(0, 2, 4, 1, 3, 5).reshape(shape)

    def laid(self, batch: NDArray[Number]) -> NDArray[Number]:
        """Return the picture [1, ..] of a batch [n, c, h, w]."""
        picture = np.empty(batch.size, batch.dtype)
        picture[self.places(batch.shape).reshape(-1)] = batch.reshape(-1)
        return picture.reshape(self.picture(batch.shape))


def grids(count: int) -> Iterator[Layout]:
    """Yield the grids of a number of pictures, first the tallest."""
    for columns in range(1, count + 1):
        if count % columns == 0:
            yield Layout(1, count // columns, columns)


def usual_grid(count: int, height: int) -> Layout:
    """Return the grid of a number of pictures that do not come from one."""
    if count * height <= _TALLEST:
        return Layout(1, count, 1)
    return next(grid for grid in reversed([*grids(count)]) if grid.columns <= grid.rows)


@dataclass(frozen=True, slots=True)
class Window:
    """What a layer reads along one axis: ``reach`` pixels at every ``stride``.

    The first window begins ``before`` pixels before the first one.
    """

    reach: int
    stride: int
    before: int


@dataclass(frozen=True, slots=True)
class Spread:
    """Pictures along one axis with gaps, so that no window reads pixels of two of them.

    ``taken`` has for each pixel of the longer picture that of the shorter one, -1 for a zero;
    ``kept`` has the results that are those of the batch. ``behind`` is the padding behind.
    """

    taken: tuple[int, ...]
    kept: tuple[int, ...]
    behind: int


def spread(count: int, size: int, made: int, window: Window) -> Spread:
    """Return the gaps between ``count`` pictures of ``size`` pixels, of which ``made`` are made.

    The padding between two pictures is shared, and longer where the stride needs that.
    """
    last = (made - 1) * window.stride - window.before + window.reach
    behind = max(0, last - size)
    gap = max(window.before, behind) if count > 1 else 0
    gap += -(size + gap) % window.stride if count > 1 else 0
    pixels = np.full((count, size + gap), -1)
    pixels[:, :size] = np.arange(count * size).reshape(count, size)
    results = (size + gap) // window.stride
    kept = np.arange(count)[:, None] * results + np.arange(made)
    taken = pixels.reshape(-1)[: pixels.size - gap]
    return Spread(tuple(taken.tolist()), tuple(kept.reshape(-1).tolist()), behind)
