"""The files that say what is in the pictures, and their errors by their texts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgepipe.accuracy.data import (
    Sample,
    read_boxes,
    read_labels,
    read_mask,
    read_pictures,
)
from edgepipe.errors import AccuracyError, MediaError
from edgepipe.frontend.preprocess import Preprocess

PREPROCESS = Preprocess(width=4, height=2, order="BGR", mean=(0, 0, 0), std=(1, 1, 1))
COCO = {
    "images": [{"id": 7, "file_name": "a.png"}, {"id": 8, "file_name": "b.png"}],
    "annotations": [
        {"image_id": 7, "category_id": 3, "bbox": [1, 2, 10, 20]},
        {"image_id": 7, "category_id": 9, "bbox": [0, 0, 5, 5], "iscrowd": 1},
    ],
    "categories": [{"id": 9, "name": "cat"}, {"id": 3, "name": "dog"}],
}
FORM = (
    "expected COCO's JSON with images (id, file_name), annotations (image_id, category_id, bbox) "
    "and categories (id, name)"
)


def text(folder: Path, content: object) -> Path:
    path = folder / "truth"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_labels_by_number_and_by_name(tmp_path: Path) -> None:
    lines = "# name, class\na.png, 2\n\nb c.png\tcat\nd e.png dog\n"
    found = read_labels(text(tmp_path, lines), ("dog", "cat"))
    assert found == {"a.png": 2, "b c.png": 1, "d e.png": 0}


def test_boxes_of_categories_by_their_names(tmp_path: Path) -> None:
    found = read_boxes(text(tmp_path, COCO), ("cat", "bird", "dog"))
    assert found.keys() == {"a.png", "b.png"}
    np.testing.assert_array_equal(found["a.png"].corners, [[1, 2, 11, 22], [0, 0, 5, 5]])
    assert found["a.png"].classes.tolist() == [2, 0]
    assert found["a.png"].crowd.tolist() == [False, True]
    assert found["b.png"].corners.shape == (0, 4)


def test_categories_without_names_are_numbered_by_their_ids(tmp_path: Path) -> None:
    assert read_boxes(text(tmp_path, COCO), ())["a.png"].classes.tolist() == [0, 1]


def test_pictures_of_a_folder_and_of_an_archive(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "a.png"), np.full((6, 8, 3), 9, np.uint8))
    (found,) = read_pictures(tmp_path, PREPROCESS)
    assert (found.name, found.size, found.frame.shape) == ("a.png", (6, 8), (1, 2, 4, 3))
    np.savez(tmp_path / "frames.npz", np.zeros((2, 2, 4, 3), np.uint8))
    names = [(p.name, p.size) for p in read_pictures(tmp_path / "frames.npz", PREPROCESS)]
    assert names == [("0", (2, 4)), ("1", (2, 4))]


def test_pictures_that_do_not_exist(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="no such file or folder"):
        next(read_pictures(tmp_path / "none", PREPROCESS))


def changed(**changes: object) -> dict[str, object]:
    return {**COCO, **changes}


ERRORS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "a missing file": (
        lambda folder: read_labels(folder / "none", ()),
        "none: cannot be read (No such file or directory)",
        "name a text file that this user may read",
    ),
    "a line without a class": (
        lambda folder: read_labels(text(folder, "a.png\n"), ()),
        "truth:1: found 'a.png', expected a picture's name and its class",
        "separate them with a comma, a tab or a space",
    ),
    "two classes": (
        lambda folder: read_labels(text(folder, "a.png 1\na.png 2\n"), ()),
        "truth:2: a.png has a class already",
        "name each picture once",
    ),
    "no labels": (
        lambda folder: read_labels(text(folder, "# nothing\n"), ()),
        "truth: contains no labels",
        "write one line for each picture: its name, a class",
    ),
    "a name without names": (
        lambda folder: read_labels(text(folder, "a.png cat\n"), ()),
        "truth:1: class 'cat' is unknown",
        "the bundle has no names of classes: give their numbers, from 0",
    ),
    "an unknown name": (
        lambda folder: read_labels(text(folder, "a.png cta\n"), ("cat", "dog")),
        "truth:1: class 'cta' is unknown",
        "did you mean: cat",
    ),
    "no JSON": (
        lambda folder: read_boxes(text(folder, "boxes"), ()),
        "truth: Expecting value: line 1 column 1 (char 0)",
        FORM,
    ),
    "no categories": (
        lambda folder: read_boxes(text(folder, {"images": []}), ()),
        "truth: no 'categories'",
        FORM,
    ),
    "no boxes": (
        lambda folder: read_boxes(text(folder, changed(annotations=[])), ()),
        "truth: contains no boxes",
        FORM,
    ),
    "an unknown category": (
        lambda folder: read_boxes(text(folder, COCO), ("cat", "doge")),
        "truth: category 'dog' is not a class of the bundle",
        "did you mean: doge",
    ),
}


@pytest.mark.parametrize(("fail", "expected", "hint"), ERRORS.values(), ids=ERRORS)
def test_an_error_of_a_file(
    fail: Callable[[Path], object], expected: str, hint: str, tmp_path: Path
) -> None:
    with pytest.raises(AccuracyError) as caught:
        fail(tmp_path)
    assert str(caught.value) == f"{tmp_path}/{expected}"
    assert caught.value.hint == hint


def mask(folder: Path, pixels: np.ndarray) -> Path:
    cv2.imwrite(str(folder / "a.png"), pixels)
    return folder


def shown() -> Sample:
    return Sample(name="a.jpg", frame=np.zeros((1, 2, 4, 3), np.uint8), size=(6, 8))


def test_a_mask_is_a_picture_of_the_same_name(tmp_path: Path) -> None:
    pixels = np.arange(48, dtype=np.uint8).reshape(6, 8)
    np.testing.assert_array_equal(read_mask(mask(tmp_path, pixels), shown()), pixels)


def test_a_mask_in_colour(tmp_path: Path) -> None:
    pixels = np.full((6, 8, 3), (1, 2, 3), np.uint8)
    with pytest.raises(AccuracyError) as caught:
        read_mask(mask(tmp_path, pixels), shown())
    assert str(caught.value) == (
        f"{tmp_path}/a.png: has colours, expected the numbers of classes as shades of grey"
    )
    assert caught.value.hint == (
        "write the classes as a greyscale picture of 8 bits, without a palette"
    )


def test_a_mask_of_another_size(tmp_path: Path) -> None:
    with pytest.raises(AccuracyError) as caught:
        read_mask(mask(tmp_path, np.zeros((3, 4), np.uint8)), shown())
    assert str(caught.value) == f"{tmp_path}/a.png: is 4x3 pixels, its picture 8x6"
    assert caught.value.hint == "give a mask of the picture's size"
