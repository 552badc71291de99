"""Heads with anchors: the usual ones are written as guesses, and other forms stay undecoded."""

from __future__ import annotations

import numpy as np
import pytest
from seen_heads import Shapes, described, guesses, recognised

TINY = ((81, 82, 135, 169, 344, 319), (10, 14, 23, 27, 37, 58))
LARGE = ((116, 90, 156, 198, 373, 326), (30, 61, 62, 45, 59, 119), (10, 13, 16, 30, 33, 23))


@pytest.mark.parametrize(
    ("shapes", "size", "formula", "strides", "anchors"),
    [
        ([(1, 255, 13, 13), (1, 255, 26, 26)], (416, 416), "v3", (32, 16), TINY),
        ([(1, 13, 13, 255), (1, 26, 26, 255)], (416, 416), "v3", (32, 16), TINY),
        ([(1, 10, 10, 3, 7), (1, 20, 20, 3, 7)], (320, 320), "v3", (32, 16), TINY),
        ([(1, 3, 7, 10, 10), (1, 3, 7, 20, 20)], (320, 320), "v3", (32, 16), TINY),
        ([(1, 18, 9, 15), (1, 18, 18, 30)], (288, 480), "v3", (32, 16), TINY),
        ([(1, 18, s, s) for s in (10, 20, 40)], (320, 320), "v3", (32, 16, 8), LARGE),
        ([(1, 3, s, s, 85) for s in (80, 40, 20)], (640, 640), "v5", (8, 16, 32), LARGE[::-1]),
    ],
)
def test_yolo_heads_get_the_anchors_of_coco(
    shapes: Shapes,
    size: tuple[int, int],
    formula: str,
    strides: tuple[int, ...],
    anchors: tuple[tuple[int, ...], ...],
) -> None:
    head = recognised(shapes, size)
    found = described(head)
    assert (found.kind, found.formula, found.strides) == ("anchors", formula, strides)
    assert found.anchors == anchors
    assert found.outputs == tuple(f"o{i}" for i in range(len(shapes)))
    assert guesses(head) - {"kind"} == {"formula", "anchors"}


def test_the_largest_yolov5_has_four_strides() -> None:
    found = described(recognised([(1, 3, s, s, 85) for s in (64, 32, 16, 8)], (512, 512)))
    assert (found.strides, found.anchors[3][:2]) == ((8, 16, 32, 64), (436, 615))


def test_a_yolo_that_ends_in_sigmoid_leaves_no_activation() -> None:
    found = described(recognised([(1, 255, 40, 40), (1, 255, 20, 20)], (640, 640), "Sigmoid"))
    assert (found.formula, found.activation) == ("v5", "none")


@pytest.mark.parametrize(("channels", "labels"), [(144, 0), (67, 3)])
def test_yolov8_without_decoding_is_not_taken_for_yolov3(channels: int, labels: int) -> None:
    shapes = [(1, channels, s, s) for s in (80, 40, 20)]
    head = recognised(shapes, (640, 640), labels=labels)
    found = described(head)
    assert (found.kind, found.bins, head.classes) == ("distances", 16, channels - 64)


@pytest.mark.parametrize(("columns", "points"), [((4, 2, 10), 5), ((4, 2), 0), ((10, 1, 4), 5)])
@pytest.mark.parametrize(("height", "width"), [(320, 320), (480, 640), (100, 100)])
def test_faces_get_retinafaces_anchors(
    columns: tuple[int, ...], points: int, height: int, width: int
) -> None:
    cells = sum(-(-height // s) * -(-width // s) for s in (8, 16, 32))
    head = recognised([(1, 2 * cells, n) for n in columns], (height, width))
    found = described(head)
    assert (head.family, found.kind, found.points) == ("RetinaFace", "ssd", points)
    assert found.strides == (8, 16, 32)
    assert found.anchors == ((16, 16, 32, 32), (64, 64, 128, 128), (256, 256, 512, 512))
    assert found.distances == (f"o{columns.index(4)}",)
    assert found.background == (2 in columns)
    assert found.activation == ("softmax" if 2 in columns else "sigmoid")
    assert "anchors" in guesses(head)


def test_scores_that_the_network_has_ended_stay_as_they_are() -> None:
    faces = recognised([(1, 4200, 4), (1, 4200, 2)], (320, 320), "Conv Softmax")
    things = recognised([(1, 3234, 3), (1, 3234, 4)], (320, 320), "Sigmoid Conv")
    assert described(faces).activation == described(things).activation == "none"


def test_small_faces_get_the_anchors_of_their_own_detector() -> None:
    found = described(recognised([(1, 4420, 2), (1, 4420, 4)], (240, 320), "Softmax Conv"))
    assert (found.strides, found.anchors[1]) == ((8, 16, 32, 64), (32, 32, 48, 48))


def priors(sizes: list[float], ratios: list[tuple[int, ...]], side: int) -> list[list[float]]:
    """Return the priors of SSD's paper for sizes in shares, at most the whole picture."""
    made = []
    for level, chosen in enumerate(ratios):
        size, between = sizes[level], np.sqrt(sizes[level] * sizes[level + 1])
        shapes = [(size, size), (between, between)]
        for ratio in chosen:
            shapes += [(size * ratio**0.5, size * ratio**-0.5)]
            shapes += [(size * ratio**-0.5, size * ratio**0.5)]
        made.append((np.minimum(shapes, 1) * side).ravel().tolist())
    return made


SIX = [(2, 3)] * 6
VGG = [(2,), (2, 3), (2, 3), (2, 3), (2,), (2,)]
LITE = [0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0]


@pytest.mark.parametrize(
    ("count", "scores", "side", "key", "cells", "sizes", "ratios"),
    [
        (3234, 91, 320, "grids", (20, 10, 5, 3, 2, 1), LITE, SIX),
        (3234, 2, 320, "grids", (20, 10, 5, 3, 2, 1), LITE, SIX),
        (3000, 21, 300, "strides", (16, 32, 64, 100, 150, 300), [*LITE[:6], 1.1], SIX),
        (
            8732,
            21,
            300,
            "strides",
            (8, 16, 32, 64, 100, 300),
            [0.1, 0.2, 0.37, 0.54, 0.71, 0.88, 1.05],
            VGG,
        ),
        (
            8732,
            2,
            300,
            "strides",
            (8, 16, 32, 64, 100, 300),
            [0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05],
            VGG,
        ),
        (
            24564,
            21,
            512,
            "grids",
            (64, 32, 16, 8, 4, 2, 1),
            [0.07, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9, 1.05],
            [(2,), *[(2, 3)] * 4, (2,), (2,)],
        ),
        (
            6 * (32**2 + 16**2 + 8**2 + 4**2 + 2**2 + 1),
            5,
            512,
            "grids",
            (32, 16, 8, 4, 2, 1),
            LITE,
            SIX,
        ),
    ],
)
def test_an_ssd_gets_the_priors_of_its_paper(
    count: int,
    scores: int,
    side: int,
    key: str,
    cells: tuple[int, ...],
    sizes: list[float],
    ratios: list[tuple[int, ...]],
) -> None:
    head = recognised([(1, count, scores), (1, count, 4)], (side, side))
    found = described(head)
    assert (found.kind, getattr(found, key), found.background) == ("ssd", cells, True)
    assert head.classes == scores - 1
    assert (found.scores, found.distances) == (("o0",), ("o1",))
    assert guesses(head) == {key, "anchors", "background"}
    for level, expected in zip(found.anchors, priors(sizes, ratios, side), strict=True):
        assert level == pytest.approx(expected, rel=1e-5)


def test_an_ssd_of_caffe_has_three_priors_in_a_cell_of_its_first_level() -> None:
    found = described(recognised([(1, 1917, 21), (1, 1917, 4)], (300, 300)))
    assert found.anchors[0] == pytest.approx((60, 60, 84.8528, 42.4264, 42.4264, 84.8528))
    assert found.anchors[5][4:6] == pytest.approx((403.051, 201.525))  # not clipped


@pytest.mark.parametrize(("makers", "boxes"), [("Conv Softmax", "o0"), ("Softmax Conv", "o1")])
def test_three_classes_have_as_many_columns_as_a_box(makers: str, boxes: str) -> None:
    head = recognised([(1, 3234, 4), (1, 3234, 4)], (320, 320), makers)
    assert described(head).distances == (boxes,)
    assert head.classes == 3


@pytest.mark.parametrize(
    ("shapes", "size", "makers", "producer", "remedy"),
    [
        (
            [(1, 3234, 91), (1, 3234, 4)],
            (320, 640),
            "Conv",
            "pytorch",
            "they do not fit the anchors of a usual SSD; to decode them, add the anchors that the "
            "network was trained with",
        ),
        (
            [(1, 3234, 91), (1, 3234, 4)],
            (320, 320),
            "Softmax Sub",
            "pytorch",
            "the network decodes its boxes itself; join them with the scores to one output for "
            'kind "boxes"',
        ),
        (
            [(1, 1917, 91), (1, 1917, 4)],
            (300, 300),
            "Sigmoid Conv",
            "tf2onnx",
            "TensorFlow's boxes have y before x, which no kind reads",
        ),
        (
            [(1, 99, 4), (1, 99, 2), (1, 99, 10)],
            (320, 320),
            "Conv",
            "pytorch",
            "99 boxes do not fit its usual anchors; to decode them, add the anchors that the "
            "network was trained with",
        ),
        (
            [(1, 4200, 4), (1, 4200, 2), (1, 4200, 10)],
            (320, 320),
            "ScatterND Softmax Conv",
            "pytorch",
            "the network decodes its boxes itself; join them with the scores to one output for "
            'kind "boxes"',
        ),
        (
            [(1, 2, 13, 13, 85), (1, 2, 26, 26, 85)],
            (416, 416),
            "Conv",
            "pytorch",
            "to decode them, add the anchors that the network was trained with",
        ),
        (
            [(1, 255, 52, 52), (1, 255, 104, 104)],
            (416, 416),
            "Conv",
            "pytorch",
            "to decode them, add the anchors that the network was trained with",
        ),
        (
            [(1, 255, 13, 13), (1, 255, 26, 26)],
            (416, 416),
            "Mul",
            "pytorch",
            "the network decodes its boxes in part; export it without decoding",
        ),
    ],
)
def test_an_unusual_form_stays_undecoded_and_says_why(
    shapes: Shapes, size: tuple[int, int], makers: str, producer: str, remedy: str
) -> None:
    head = recognised(shapes, size, makers, producer)
    assert (head.kind, head.settings, head.remedy) == ("none", (), remedy)
