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
from edgepipe.runtime.results import Detection, Point

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

    def boxes(
        self, detections: Sequence[Detection], size: tuple[int, int]
    ) -> tuple[Detection, ...]:
        """Return detections in pixels of a picture of ``size`` (height, width), and inside it."""
        height, width = size
        scale_x, scale_y, left, top = self.preprocess.placement(width, height)

        def mapped(value: float, cropped: int, scale: float) -> float:
            return float(np.float32((value + cropped) / scale))  # as in the C++ runtime

        def inside(value: float, cropped: int, scale: float, side: int) -> float:
            return min(max(mapped(value, cropped, scale), 0.0), float(side))

        return tuple(
            replace(
                box,
                left=inside(box.left, left, scale_x, width),
                top=inside(box.top, top, scale_y, height),
                right=inside(box.right, left, scale_x, width),
                bottom=inside(box.bottom, top, scale_y, height),
                points=tuple(
                    Point(mapped(p.x, left, scale_x), mapped(p.y, top, scale_y), p.score)
                    for p in box.points
                ),
            )
            for box in detections
        )
