"""Resize pictures with the arithmetic of the C++ runtime, in integers: the same bytes everywhere.

The weights of an axis add up to exactly 2048 (cpp_runtime/src/media/pictures/axis_taps.h). With v
and h the weights of both axes, a byte of the result is (sum of v h byte + 2**21) >> 22.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

_UNITY_LOG2 = 11
_UNITY = 1 << _UNITY_LOG2

Tap = tuple[NDArray[np.intp], NDArray[np.uint32]]
"""For every output pixel of an axis: a source pixel, and its weight."""


def resize(picture: NDArray[np.uint8], width: int, height: int) -> NDArray[np.uint8]:
    """Resize ``picture: uint8[h, w, channels]`` to uint8[height, width, channels], in pixels.

    Shrinking both sides averages over the area that a pixel covers; otherwise pixels are
    interpolated between the two nearest centres.
    """
    rows, columns = picture.shape[:2]
    if (columns, rows) == (width, height):
        return picture
    axis_taps = _area if width < columns and height < rows else _linear
    by_row = np.zeros((height, columns, picture.shape[2]), np.uint32)
    for source, weight in axis_taps(rows, height):
        by_row += weight[:, None, None] * picture[source]
    total = np.full((height, width, picture.shape[2]), 1 << (2 * _UNITY_LOG2 - 1), np.uint32)
    for source, weight in axis_taps(columns, width):
        total += weight[None, :, None] * by_row[:, source]
    return (total >> (2 * _UNITY_LOG2)).astype(np.uint8)


def _area(source: int, fitted: int) -> Iterator[Tap]:
    """Yield the taps that average; output o covers [o * source, (o + 1) * source) / fitted.

    Rounding the running total of the overlaps makes the sum of the weights exact.
    """
    begin = np.arange(fitted, dtype=np.int64) * source
    first = begin // fitted
    given = np.zeros(fitted, np.int64)
    for step in range(-(-source // fitted) + 1):
        pixel = first + step
        covered = np.minimum((pixel + 1) * fitted, begin + source) - begin
        total = (covered * _UNITY + source // 2) // source
        yield np.minimum(pixel, source - 1), (total - given).astype(np.uint32)
        given = total


def _linear(source: int, fitted: int) -> Iterator[Tap]:
    """Yield the two taps that interpolate; beyond the last centres the edge repeats."""
    denominator = 2 * fitted
    place = (2 * np.arange(fitted, dtype=np.int64) + 1) * source - fitted
    place = np.clip(place, 0, (source - 1) * denominator)
    first = place // denominator
    second = ((place % denominator) * _UNITY + denominator // 2) // denominator
    yield first, (_UNITY - second).astype(np.uint32)
    yield np.minimum(first + 1, source - 1), second.astype(np.uint32)
