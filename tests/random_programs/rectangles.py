"""Random rectangles of elements for LOAD and STORE."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Rectangle:
    """``y_size`` rows of ``x_size`` elements in DRAM, and as many, with pads, in a buffer."""

    dram_base: int
    x_size: int
    y_size: int
    x_stride: int
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    """``y_pad_0``, ``y_pad_1``, ``x_pad_0`` and ``x_pad_1``"""

    @property
    def buffer_elements(self) -> int:
        """How many elements of the buffer it takes."""
        before, after, left, right = self.pads
        return (before + self.y_size + after) * (left + self.x_size + right)

    def cells(self, element_cells: int) -> NDArray[np.int64]:
        """Return what it touches in DRAM, in cells of which an element has ``element_cells``."""
        rows = np.arange(self.y_size if self.x_size else 0) * self.x_stride + self.dram_base
        return (rows[:, None] * element_cells + np.arange(self.x_size * element_cells)).ravel()


def _pads(draw: Random) -> tuple[int, int, int, int]:
    most = draw.choice((1, 2, 2, 15))
    some = [draw.randint(1, most) if draw.random() < 0.4 else 0 for _ in range(4)]
    return (some[0], some[1], some[2], some[3])


def _sizes(draw: Random, room: int, *, padded: bool) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Yield sizes and pads that fit into ``room`` elements, ever simpler ones."""
    for _ in range(6):
        y_size = draw.choice((1, 1, 2, 3, draw.randint(1, 8)))
        x_size = draw.randint(1, max(1, room // y_size))
        pads = _pads(draw) if padded and draw.random() < 0.7 else (0, 0, 0, 0)
        if draw.random() < 0.05:
            x_size, y_size = draw.choice(((0, y_size), (x_size, 0)))
        if (pads[0] + y_size + pads[1]) * (pads[2] + x_size + pads[3]) <= room:
            yield x_size, y_size, pads
    yield draw.randint(1, room), 1, (0, 0, 0, 0)


def random_rectangle(
    draw: Random, *, room: int, first: int, last: int, padded: bool = False
) -> Rectangle:
    """Return a rectangle of at most ``room`` elements on chip, in ``[first, last)`` of DRAM.

    Rows overlap, repeat, touch or lie apart. ``padded`` allows pads, ``room`` is at least 1, and so
    is what is in DRAM.
    """
    limit = min(room, last - first)
    for x_size, y_size, pads in _sizes(draw, room, padded=padded):
        if x_size > limit:
            continue
        most = (last - first - x_size) // max(1, y_size - 1)
        stride = draw.choice((0, x_size, draw.randint(0, x_size), draw.randint(0, most)))
        stride = min(stride, most, (1 << 16) - 1)
        span = max(0, y_size - 1) * stride + x_size
        return Rectangle(
            dram_base=draw.randint(first, last - span),
            x_size=x_size,
            y_size=y_size,
            x_stride=stride,
            pads=(pads[0], pads[1], pads[2], pads[3]),
        )
    return Rectangle(dram_base=first, x_size=1, y_size=1, x_stride=1)
