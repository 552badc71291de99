"""Resize as two matrices of integers, for the coordinate rules of ONNX."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Int32Array = NDArray[np.int32]

# Coordinate rules of the ONNX operator Resize: output index, input size, output size -> position.
COORDINATES: dict[str, Callable[[int, int, int], Fraction]] = {
    "half_pixel": lambda i, n, m: (Fraction(2 * i + 1, 2) * n) / m - Fraction(1, 2),
    "pytorch_half_pixel": lambda i, n, m: (
        (Fraction(2 * i + 1, 2) * n) / m - Fraction(1, 2) if m > 1 else Fraction(0)
    ),
    "asymmetric": lambda i, n, m: Fraction(i * n, m),
    "align_corners": lambda i, n, m: Fraction(i * (n - 1), m - 1) if m > 1 else Fraction(0),
}
ROUNDINGS: dict[str, Callable[[Fraction], int]] = {
    "round": lambda x: math.ceil(x - Fraction(1, 2)),
    "round_prefer_floor": lambda x: math.ceil(x - Fraction(1, 2)),
    "round_prefer_ceil": lambda x: math.floor(x + Fraction(1, 2)),
    "floor": math.floor,
    "ceil": math.ceil,
}
MAX_SHIFT = 7
INEXACT_SHIFT = 6
MOST_GAIN = 1.6


def resize_matrices(
    sizes: tuple[tuple[int, int], tuple[int, int]], method: str, coordinates: str, rounding: str
) -> tuple[Int32Array, Int32Array, int] | None:
    """Return (rows, cols, shift) for input and output (height, width), or None if inexact.

    ``method`` is "linear" or "nearest_neighbor". The weights of a row times those of a column sum
    to ``2**shift`` and each product fits int8; positions outside are clamped to the border.
    ``rows`` is int32[output height, input height], ``cols`` int32[output width, input width]; sizes
    are in pixels.
    """
    if coordinates not in COORDINATES or method not in ("linear", "nearest_neighbor"):
        return None
    if method == "nearest_neighbor" and rounding not in ROUNDINGS:
        return None
    matrices = []
    shift = 0
    for source, target in zip(*sizes, strict=True):
        weights = _weights(source, target, method, coordinates, rounding)
        denominator = math.lcm(*(w.denominator for row in weights for w in row.values()))
        if denominator & (denominator - 1):
            return None
        shift += denominator.bit_length() - 1
        matrix = np.zeros((target, source), np.int32)
        for index, row in enumerate(weights):
            for position, weight in row.items():
                matrix[index, position] = int(weight * denominator)
        matrices.append(matrix)
    if shift > MAX_SHIFT or int(matrices[0].max()) * int(matrices[1].max()) > 127:
        return None
    return matrices[0], matrices[1], shift


def integer_matrix(matrix: NDArray[np.generic]) -> tuple[Int32Array, int] | None:
    """Return ``matrix`` [out, in] as int32 of the same shape and a shift, or None.

    The weights are exact if they are multiples of 2**-7 up to 127/128. Otherwise they are multiples
    of 1/64, and rounding does not change a row's sum by more than 1/128, so that a plain area stays
    plain. None if a row can grow values beyond 1.6 times their range, which no resampling does.
    """
    values = np.asarray(matrix, np.float64)
    if not values.size or np.abs(values).sum(axis=1).max() > MOST_GAIN or not values.any():
        return None
    for shift in range(MAX_SHIFT + 1):
        scaled = values * 2.0**shift
        rounded = np.rint(scaled)
        if np.abs(rounded).max() > 127:
            break
        if np.allclose(scaled, rounded, rtol=0, atol=1e-4):
            return rounded.astype(np.int32), shift
    scaled = values * 2.0**INEXACT_SHIFT
    rounded = np.rint(scaled)
    # The element that rounding changed most makes up for the difference of the sums.
    for row, (had, made) in enumerate(zip(scaled, rounded, strict=True)):
        missing = int(np.rint(had.sum()) - made.sum())
        order = np.argsort((made - had) * np.sign(missing), kind="stable")
        for column in order[: abs(missing)]:
            rounded[row, column] += np.sign(missing)
    return rounded.astype(np.int32), INEXACT_SHIFT


def _weights(
    source: int, target: int, method: str, coordinates: str, rounding: str
) -> list[dict[int, Fraction]]:
    rows = []
    for index in range(target):
        position = COORDINATES[coordinates](index, source, target)
        row: dict[int, Fraction] = {}
        if method == "linear":
            low = math.floor(position)
            parts = {low: 1 - (position - low), low + 1: position - low}
        else:
            parts = {ROUNDINGS[rounding](position): Fraction(1)}
        for at, weight in parts.items():
            clamped = min(max(at, 0), source - 1)
            if weight:
                row[clamped] = row.get(clamped, Fraction(0)) + weight
        rows.append(row)
    return rows
