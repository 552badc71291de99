"""Frames for calibration and measurement from a folder of pictures, a video or an .npz file."""

from __future__ import annotations

import itertools
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import MediaError
from edgepipe.frontend.preprocess import Frame, Preprocess
from edgepipe.media import pictures_in, read_picture, read_source
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


def sample_of(
    path: Path | str,
    preprocess: Preprocess,
    most: int,
    seed: int,
    most_pixels: int = MOST_PIXELS,
) -> Iterator[Frame]:
    """Yield at most ``most`` of the frames that ``frames_from`` yields, in the same order.

    Each is uint8[1, height, width, channels]. Of a folder or an archive that holds more, ``seed``
    decides which: neighbours by name are often alike, so the first ones would be a poor choice. Of
    a video, whose length is not known before it is decoded, they are the first. Raises
    ``MediaError`` as ``frames_from`` does.
    """
    path = Path(path)
    if path.suffix == ".npz" and path.exists():
        arrays = _arrays(path, preprocess)
        places = [(array, index) for array in arrays for index in range(len(array))]
        for place in chosen(len(places), most, seed):
            array, index = places[place]
            yield np.ascontiguousarray(array[index][None])
    elif path.is_dir():
        files = pictures_in(path)
        for place in chosen(len(files), most, seed):
            yield preprocess.frame(read_picture(files[place], most_pixels))
    else:
        yield from itertools.islice(frames_from(path, preprocess, most_pixels), most)


def chosen(count: int, most: int, seed: int) -> list[int]:
    """Return which of ``count`` things to take if at most ``most`` are wanted, in ascending order.

    The same three numbers always give the same result.
    """
    if count <= most:
        return list(range(count))
    # numpy promises the raw numbers of a generator for all of its versions, but not its choices.
    order = np.argsort(np.random.PCG64(seed).random_raw(count), kind="stable")
    return sorted(order[:most].tolist())


def _from_archive(path: Path, preprocess: Preprocess) -> Iterator[Frame]:
    for array in _arrays(path, preprocess):
        for frame in array:
            yield np.ascontiguousarray(frame[None])


def _arrays(path: Path, preprocess: Preprocess) -> list[NDArray[np.uint8]]:
    """Return the arrays of frames in an archive, each uint8[n, height, width, channels]."""
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
    return [array for _, array in arrays]
