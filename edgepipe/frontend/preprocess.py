"""The preprocessing of pictures, and its table of input values per byte."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import FrontendError, MediaError
from edgepipe.frontend.resizing import resize

ORDERS = {"BGR": 3, "RGB": 3, "GRAY": 1}
FITS = ("stretch", "center_crop", "letterbox")
ALIGNMENTS = ("center", "top_left")

Frame = NDArray[np.uint8]
Picture = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preprocess:
    """How a picture becomes the network's input; part of the TOML file next to the model.

    The picture is fitted to ``width`` x ``height`` pixels: ``stretch`` resizes it without keeping
    its aspect ratio, ``center_crop`` scales its short side to ``resize_short_side`` pixels and
    crops the centre, ``letterbox`` scales it to fit inside, in the centre or at the top left as
    ``align`` says, and fills the rest with the byte ``padding``. Its
    channels are in ``order``. The network then sees ``(byte * scale - mean) / std``.
    """

    width: int
    height: int
    order: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    scale: float = 1.0
    fit: str = "stretch"
    resize_short_side: int = 0
    padding: int = 114
    align: str = "center"

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise FrontendError(
                f"preprocess: order {self.order!r} is unknown",
                hint=f"known orders: {', '.join(ORDERS)}",
            )
        if self.fit not in FITS:
            raise FrontendError(
                f"preprocess: fit {self.fit!r} is unknown", hint=f"known fits: {', '.join(FITS)}"
            )
        if self.align not in ALIGNMENTS:
            raise FrontendError(
                f"preprocess: align {self.align!r} is unknown",
                hint=f"known alignments: {', '.join(ALIGNMENTS)}",
            )
        if not 0 <= self.padding <= 255:
            raise FrontendError(f"preprocess: padding is {self.padding}, expected 0 to 255")
        if self.width < 1 or self.height < 1:
            raise FrontendError(
                f"preprocess: size is {self.width}x{self.height}, expected positive numbers"
            )
        for name in ("mean", "std"):
            if len(getattr(self, name)) != self.channels:
                raise FrontendError(
                    f"preprocess: {name} has {len(getattr(self, name))} values, "
                    f"expected {self.channels} for {self.order}"
                )
        if any(value <= 0 for value in self.std) or self.scale <= 0:
            raise FrontendError(
                f"preprocess: std is {list(self.std)} and scale {self.scale:g}, "
                "expected positive numbers"
            )
        if self.fit == "center_crop" and self.resize_short_side < max(self.width, self.height):
            raise FrontendError(
                f"preprocess: resize_short_side is {self.resize_short_side}, expected at least "
                f"{max(self.width, self.height)} for center_crop"
            )

    @property
    def channels(self) -> int:
        """The channels of a picture: 1 for GRAY, else 3."""
        return ORDERS[self.order]

    @property
    def frame_shape(self) -> tuple[int, int, int, int]:
        """The shape of a frame, uint8[1, height, width, channels]."""
        return (1, self.height, self.width, self.channels)

    def frame(self, picture: NDArray[np.uint8]) -> Frame:
        """Fit ``picture: uint8[h, w, 3]`` in BGR to a frame uint8[1, height, width, channels].

        The bytes are those that ``edgepipe-run`` and ``edgepipe-cam`` make of the picture. Raises
        MediaError for another array.
        """
        if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
            raise MediaError(
                f"picture is {picture.dtype}{list(picture.shape)}, expected uint8[h, w, 3] in BGR",
                hint="read it with cv2.IMREAD_COLOR",
            )
        if self.order == "GRAY":
            picture = np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY), np.uint8)[:, :, None]
        if self.fit == "center_crop":
            picture = resize(picture, *self._fitted(picture.shape[1], picture.shape[0]))
            top = (picture.shape[0] - self.height) // 2
            left = (picture.shape[1] - self.width) // 2
            picture = picture[top : top + self.height, left : left + self.width]
        elif self.fit == "letterbox":
            picture = self._letterboxed(picture)
        else:
            picture = resize(picture, self.width, self.height)
        if self.order == "RGB":
            picture = picture[:, :, ::-1]
        return np.ascontiguousarray(picture[None])

    def placement(self, width: int, height: int) -> tuple[float, float, int, int]:
        """Return the position of a picture of ``width`` x ``height`` pixels in the frame.

        The result is (scale_x, scale_y, left, top): frame pixels per source pixel, and the frame
        pixels cropped at the left and the top; padding counts as negative.
        """
        if self.fit == "stretch":
            return self.width / width, self.height / height, 0, 0
        fitted_width, fitted_height = self._fitted(width, height)
        left, top = 0, 0
        if self.fit == "center_crop":
            left, top = (fitted_width - self.width) // 2, (fitted_height - self.height) // 2
        elif self.align == "center":
            left, top = -((self.width - fitted_width) // 2), -((self.height - fitted_height) // 2)
        return fitted_width / width, fitted_height / height, left, top

    def _letterboxed(self, picture: Picture) -> Picture:
        height, width = picture.shape[:2]
        fitted_width, fitted_height = self._fitted(width, height)
        _, _, left, top = self.placement(width, height)
        frame = np.full((self.height, self.width, picture.shape[2]), self.padding, np.uint8)
        inside = frame[-top : fitted_height - top, -left : fitted_width - left]
        inside[:] = resize(picture, fitted_width, fitted_height)
        return frame

    def _fitted(self, width: int, height: int) -> tuple[int, int]:
        """Return the size, (width, height), before cropping or padding."""
        if self.fit == "letterbox":
            ratio = min(self.width / width, self.height / height)
            return (
                min(max(round(width * ratio), 1), self.width),
                min(max(round(height * ratio), 1), self.height),
            )
        ratio = self.resize_short_side / min(height, width)
        return max(round(width * ratio), self.width), max(round(height * ratio), self.height)

    def values(self) -> NDArray[np.float64]:
        """Return the network's input value for every byte as float64[channels, 256]."""
        mean = np.asarray(self.mean, np.float64)[:, None]
        std = np.asarray(self.std, np.float64)[:, None]
        return (np.arange(256, dtype=np.float64)[None] * self.scale - mean) / std

    def normalise(self, frame: Frame) -> NDArray[np.float32]:
        """Turn uint8[n, h, w, c] into the float network's input float32[n, c, h, w]."""
        table = self.values().astype(np.float32)
        parts = [table[c][frame[..., c]] for c in range(self.channels)]
        return np.ascontiguousarray(np.stack(parts, axis=1))
