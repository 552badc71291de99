"""Detection heads decoded in numpy: the reference for the C++ decoder.

Everything is computed in float64 and rounded to float32 once, over whole arrays instead of box by
box, so results can be compared exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgepipe.report.detection import intersection_over_union

Array = NDArray[np.float64]
MOST_CANDIDATES, MOST_DETECTIONS = 1000, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Boxes of one picture, best first: corners, scores, classes and points."""

    corners: NDArray[np.float32]
    scores: NDArray[np.float32]
    classes: NDArray[np.int64]
    points: NDArray[np.float32]


def sigmoid(values: Array) -> Array:
    """Return 1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-values))


def softmax(values: Array) -> Array:
    """Return the softmax over the last axis."""
    weights = np.exp(values - values.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def cells(rows: int, columns: int, per_cell: int, offset: float) -> tuple[Array, Array]:
    """Return the columns and rows of all boxes of a head, shifted by ``offset``."""
    y, x = np.divmod(np.arange(rows * columns), columns)
    return np.repeat(x + offset, per_cell), np.repeat(y + offset, per_cell)


def around(x: Array, y: Array, width: Array, height: Array) -> Array:
    """Return corners from centres and sizes."""
    return np.stack([x - width / 2, y - height / 2, x + width / 2, y + height / 2], axis=1)


def choose(
    levels: Sequence[tuple[Array, Array, Array]],
    *,
    size: tuple[int, int],
    score_threshold: float,
    iou_threshold: float,
) -> Found:
    """Choose among corners [n, 4], scores [n, classes] and points [n, k, 3] of every level."""
    corners, scores, points = (np.concatenate(parts) for parts in zip(*levels, strict=True))
    width, height = size
    corners = np.clip(corners, 0, [width, height, width, height]).astype(np.float32)
    rounded = scores.astype(np.float32)
    boxes, classes = np.nonzero(rounded >= np.float32(score_threshold))
    values = rounded[boxes, classes]
    order = np.argsort(-values, kind="stable")[:MOST_CANDIDATES]
    kept: list[int] = []
    for index in order:
        rivals = [k for k in kept if classes[k] == classes[index]]
        one = corners[boxes[[index]]].astype(np.float64)
        overlap = intersection_over_union(one, corners[boxes[rivals]].astype(np.float64))
        if not (overlap.astype(np.float32) > np.float32(iou_threshold)).any():
            kept.append(index)
        if len(kept) == MOST_DETECTIONS:
            break
    return Found(
        corners=corners[boxes[kept]],
        scores=values[kept],
        classes=classes[kept],
        points=points[boxes[kept]].astype(np.float32),
    )
