"""NanoDet's outputs as boxes in numpy, and the agreement of two sets of boxes as AP50."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Boxes:
    """Boxes of one picture: ``corners: float64[n, 4]`` as left, top, right, bottom in pixels of the
    network's input, ``scores: float64[n]`` in descending order, ``classes: int64[n]``.
    """

    corners: Float
    scores: Float
    classes: NDArray[np.int64]

    def above(self, score: float) -> Boxes:
        """Return the boxes of at least ``score``."""
        keep = self.scores >= score
        return Boxes(
            corners=self.corners[keep], scores=self.scores[keep], classes=self.classes[keep]
        )


def decode_nanodet(
    outputs: Mapping[str, NDArray[Any]],
    scores: Sequence[str],
    distances: Sequence[str],
    *,
    strides: Sequence[int] = (8, 16, 32),
    input_size: tuple[int, int] = (416, 416),
    score_threshold: float = 0.4,
    iou_threshold: float = 0.5,
) -> Boxes:
    """Decode scores [1, n, classes] and distances [1, n, 4 * bins], one of each per stride.

    A side's distance from the cell centre (i + 0.5) * stride is the mean of its softmax over the
    bins, times the stride (Li et al., Generalized Focal Loss, 2020). A box that overlaps a better
    box of its class by more than ``iou_threshold`` is suppressed. ``input_size`` is (height,
    width). ``input_size`` is in pixels.
    """
    height, width = input_size
    parts = []
    for score_name, distance_name, stride in zip(scores, distances, strides, strict=True):
        score = outputs[score_name][0].astype(np.float64)
        rows, columns = -(-height // stride), -(-width // stride)
        bins = outputs[distance_name][0].reshape(rows * columns, 4, -1).astype(np.float64)
        weights = np.exp(bins - bins.max(axis=2, keepdims=True))
        weights /= weights.sum(axis=2, keepdims=True)
        sides = (weights * np.arange(bins.shape[2])).sum(axis=2) * stride
        x = (np.arange(columns)[None, :] + 0.5) * stride + np.zeros((rows, 1))
        y = (np.arange(rows)[:, None] + 0.5) * stride + np.zeros((1, columns))
        x, y = x.reshape(-1), y.reshape(-1)
        corners = np.stack(
            [x - sides[:, 0], y - sides[:, 1], x + sides[:, 2], y + sides[:, 3]], axis=1
        )
        corners = np.clip(corners, 0, [width, height, width, height])
        cells, classes = np.nonzero(score >= score_threshold)
        parts.append((corners[cells], score[cells, classes], classes))
    corners, values, classes = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(-values, kind="stable")
    corners, values, classes = corners[order], values[order], classes[order]
    keep = _suppress(corners, classes, iou_threshold)
    return Boxes(corners=corners[keep], scores=values[keep], classes=classes[keep])


def _suppress(
    corners: Float, classes: NDArray[np.int64], iou_threshold: float
) -> NDArray[np.int64]:
    kept: list[int] = []
    left = np.ones(len(corners), bool)
    for index in range(len(corners)):
        if left[index]:
            kept.append(index)
            overlap = intersection_over_union(corners[index : index + 1], corners)[0]
            left &= ~((overlap > iou_threshold) & (classes == classes[index]))
    return np.array(kept, np.int64)


def intersection_over_union(first: Float, second: Float) -> Float:
    """Return the IoU, float64[n, m], of boxes float64[n, 4] and float64[m, 4]."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = np.prod(np.clip(high - low, 0, None), axis=2)
    areas = [np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) for boxes in (first, second)]
    union = areas[0][:, None] + areas[1][None, :] - shared
    result: Float = shared / np.maximum(union, 1e-9)
    return result


def average_precision(
    found: Sequence[Boxes], truth: Sequence[Boxes], *, iou_threshold: float = 0.5
) -> float:
    """Return the area under precision over recall of ``found`` against ``truth``, all classes.

    Both contain one entry per picture. Found boxes are taken in descending order of score over all
    pictures. A box is correct if it overlaps an unmatched true box of its class by at least
    ``iou_threshold``. Precision is made non-increasing before the area is computed (as in PASCAL
    VOC since 2010).
    """
    total = sum(len(boxes.scores) for boxes in truth)
    entries = []
    for picture, (boxes, true) in enumerate(zip(found, truth, strict=True)):
        overlaps = intersection_over_union(boxes.corners, true.corners)
        overlaps = np.where(boxes.classes[:, None] == true.classes[None, :], overlaps, 0.0)
        entries += [(float(s), picture, overlaps[i]) for i, s in enumerate(boxes.scores)]
    entries.sort(key=lambda entry: -entry[0])
    matched = [np.zeros(len(true.scores), bool) for true in truth]
    hits = np.zeros(len(entries))
    for index, (_, picture, overlaps) in enumerate(entries):
        free = np.where(matched[picture], 0.0, overlaps)
        if free.size and free.max() >= iou_threshold:
            matched[picture][int(free.argmax())] = True
            hits[index] = 1
    if not total:
        return 1.0 if not entries else 0.0
    right = np.cumsum(hits)
    precision = right / np.arange(1, len(entries) + 1)
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    return float((precision * hits).sum() / total)
