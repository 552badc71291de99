"""The fields of a frame's line, for each kind of post-processing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgepipe.records import result_record
from edgepipe.runtime.named import Named
from edgepipe.runtime.results import ClassMap, ClassScore, Detection, FrameResult, Point

EMPTY = FrameResult(3, 1.23456, Named((), ()))
HEAD = {"frame": 3, "source": "a.jpg", "latency_ms": 1.235}
BOX = Detection(1.04, 2.06, 30.0, 40.0, 0.123456, 7, "cat")


def test_a_detectors_line_has_label_score_and_box_even_without_detections() -> None:
    found = replace(EMPTY, detections=(BOX,))
    assert result_record(found, "a.jpg", "nanodet") == HEAD | {
        "detections": [
            {"label": "cat", "label_index": 7, "score": 0.1235, "box": [1.0, 2.1, 30.0, 40.0]}
        ],
    }
    assert result_record(EMPTY, "a.jpg", "nanodet") == HEAD | {"detections": []}


def test_a_box_has_its_points() -> None:
    found = replace(EMPTY, detections=(replace(BOX, points=(Point(1.23, 4.56, 0.98765),)),))
    (box,) = result_record(found, "a.jpg", "boxes")["detections"]  # type: ignore[misc]
    assert box["points"] == [[1.2, 4.6, 0.9877]]


def test_numbers_that_json_lacks_are_null_as_in_the_runtime() -> None:
    inf, nan = float("inf"), float("nan")
    found = replace(
        EMPTY,
        detections=(Detection(nan, -inf, inf, 1.0, nan, 0, "a", (Point(nan, inf, nan),)),),
    )
    (box,) = result_record(found, "a.jpg", "boxes")["detections"]  # type: ignore[misc]
    assert (box["score"], box["box"]) == (None, [None, None, None, 1.0])
    assert box["points"] == [[None, None, None]]
    found = replace(EMPTY, classes=(ClassScore(inf, nan, 2, "bag"),))
    (best,) = result_record(found, "a.jpg", "classify")["classes"]  # type: ignore[misc]
    assert (best["score"], best["probability"]) == (None, None)


def test_only_a_detectors_line_has_detections() -> None:
    found = replace(EMPTY, classes=(ClassScore(8.7654321, 0.98765432, 2, "bag"),))
    assert result_record(found, "a.jpg", "classify") == HEAD | {
        "classes": [{"label": "bag", "label_index": 2, "score": 8.7654, "probability": 0.9877}]
    }
    assert result_record(EMPTY, "a.jpg", "none") == HEAD


def test_a_keypoint_has_its_name_score_and_place() -> None:
    found = replace(EMPTY, points=(Point(1.23, 4.56, 0.98765, "nose"),))
    assert result_record(found, "a.jpg", "keypoints") == HEAD | {
        "points": [{"label": "nose", "label_index": 0, "score": 0.9877, "point": [1.2, 4.6]}]
    }


def test_a_class_map_is_given_as_areas_largest_first() -> None:
    classes = np.array([[2, 2, 0]], np.uint8)
    found = replace(EMPTY, class_map=ClassMap(classes, ("road",)))
    assert result_record(found, "a.jpg", "segmentation") == HEAD | {
        "areas": [
            {"label": "2", "label_index": 2, "share": 0.6667},
            {"label": "road", "label_index": 0, "share": 0.3333},
        ]
    }


def test_a_text_has_its_score_even_if_it_is_empty() -> None:
    found = replace(EMPTY, text="edge", text_score=0.98765)
    assert result_record(found, "a.jpg", "ctc") == HEAD | {"text": "edge", "score": 0.9877}
    assert result_record(EMPTY, "a.jpg", "ctc") == HEAD | {"text": "", "score": 0.0}
