"""The results of a finished frame: its arrays, a detector's boxes, a classifier's best classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from edgepipe.runtime.named import Named

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Point:
    """A landmark or keypoint in pixels, with its score (1.0 if the network gives none)."""

    x: float
    y: float
    score: float = 1.0


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
    label: str
    points: tuple[Point, ...] = ()

    def scaled(self, x: float, y: float, *, left: float = 0.0, top: float = 0.0) -> Detection:
        """Return the box with ``(left, top)`` added, then stretched by ``x`` and ``y``."""
        return replace(
            self,
            left=(self.left + left) * x,
            top=(self.top + top) * y,
            right=(self.right + left) * x,
            bottom=(self.bottom + top) * y,
            points=tuple(Point((p.x + left) * x, (p.y + top) * y, p.score) for p in self.points),
        )


@dataclass(frozen=True, slots=True)
class ClassScore:
    """One of a classifier's best classes: the network's score and its probability."""

    score: float
    probability: float
    label_index: int
    label: str


@dataclass(slots=True, eq=False)  # not frozen: one is created for each frame
class FrameResult:
    """A finished frame, the same for every pipeline.

    ``outputs`` are the arrays by index and by name, as ``outputs[0]`` or ``outputs["scores"]``, of
    the shapes and dtypes of ``Pipeline.outputs``; they belong to the caller, and no later frame
    overwrites them. A bundle's postprocessing fills ``detections`` (best first, in pixels of the
    network's input, or of the picture if the pipeline was called with one) or ``classes`` (best
    first). ``latency_ms`` is the time from ``run`` to the last stage's end.
    """

    frame: int
    latency_ms: float
    outputs: Named[Array]
    detections: tuple[Detection, ...] = ()
    classes: tuple[ClassScore, ...] = ()
