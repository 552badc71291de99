"""The pictures to measure with, and the files that say what is in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import AccuracyError
from edgepipe.frontend.frames import frames_from
from edgepipe.frontend.preprocess import Frame, Preprocess
from edgepipe.media import read_picture, read_source
from edgepipe.names import suggest
from edgepipe.picture_size import MOST_PIXELS

Float = NDArray[np.float64]
_COCO = (
    "expected COCO's JSON with images (id, file_name), annotations (image_id, category_id, bbox) "
    "and categories (id, name)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A picture as the network's input, uint8[1, h, w, c], and its own (height, width) in pixels.

    ``name`` is the name of its file; for a frame of a video or of an ``.npz`` file it is the number
    of the frame.
    """

    name: str
    frame: Frame = field(repr=False)
    size: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueBoxes:
    """The boxes of one picture: ``corners: float64[n, 4]`` as left, top, right, bottom in pixels
    of the picture, ``classes: int64[n]``, and ``crowd: bool[n]`` for boxes around many objects.
    """

    corners: Float
    classes: NDArray[np.int64]
    crowd: NDArray[np.bool_]


def read_pictures(
    data: Path, preprocess: Preprocess, most_pixels: int = MOST_PIXELS
) -> Iterator[Sample]:
    """Yield the pictures of a folder, a picture file, a video or an ``.npz`` file of frames.

    Raises ``MediaError`` as ``frames_from`` does.
    """
    if data.suffix == ".npz" or not data.exists():
        for index, frame in enumerate(frames_from(data, preprocess, most_pixels)):
            yield Sample(name=str(index), frame=frame, size=(frame.shape[1], frame.shape[2]))
        return
    for index, source in enumerate(read_source(data, most_pixels)):
        name = source.name if data.is_dir() or "#" not in source.name else str(index)
        height, width = source.picture.shape[:2]
        yield Sample(name=name, frame=preprocess.frame(source.picture), size=(height, width))


def read_labels(path: Path, classes: Sequence[str]) -> dict[str, int]:
    """Return the class of each picture, by the picture's name.

    Each line of the file has a picture's name and its class, a name of ``classes`` or a number,
    separated by a comma, a tab or a space. Empty lines and lines that begin with # are skipped.
    Raises ``AccuracyError`` for a file that cannot be read, another line, or an unknown class.
    """
    found: dict[str, int] = {}
    for number, line in enumerate(_text(path).splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        parts = [part.strip() for part in re.split(r"[,\t]", line, maxsplit=1)]
        if len(parts) == 1:
            parts = line.rsplit(maxsplit=1)
        if len(parts) != 2:
            raise AccuracyError(
                f"{path}:{number}: found {line!r}, expected a picture's name and its class",
                hint="separate them with a comma, a tab or a space",
            )
        name, label = parts
        if name in found:
            raise AccuracyError(
                f"{path}:{number}: {name} has a class already", hint="name each picture once"
            )
        found[name] = _class_number(label, classes, f"{path}:{number}")
    if not found:
        raise AccuracyError(
            f"{path}: contains no labels", hint="write one line for each picture: its name, a class"
        )
    return found


def _class_number(label: str, classes: Sequence[str], where: str) -> int:
    if label.isascii() and label.isdigit():
        return int(label)
    if label not in classes:
        raise AccuracyError(
            f"{where}: class {label!r} is unknown",
            hint=suggest(label, classes)
            if classes
            else "the bundle has no names of classes: give their numbers, from 0",
        )
    return classes.index(label)


def read_boxes(path: Path, classes: Sequence[str]) -> dict[str, TrueBoxes]:
    """Return the boxes of each picture in a JSON file of COCO's form, by the picture's name.

    A category is the class of its name in ``classes``; without names, categories are the classes
    0, 1, 2, ... in the order of their ids. Raises ``AccuracyError`` for a file that cannot be read
    or has another form, and for a category that is not a class.
    """
    try:
        table: Any = json.loads(_text(path))
        images = {entry["id"]: str(entry["file_name"]) for entry in table["images"]}
        numbers = _categories(path, table["categories"], classes)
        boxes: dict[str, list[tuple[list[float], int, bool]]] = {n: [] for n in images.values()}
        for entry in table["annotations"]:
            left, top, width, height = (float(side) for side in entry["bbox"])
            boxes[images[entry["image_id"]]].append(
                (
                    [left, top, left + width, top + height],
                    numbers[entry["category_id"]],
                    bool(entry.get("iscrowd", 0)),
                )
            )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as cause:
        text = f"no {cause.args[0]!r}" if isinstance(cause, KeyError) else str(cause)
        raise AccuracyError(f"{path}: {text}", hint=_COCO) from cause
    if not any(boxes.values()):
        raise AccuracyError(f"{path}: contains no boxes", hint=_COCO)
    return {
        name: TrueBoxes(
            corners=np.array([entry[0] for entry in found], np.float64).reshape(-1, 4),
            classes=np.array([entry[1] for entry in found], np.int64),
            crowd=np.array([entry[2] for entry in found], np.bool_),
        )
        for name, found in boxes.items()
    }


def _categories(path: Path, categories: Any, classes: Sequence[str]) -> dict[Any, int]:
    if not classes:
        return {key: number for number, key in enumerate(sorted(c["id"] for c in categories))}
    for entry in categories:
        if entry["name"] not in classes:
            raise AccuracyError(
                f"{path}: category {entry['name']!r} is not a class of the bundle",
                hint=suggest(entry["name"], classes),
            )
    return {entry["id"]: classes.index(entry["name"]) for entry in categories}


def read_mask(folder: Path, picture: Sample, most_pixels: int = MOST_PIXELS) -> NDArray[np.uint8]:
    """Return the class of every pixel of a picture, uint8[h, w].

    It is read from ``folder``, from a PNG file of the picture's size and name. Raises
    ``MediaError`` for a missing or damaged file and ``AccuracyError`` for a picture in colour or of
    another size.
    """
    path = folder / f"{Path(picture.name).stem}.png"
    found = read_picture(path, most_pixels)
    if (found != found[:, :, :1]).any():
        raise AccuracyError(
            f"{path}: has colours, expected the numbers of classes as shades of grey",
            hint="write the classes as a greyscale picture of 8 bits, without a palette",
        )
    if found.shape[:2] != picture.size:
        raise AccuracyError(
            f"{path}: is {found.shape[1]}x{found.shape[0]} pixels, its picture "
            f"{picture.size[1]}x{picture.size[0]}",
            hint="give a mask of the picture's size",
        )
    return found[:, :, 0]


def truth_of(name: str, truth: Mapping[str, Any], where: Path) -> Any:
    """Return what ``truth`` says about the picture ``name``.

    Raises ``AccuracyError`` if it says nothing.
    """
    if name not in truth:
        raise AccuracyError(
            f"{where}: says nothing about picture {name}",
            hint="name every picture as its file is named, without the folder",
        )
    return truth[name]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        reason = cause.strerror if isinstance(cause, OSError) else "it is not UTF-8 text"
        raise AccuracyError(
            f"{path}: cannot be read ({reason})", hint="name a text file that this user may read"
        ) from cause
