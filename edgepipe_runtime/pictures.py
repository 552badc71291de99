"""Pictures as a frame's input, and a map's classes as pixels of the picture."""

from __future__ import annotations

import ctypes
import os
from typing import Any, Union

import numpy as np

from edgepipe_runtime import library
from edgepipe_runtime.errors import MediaError, PipelineError
from edgepipe_runtime.library import OpenPipeline

Picture = Union[Any, str, "os.PathLike[str]"]  # uint8[height, width, 3] in BGR, or a file's path

_NO_PICTURE = "the network's input is not one picture"


def fill(opened: OpenPipeline, name: str, picture: Picture) -> None:
    """Fit a picture to the input of the acquired frame of pipeline ``name``.

    ``picture`` is uint8[height, width, 3] in BGR, read where it is, or a file's path. Raises
    MediaError, and PipelineError if the pipeline takes no picture.
    """
    if isinstance(picture, (str, os.PathLike)):
        _, error = opened.attempt("ep_fit_file", os.fsencode(picture))
    else:
        _, error = opened.attempt("ep_fit", ctypes.byref(_described(picture)))
    if error is None:
        return
    if str(error) == _NO_PICTURE:
        raise PipelineError(
            f"pipeline {name!r}: does not say how a picture becomes its input",
            hint="give run() or submit() the input arrays",
        )
    raise MediaError(str(error), hint=error.hint) from None


def _described(picture: Any) -> library.Picture:
    """Return EpPicture of an array, whose memory it borrows."""
    if not isinstance(picture, np.ndarray):
        raise MediaError(
            f"picture is {type(picture).__name__}, expected uint8[h, w, 3] in BGR, or a file"
        )
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
        raise MediaError(
            f"picture is {picture.dtype}{list(picture.shape)}, expected uint8[h, w, 3] in BGR",
            hint="read it with cv2.IMREAD_COLOR",
        )
    height, width, _ = picture.shape
    if picture.strides[1:] != (3, 1) or picture.strides[0] < 3 * width:
        picture = np.ascontiguousarray(picture)  # e.g. mirrored; rows with padding need no copy
    rows = picture.strides[0]
    found = library.Picture(
        b"bgr", width, height, rows, picture.ctypes.data, rows * (height - 1) + 3 * width
    )
    found.keeps = picture
    return found


def picture_map(classes: Any, placement: library.Placement, input_size: tuple[int, int]) -> Any:
    """Return the class of every pixel of a picture: uint8[height, width].

    ``classes`` is uint8[rows, columns] over the whole input, whose size is (height, width) in
    pixels. What ``center_crop`` cuts off has class 0.
    """
    rows, columns = classes.shape
    scale_y = placement.fitted_height / placement.height
    scale_x = placement.fitted_width / placement.width
    y = (np.arange(placement.height) + 0.5) * scale_y - placement.top
    x = (np.arange(placement.width) + 0.5) * scale_x - placement.left
    y, x = np.floor(y * rows / input_size[0]), np.floor(x * columns / input_size[1])
    seen = ((y >= 0) & (y < rows))[:, None] & ((x >= 0) & (x < columns))[None]
    places = np.ix_(
        np.clip(y, 0, rows - 1).astype(np.intp), np.clip(x, 0, columns - 1).astype(np.intp)
    )
    return np.where(seen, classes[places], 0).astype(np.uint8)
