"""YOLOs in one output: with and without an objectness, with their boxes in rows and in columns."""

from __future__ import annotations

import pytest
from seen_heads import Shapes, described, guesses, recognised

CELLS = 2100  # of 320x320 at the strides 8, 16, 32


@pytest.mark.parametrize(
    ("columns", "labels", "task", "classes"),
    [(84, 0, "", 80), (84, 80, "", 80), (7, 3, "", 3), (9, 0, "detect", 5)],
)
def test_yolov8_may_have_its_boxes_in_rows(
    columns: int, labels: int, task: str, classes: int
) -> None:
    head = recognised([(1, CELLS, columns)], (320, 320), labels=labels, task=task)
    found = described(head)
    assert (head.family, head.classes) == ("YOLOv8", classes)
    assert (found.kind, found.outputs, found.objectness) == ("boxes", ("o0",), False)
    assert guesses(head) == set()


@pytest.mark.parametrize(("columns", "labels"), [(85, 0), (85, 80), (8, 3)])
def test_as_many_columns_as_an_objectness_needs_are_no_guess(columns: int, labels: int) -> None:
    head = recognised([(1, CELLS, columns)], (320, 320), labels=labels)
    assert (head.kind, head.classes) == ("yolox", columns - 5)
    assert guesses(head) == set()


@pytest.mark.parametrize(
    ("largest", "kind", "without", "marked"),
    [
        (9.0, "yolox", 'kind = "boxes"', {"kind"}),
        (319.0, "boxes", "objectness = false", {"kind", "objectness"}),
    ],
)
def test_an_objectness_is_a_guess_where_the_number_of_classes_is_not_known(
    largest: float, kind: str, without: str, marked: set[str]
) -> None:
    head = recognised([(1, CELLS, 9)], (320, 320), range_=(0, largest))
    assert (head.kind, head.classes, guesses(head)) == (kind, 4, marked)
    remark = f"; {without} if there is no objectness, but 5 classes (YOLOv8)"
    assert head.text.endswith(remark)


@pytest.mark.parametrize("shape", [(1, 56, CELLS), (1, CELLS, 56)])
def test_the_columns_of_cocos_keypoints_are_a_guess(shape: tuple[int, ...]) -> None:
    head = recognised([shape], (320, 320))
    found = described(head)
    assert (found.kind, found.points, found.point_values, head.classes) == ("boxes", 17, 3, 1)
    assert guesses(head) == {"kind", "points", "point_values"}
    assert head.text.endswith("; without keypoints it would be 52 classes, and no points")
    assert guesses(recognised([shape], (320, 320), task="pose")) == set()
    assert recognised([shape], (320, 320), labels=52).classes == 52


@pytest.mark.parametrize(
    "shapes",
    [[(1, 116, CELLS), (1, 32, 80, 80)], [(1, CELLS, 116), (1, 32, 80, 80)]],
)
def test_masks_are_not_decoded_in_rows_or_columns(shapes: Shapes) -> None:
    head = recognised(shapes, (320, 320))
    assert (head.family, head.kind, head.classes) == ("YOLOv8", "none", 80)
