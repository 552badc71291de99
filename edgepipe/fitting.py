"""Fit pictures of any size to a bundle's input, and convert boxes back to the picture."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe import media
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.runtime.results import ClassMap, Detection, FrameResult, Point

Frame = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class PictureFitter:
    """Fits pictures as a bundle's description says."""

    preprocess: Preprocess

    def frame(
        self, picture: NDArray[Any] | str | os.PathLike[str]
    ) -> tuple[Frame, tuple[int, int]]:
        """Return the frame uint8[1, h, w, c] of a picture, and the picture's height and width.

        ``picture`` is uint8[height, width, 3] in BGR or a file's path. Raises MediaError.
        """
        if isinstance(picture, str | os.PathLike):
            picture = media.read_picture(Path(picture))
        frame = self.preprocess.frame(picture)
        return frame, (picture.shape[0], picture.shape[1])

    def in_picture(self, result: FrameResult, size: tuple[int, int]) -> FrameResult:
        """Return a result with boxes and points in pixels of a picture of ``size``.

        ``size`` is (height, width). Of a class map, the cells whose centres show the picture are
        left.
        """
        shown = result.class_map
        if shown is not None:
            rows, columns = self._cells(shown, size)
            shown = replace(shown, classes=shown.classes[rows, columns])
        return replace(
            result,
            detections=self._boxes(result.detections, size),
            points=tuple(self._mapped(point, size) for point in result.points),
            class_map=shown,
        )

    def _boxes(
        self, detections: Sequence[Detection], size: tuple[int, int]
    ) -> tuple[Detection, ...]:
        """Return detections in pixels of a picture of ``size`` (height, width), and inside it."""
        height, width = size

        def inside(x: float, y: float) -> tuple[float, float]:
            point = self._mapped(Point(x, y), size)
            return min(max(point.x, 0.0), float(width)), min(max(point.y, 0.0), float(height))

        found = []
        for box in detections:
            left, top = inside(box.left, box.top)
            right, bottom = inside(box.right, box.bottom)
            points = tuple(self._mapped(point, size) for point in box.points)
            found.append(
                replace(box, left=left, top=top, right=right, bottom=bottom, points=points)
            )
        return tuple(found)

    def picture_map(self, class_map: ClassMap, size: tuple[int, int]) -> NDArray[np.uint8]:
        """Return the class of every pixel of a picture of ``size`` (height, width).

        The result is uint8[height, width]: the class of the cell in which the pixel lies, and class
        0 for what ``center_crop`` cuts off. ``class_map`` is that of the whole input.
        """
        height, width = size
        scale_x, scale_y, left, top = self.preprocess.placement(width, height)
        rows, columns = class_map.classes.shape
        y = np.floor(((np.arange(height) + 0.5) * scale_y - top) * rows / self.preprocess.height)
        x = np.floor(((np.arange(width) + 0.5) * scale_x - left) * columns / self.preprocess.width)
        seen = ((y >= 0) & (y < rows))[:, None] & ((x >= 0) & (x < columns))[None]
        places = np.ix_(
            np.clip(y, 0, rows - 1).astype(np.intp), np.clip(x, 0, columns - 1).astype(np.intp)
        )
        return np.where(seen, class_map.classes[places], 0).astype(np.uint8)

    def _mapped(self, point: Point, size: tuple[int, int]) -> Point:
        scale_x, scale_y, left, top = self.preprocess.placement(size[1], size[0])
        return replace(  # rounded as in the C++ runtime
            point,
            x=float(np.float32((point.x + left) / scale_x)),
            y=float(np.float32((point.y + top) / scale_y)),
        )

    def _cells(self, class_map: ClassMap, size: tuple[int, int]) -> tuple[slice, slice]:
        """Return the rows and columns of the cells whose centres show the picture."""
        height, width = size
        scale_x, scale_y, left, top = self.preprocess.placement(width, height)
        rows, columns = class_map.classes.shape
        fitted_width, fitted_height = round(scale_x * width), round(scale_y * height)
        return (
            _centres_within(rows, self.preprocess.height, top, fitted_height),
            _centres_within(columns, self.preprocess.width, left, fitted_width),
        )


def _centres_within(cells: int, side: int, cut: int, fitted: int) -> slice:
    """Return the cells over ``side`` pixels whose centres are among those of a fitted picture.

    All sides are in pixels. The picture begins ``cut`` pixels before the input, or behind its
    beginning if ``cut`` is negative.
    """
    twice = (2 * np.arange(cells) + 1) * side
    first, end = max(-cut, 0), max(-cut, 0) + fitted - max(cut, 0)
    inside = np.flatnonzero((twice >= 2 * first * cells) & (twice < 2 * end * cells))
    return slice(int(inside[0]), int(inside[-1]) + 1) if inside.size else slice(0, 0)
