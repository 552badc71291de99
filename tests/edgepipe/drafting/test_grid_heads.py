"""Heads with a grid for each stride and no anchors: YOLOv8 in pairs, YOLOX, SCRFD in planes."""

from __future__ import annotations

import pytest
from seen_heads import Shapes, described, guesses, recognised

SIDES = (40, 20, 10)  # of 320x320 at the strides 8, 16, 32


def grids(*channels: int, last: bool = False) -> Shapes:
    """Return grids of the channels, all strides of the first ones before those of the next."""
    return [(1, s, s, c) if last else (1, c, s, s) for c in channels for s in SIDES]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("channels", [(64, 80), (80, 64), (64, 3)])
def test_yolov8_may_have_scores_and_distances_apart(channels: tuple[int, ...], last: bool) -> None:
    head = recognised(grids(*channels, last=last), (320, 320))
    found = described(head)
    first, second = ("o0", "o1", "o2"), ("o3", "o4", "o5")
    expected = (second, first) if channels[0] == 64 else (first, second)
    assert (found.kind, found.strides, found.bins) == ("distances", (8, 16, 32), 16)
    assert (found.scores, found.distances) == expected
    assert found.activation == "sigmoid"
    assert guesses(head) == {"kind"}
    assert (head.family, head.classes) == ("YOLOv8", next(c for c in channels if c != 64))


def test_outputs_of_each_stride_may_be_neighbours_from_the_largest_stride() -> None:
    shapes: Shapes = [(1, c, s, s) for s in SIDES[::-1] for c in (64, 80)]
    found = described(recognised(shapes, (320, 320), "Conv Sigmoid " * 3))
    assert found.strides == (8, 16, 32)
    assert (found.scores, found.distances) == (("o5", "o3", "o1"), ("o4", "o2", "o0"))
    assert found.activation == "none"


@pytest.mark.parametrize(
    ("makers", "names", "scores", "marked"),
    [
        ("Conv " * 3 + "Sigmoid " * 3, "a b c d e f", ("d", "e", "f"), {"kind"}),
        ("Conv", "cls1 cls2 cls3 a b c", ("cls1", "cls2", "cls3"), {"scores", "distances"}),
        ("Conv", "a b c d e f", ("d", "e", "f"), {"scores", "distances"}),
    ],
)
def test_sixty_four_classes_have_as_many_channels_as_the_distances(
    makers: str, names: str, scores: tuple[str, ...], marked: set[str]
) -> None:
    head = recognised(grids(64, 64), (320, 320), makers, names=names.split())
    assert described(head).scores == scores
    assert guesses(head) == marked | {"kind"}


@pytest.mark.parametrize(("channels", "labels"), [(85, 0), (15, 10), (23, 18)])
def test_yolox_may_have_a_grid_for_each_stride(channels: int, labels: int) -> None:
    head = recognised(grids(channels), (320, 320), labels=labels)
    found = described(head)
    assert (head.family, head.classes) == ("YOLOX", channels - 5)
    assert (found.kind, found.strides) == ("yolox", (8, 16, 32))
    assert found.outputs == ("o0", "o1", "o2")
    assert found.activation == "none"
    assert guesses(head) == {"kind", "activation"}


@pytest.mark.parametrize(
    ("shapes", "family"),
    [
        (grids(256), ""),  # features
        (grids(64, 256)[:5], ""),
        (grids(18), "YOLOv5"),
        (grids(32, 80), ""),
    ],
)
def test_other_grids_are_not_taken_for_one_box_in_a_cell(shapes: Shapes, family: str) -> None:
    assert recognised(shapes, (320, 320)).family == family


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("each", [1, 2])
def test_scrfd_may_have_its_values_in_planes(each: int, last: bool) -> None:
    shapes = grids(4 * each, each, 10 * each, last=last)
    makers = "Conv " * 3 + "Sigmoid " * 3 + "Conv " * 3
    head = recognised(shapes, (320, 320), makers)
    found = described(head)
    assert (head.family, head.classes, guesses(head)) == ("SCRFD", 1, {"cell_offset"})
    assert (found.kind, found.strides, found.per_cell) == ("distances", (8, 16, 32), each)
    assert found.distances == ("o0", "o1", "o2")
    assert found.scores == ("o3", "o4", "o5")
    assert (found.landmarks, found.points) == (("o6", "o7", "o8"), 5)
    assert (found.activation, found.cell_offset) == ("none", 0.0)


def test_a_face_detector_in_planes_without_one_of_its_outputs_is_not_scrfd() -> None:
    assert recognised(grids(2, 8, 20)[:-1], (320, 320)).family == ""
