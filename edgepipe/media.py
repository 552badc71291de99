"""Pictures in, pictures out: videos, single pictures and folders as one kind of source."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import cv2
import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import MediaError

Picture = NDArray[np.uint8]
PICTURE_SUFFIXES = (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePicture:
    """A picture (uint8[h, w, 3], BGR) and what to call it in results."""

    name: str
    picture: Picture


def read_picture(path: Path) -> Picture:
    """Read one picture as uint8[h, w, 3] in BGR; raise ``MediaError`` when that fails."""
    if not path.is_file():
        raise MediaError(f"{path}: no such picture")
    picture = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if picture is None:
        raise MediaError(
            f"{path}: cannot be decoded as a picture",
            hint=f"formats: {', '.join(suffix[1:] for suffix in PICTURE_SUFFIXES)}",
        )
    return np.asarray(picture, dtype=np.uint8)


def pictures_in(folder: Path) -> list[Path]:
    """Return the picture files of a folder, sorted by name; raise ``MediaError`` if none."""
    found = sorted(p for p in folder.iterdir() if p.suffix.lower() in PICTURE_SUFFIXES)
    if not found:
        raise MediaError(
            f"{folder}: found no pictures among {len(list(folder.iterdir()))} entries",
            hint=f"expected files ending in {', '.join(PICTURE_SUFFIXES)}",
        )
    return found


def read_source(path: Path) -> Iterator[SourcePicture]:
    """Yield the pictures of a folder, a picture file or a video, in order.

    Raises ``MediaError`` when the path is missing, cannot be decoded or holds no picture.
    """
    if path.is_dir():
        for file in pictures_in(path):
            yield SourcePicture(name=file.name, picture=read_picture(file))
    elif path.suffix.lower() in PICTURE_SUFFIXES:
        yield SourcePicture(name=path.name, picture=read_picture(path))
    else:
        yield from _read_video(path)


def _read_video(path: Path) -> Iterator[SourcePicture]:
    if not path.is_file():
        raise MediaError(
            f"{path}: no such file", hint="give a video, a picture or a folder of them"
        )
    capture = cv2.VideoCapture(str(path))
    try:
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
            hint="is it a video? `ffprobe` tells what it holds",
        )


def frames_per_second(path: Path, default: float = 10.0) -> float:
    """Return a video's nominal rate in frames per second, or ``default`` for other sources."""
    if path.is_dir() or path.suffix.lower() in PICTURE_SUFFIXES:
        return default
    capture = cv2.VideoCapture(str(path))
    try:
        rate = float(capture.get(cv2.CAP_PROP_FPS))
    finally:
        capture.release()
    return rate if 1.0 <= rate <= 240.0 else default


class VideoWriter:
    """Write an MPEG-4 video; the file appears under its name when the writer closes in order."""

    def __init__(self, path: Path, frames_per_second: float) -> None:
        self._path = path
        self._rate = frames_per_second
        self._folder = Path(tempfile.mkdtemp(prefix=".video.", dir=path.parent))
        self._temporary = self._folder / f"video{path.suffix}"
        self._writer: cv2.VideoWriter | None = None

    def write(self, picture: Picture) -> None:
        """Append one picture (uint8[h, w, 3], BGR); all must have the first one's size."""
        height, width = picture.shape[:2]
        if self._writer is None:
            codec = cv2.VideoWriter.fourcc(*"mp4v")
            self._writer = cv2.VideoWriter(str(self._temporary), codec, self._rate, (width, height))
            if not self._writer.isOpened():
                raise MediaError(f"{self._path}: OpenCV cannot write MPEG-4 video here")
        self._writer.write(picture)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            self._writer.release()
            if kind is None:
                self._temporary.replace(self._path)
        shutil.rmtree(self._folder, ignore_errors=True)


def write_picture(path: Path, picture: Picture) -> None:
    """Write a picture (uint8[h, w, 3], BGR) whole or not at all; the suffix gives the format."""
    temporary = path.with_name(f".{path.stem}.partial{path.suffix}")
    if not cv2.imwrite(str(temporary), picture):
        raise MediaError(f"{path}: OpenCV cannot write this picture")
    temporary.replace(path)
