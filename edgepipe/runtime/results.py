"""The results of a finished frame: its arrays, and what the description makes of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.runtime.named import Named

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Point:
    """A landmark or keypoint in pixels, with its score (1.0 if the network gives none).

    ``label`` names a keypoint; points of a box have none.
    """

    x: float
    y: float
    score: float = 1.0
    label: str = ""

    def scaled(self, x: float, y: float, *, left: float = 0.0, top: float = 0.0) -> Point:
        """Return the point with ``(left, top)`` added, then stretched by ``x`` and ``y``."""
        return replace(self, x=(self.x + left) * x, y=(self.y + top) * y)


@dataclass(frozen=True, slots=True)
class Detection:
    """A box in pixels of a picture, left-top to right-bottom, with its class, score and points.

    The pipeline gives boxes in pixels of the network's input; ``scaled`` converts them to the
    picture that the input was made from.
    """

    left: float
    top: float
    right: float
    bottom: float
    score: float
    label_index: int
    label: str = ""
    points: tuple[Point, ...] = ()

    def scaled(self, x: float, y: float, *, left: float = 0.0, top: float = 0.0) -> Detection:
        """Return the box with ``(left, top)`` added, then stretched by ``x`` and ``y``."""
        return replace(
            self,
            left=(self.left + left) * x,
            top=(self.top + top) * y,
            right=(self.right + left) * x,
            bottom=(self.bottom + top) * y,
            points=tuple(point.scaled(x, y, left=left, top=top) for point in self.points),
        )


@dataclass(frozen=True, slots=True)
class ClassScore:
    """One of a classifier's best classes: the network's score and its probability."""

    score: float
    probability: float
    label_index: int
    label: str = ""


@dataclass(frozen=True, slots=True)
class ClassArea:
    """The share of a picture, from 0 to 1, that a class covers."""

    share: float
    label_index: int
    label: str


@dataclass(frozen=True, slots=True, eq=False)
class ClassMap:
    """The class of every cell: ``classes: uint8[rows, columns]``, which cover the input evenly."""

    classes: NDArray[np.uint8]
    labels: tuple[str, ...] = ()

    def areas(self) -> tuple[ClassArea, ...]:
        """Return the classes that occur, with their shares of the cells, largest first."""
        cells = np.bincount(self.classes.reshape(-1), minlength=256)
        order = [int(index) for index in np.argsort(-cells, kind="stable") if cells[index]]
        return tuple(
            ClassArea(float(cells[index]) / self.classes.size, index, label_of(self.labels, index))
            for index in order
        )


def label_of(labels: tuple[str, ...], label_index: int) -> str:
    """Return a class's name, or its number if there is no name for it."""
    return labels[label_index] if 0 <= label_index < len(labels) else str(label_index)


@dataclass(slots=True, eq=False)  # not frozen: one is created for each frame
class FrameResult:
    """A finished frame, the same for every pipeline.

    ``outputs`` are the arrays by index and by name, as ``outputs[0]`` or ``outputs["scores"]``, of
    the shapes and dtypes of ``Pipeline.outputs``; they belong to the caller, and no later frame
    overwrites them. A bundle's postprocessing fills ``detections`` (best first), ``classes`` (best
    first), ``points``, ``class_map``, or ``text`` and ``text_score``, the mean probability of its
    characters. Boxes and points are in pixels of the network's input, or of the picture if the
    pipeline was called with one; then the map has a cell for each pixel of the picture.
    ``latency_ms`` is the time from ``run`` to the last stage's end.
    """

    frame: int
    latency_ms: float
    outputs: Named[Array]
    detections: tuple[Detection, ...] = ()
    classes: tuple[ClassScore, ...] = ()
    points: tuple[Point, ...] = ()
    class_map: ClassMap | None = None
    text: str = ""
    text_score: float = 0.0
