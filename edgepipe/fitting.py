"""Fit pictures of any size to a bundle's input, and convert boxes back to the picture."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe import media
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.runtime.results import Detection

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
        """Return detections in pixels of a picture of ``size`` (height, width)."""
        scale_x, scale_y, left, top = self.preprocess.placement(size[1], size[0])
        return tuple(d.scaled(1 / scale_x, 1 / scale_y, left=left, top=top) for d in detections)
