"""Read and write pictures: videos, single pictures and folders as one kind of source."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import cv2
import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import MediaError
from edgepipe.picture_size import LONGEST_SIDE, MOST_PIXELS, other_kind, picture_size

Picture = NDArray[np.uint8]
PICTURE_SUFFIXES = (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm")
_OTHER_SUFFIXES = {".tif": "TIFF", ".tiff": "TIFF", ".webp": "WebP"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePicture:
    """A picture (uint8[h, w, 3], BGR) and its name in results."""

    name: str
    picture: Picture


def read_picture(path: Path, most_pixels: int = MOST_PIXELS) -> Picture:
    """Read one picture as uint8[h, w, 3] in BGR.

    Raises ``MediaError`` if that fails, and for more than ``most_pixels`` before it is decoded.
    Kinds of pictures that the programs for boards do not read are refused here, too.
    """
    with _open(path) as file:
        content = file.read()
    if kind := other_kind(content):
        raise _unsupported(path, kind)
    size = picture_size(content)
    if size:
        _check_size(path, size, most_pixels)
    try:
        coded = np.frombuffer(content, np.uint8)
        picture = cv2.imdecode(coded, cv2.IMREAD_COLOR) if size else None
    except cv2.error:
        picture = None
    if picture is None:
        raise MediaError(
            f"{path}: cannot be decoded as a picture",
            hint=f"formats: {', '.join(suffix[1:] for suffix in PICTURE_SUFFIXES)}",
        )
    return np.asarray(picture, dtype=np.uint8)


def _unsupported(path: Path, kind: str) -> MediaError:
    return MediaError(
        f"{path}: found a {kind} picture, expected {_expected()}",
        hint="convert it to PNG: ffmpeg -i IN OUT.png",
    )


def _expected() -> str:
    *first, last = PICTURE_SUFFIXES
    return f"{', '.join(first)} or {last}"


def _check_size(path: Path, size: tuple[int, int], most_pixels: int) -> None:
    width, height = size
    if max(size) > LONGEST_SIDE:
        raise MediaError(
            f"{path}: the picture is {width}x{height} pixels, "
            f"expected sides of 1 to {LONGEST_SIDE}",
            hint="scale it down",
        )
    if width * height > most_pixels:
        raise MediaError(
            f"{path}: the picture is {width}x{height} pixels, expected at most {most_pixels} "
            "in all",
            hint="scale it down, or allow more pixels",
            option="most_pixels",
            value=str(width * height),
        )


def _open(path: Path) -> BinaryIO:
    try:
        if path.exists() and not path.is_file():  # opening a pipe would wait for its other end
            raise OSError(errno.EINVAL, "not a regular file")
        return path.open("rb")
    except FileNotFoundError as cause:
        raise MediaError(
            f"{path}: no such file", hint="name a video, a picture or a folder of pictures"
        ) from cause
    except OSError as cause:
        raise _unreadable(path, cause) from cause


def _unreadable(path: Path, cause: OSError) -> MediaError:
    return MediaError(
        f"{path}: cannot be read ({cause.strerror})",
        hint="check the file permissions with `ls -l`",
    )


def pictures_in(folder: Path) -> list[Path]:
    """Return the picture files of a folder, sorted by name.

    Raises ``MediaError`` if there is none, and for pictures of a kind that is not read: they are
    not skipped, so that no result is missing without a word.
    """
    try:
        entries = sorted(folder.iterdir())
    except OSError as cause:
        raise _unreadable(folder, cause) from cause
    for entry in entries:
        if kind := _OTHER_SUFFIXES.get(entry.suffix.lower()):
            raise _unsupported(entry, kind)
    found = [entry for entry in entries if entry.suffix.lower() in PICTURE_SUFFIXES]
    if not found:
        raise MediaError(
            f"{folder}: no pictures among {len(entries)} entries",
            hint=f"expected files ending in {', '.join(PICTURE_SUFFIXES)}",
        )
    return found


def read_source(path: Path, most_pixels: int = MOST_PIXELS) -> Iterator[SourcePicture]:
    """Yield the pictures of a folder, a picture file or a video, in order.

    Raises ``MediaError`` if the path is missing, cannot be decoded or contains no picture, and for
    a picture of more than ``most_pixels`` before it is decoded.
    """
    if path.is_dir():
        for file in pictures_in(path):
            yield SourcePicture(name=file.name, picture=read_picture(file, most_pixels))
    elif kind := _OTHER_SUFFIXES.get(path.suffix.lower()):
        _open(path).close()
        raise _unsupported(path, kind)
    elif path.suffix.lower() in PICTURE_SUFFIXES:
        yield SourcePicture(name=path.name, picture=read_picture(path, most_pixels))
    else:
        yield from _read_video(path, most_pixels)


def _read_video(path: Path, most_pixels: int) -> Iterator[SourcePicture]:
    _open(path).close()
    capture = cv2.VideoCapture(_utf8(path))
    try:
        sides = (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT)
        width, height = (int(capture.get(side)) for side in sides)
        _check_size(path, (width, height), most_pixels)
        count = 0
        while True:
            good, picture = capture.read()
            if not good:
                break
            yield SourcePicture(name=f"{path.name}#{count}", picture=np.asarray(picture, np.uint8))
            count += 1
    finally:
        capture.release()
    if count == 0:
        raise MediaError(
            f"{path}: no frame could be decoded",
            hint="check with `ffprobe` that it is a video",
        )


def _utf8(path: Path) -> str:
    """Return the path for OpenCV, which crashes on names that are not UTF-8."""
    try:
        str(path).encode()
    except UnicodeEncodeError as cause:
        raise MediaError(
            f"{path}: the name is not UTF-8, so OpenCV cannot open it", hint="rename the file"
        ) from cause
    return str(path)


def frames_per_second(path: Path, default: float = 10.0) -> float:
    """Return a video's nominal rate in frames per second, or ``default`` for other sources."""
    if path.is_dir() or path.suffix.lower() in PICTURE_SUFFIXES:
        return default
    capture = cv2.VideoCapture(_utf8(path))
    try:
        rate = float(capture.get(cv2.CAP_PROP_FPS))
    finally:
        capture.release()
    return rate if 1.0 <= rate <= 240.0 else default


class VideoWriter:
    """Write an MPEG-4 video; a context manager that checks at the end that no picture is missing.

    All pictures get the size of the first one: others are scaled to fit, with black bars.
    """

    def __init__(self, path: Path, frames_per_second: float) -> None:
        self._path = path
        self._rate = frames_per_second
        self._size = (0, 0)
        self._count = 0
        self._writer: cv2.VideoWriter | None = None

    def write(self, picture: Picture) -> None:
        """Append one picture (uint8[h, w, 3], BGR); raise ``MediaError`` if that fails."""
        if self._writer is None:
            codec = cv2.VideoWriter.fourcc(*"mp4v")
            self._size = picture.shape[1], picture.shape[0]
            self._writer = cv2.VideoWriter(_utf8(self._path), codec, self._rate, self._size)
            if not self._writer.isOpened():
                raise self._error(f"no MPEG-4 video of {self._size[0]}x{self._size[1]} pixels")
        self._writer.write(letterboxed(picture, self._size))
        self._count += 1

    def _error(self, found: str) -> MediaError:
        return MediaError(
            f"{self._path.name}: OpenCV cannot write the video: {found}",
            hint="free some disk space, or leave out the video",
            option="output",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer is None:
            return
        self._writer.release()
        if kind is None and (held := picture_count(self._path)) != self._count:
            raise self._error(f"it contains {held} of {self._count} pictures")


def letterboxed(picture: Picture, size: tuple[int, int]) -> Picture:
    """Scale a picture to fit into ``size`` (width, height), with black bars at the sides.

    ``picture`` is uint8[h, w, 3] and ``size`` is in pixels; the result is uint8[height, width, 3].
    """
    height, width = picture.shape[:2]
    if (width, height) == size:
        return picture
    ratio = min(size[0] / width, size[1] / height)
    inner = max(round(width * ratio), 1), max(round(height * ratio), 1)
    left, top = (size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2
    fitted = np.zeros((size[1], size[0], 3), np.uint8)
    scaled = cv2.resize(picture, inner, interpolation=cv2.INTER_AREA)
    fitted[top : top + inner[1], left : left + inner[0]] = scaled
    return fitted


def picture_count(path: Path) -> int:
    """Return how many pictures a video says that it contains, 0 if it cannot be read."""
    capture = cv2.VideoCapture(_utf8(path))
    try:
        return max(int(capture.get(cv2.CAP_PROP_FRAME_COUNT)), 0)
    finally:
        capture.release()


def write_picture(path: Path, picture: Picture) -> None:
    """Write a picture (uint8[h, w, 3], BGR); the suffix selects the format.

    Raises MediaError for a picture that cannot be encoded in it.
    """
    good, encoded = cv2.imencode(path.suffix, picture)
    if not good:
        raise MediaError(
            f"{path.name}: OpenCV cannot encode {picture.shape[1]}x{picture.shape[0]} pixels",
            hint="leave out the picture, or choose another size",
            option="output",
        )
    path.write_bytes(encoded.tobytes())
