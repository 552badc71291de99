"""Frames for calibration and measurement from a folder of pictures, a video or an .npz file."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from edgepipe.errors import MediaError
from edgepipe.frontend.preprocess import Frame, Preprocess
from edgepipe.media import read_source
from edgepipe.picture_size import MOST_PIXELS

_REMEDY = "write it with numpy.savez(path, frames); frames is uint8[n, height, width, channels]"
# Errors that numpy raises for files that are not archives, bare arrays, and damaged files.
_DAMAGE = (
    *(AttributeError, EOFError, KeyError, MemoryError, NotImplementedError, TypeError, ValueError),
    *(zipfile.BadZipFile, zlib.error),
)


def frames_from(
    path: Path | str, preprocess: Preprocess, most_pixels: int = MOST_PIXELS
) -> Iterator[Frame]:
    """Yield frames uint8[1, height, width, channels], preprocessed as ``preprocess`` says.

    ``path`` is a folder of pictures, one picture, a video, or an ``.npz`` whose arrays are
    uint8[n, height, width, channels] frames, used unchanged in the order of their names. Raises
    ``MediaError`` if it is missing, empty, unreadable, of the wrong shape, or a picture of more
    than ``most_pixels``.
    """
    path = Path(path)
    if not path.exists():
        raise MediaError(
            f"{path}: no such file or folder",
            hint="name a folder of pictures, a video, or an .npz file of frames",
        )
    if path.suffix == ".npz":
        yield from _from_archive(path, preprocess)
        return
    for source in read_source(path, most_pixels):
        yield preprocess.frame(source.picture)


def _from_archive(path: Path, preprocess: Preprocess) -> Iterator[Frame]:
    expected = preprocess.frame_shape[1:]
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = [(name, archive[name]) for name in sorted(archive.files)]
    except OSError as cause:
        raise MediaError(f"{path}: cannot be read ({cause.strerror})", hint=_REMEDY) from cause
    except _DAMAGE as cause:
        raise MediaError(f"{path}: not an .npz archive, or damaged", hint=_REMEDY) from cause
    if not sum(len(array) for _, array in arrays if array.ndim):
        raise MediaError(f"{path}: contains no frames", hint=_REMEDY)
    for name, array in arrays:
        if array.dtype != np.uint8 or array.shape[1:] != expected:
            raise MediaError(
                f"{path}: array {name!r} is {array.dtype}{list(array.shape)}, "
                f"expected uint8[n, {', '.join(str(d) for d in expected)}]",
                hint=_REMEDY,
            )
        for frame in array:
            yield np.ascontiguousarray(frame[None])
