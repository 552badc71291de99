"""Boxes from NanoDet's outputs, and AP50 on cases small enough to check by hand."""

from __future__ import annotations

import numpy as np
import pytest

from edgepipe.report.detection import (
    Boxes,
    average_precision,
    decode_nanodet,
    intersection_over_union,
)


def boxes(*rows: tuple[float, float, float, float, float, int]) -> Boxes:
    table = np.array(rows, np.float64).reshape(-1, 6)
    return Boxes(corners=table[:, :4], scores=table[:, 4], classes=table[:, 5].astype(np.int64))


def head(cell: int, side_bins: tuple[int, int, int, int]) -> dict[str, np.ndarray]:
    """Return outputs of a 16x16 input at stride 8 whose ``cell`` holds one sure box of class 1."""
    scores = np.zeros((1, 4, 2), np.float32)
    scores[0, cell, 1] = 0.9
    distances = np.zeros((1, 4, 4, 11), np.float32)
    for side, bin_index in enumerate(side_bins):
        distances[0, cell, side, bin_index] = 50.0
    return {"s": scores, "d": distances.reshape(1, 4, 44)}


def test_a_box_is_the_cell_centre_and_the_expected_distances() -> None:
    found = decode_nanodet(head(3, (1, 0, 0, 0)), ["s"], ["d"], strides=(8,), input_size=(16, 16))
    np.testing.assert_allclose(found.corners, [[4.0, 12.0, 12.0, 12.0]])
    assert found.scores.tolist() == pytest.approx([0.9])
    assert found.classes.tolist() == [1]


def test_the_weaker_of_two_overlapping_boxes_goes_unless_its_class_differs() -> None:
    outputs = head(0, (0, 0, 1, 1))
    again = head(1, (1, 0, 0, 1))
    for name, values in again.items():
        outputs[name] = np.where(values != 0, values, outputs[name])
    outputs["s"][0, 1, 1] = 0.8
    arguments = {"strides": (8,), "input_size": (16, 16)}
    assert decode_nanodet(outputs, ["s"], ["d"], **arguments).scores.size == 1  # type: ignore[arg-type]
    outputs["s"][0, 1] = (0.8, 0.0)
    assert decode_nanodet(outputs, ["s"], ["d"], **arguments).scores.size == 2  # type: ignore[arg-type]


def test_overlap() -> None:
    first = np.array([[0.0, 0.0, 2.0, 2.0]])
    second = np.array([[1.0, 0.0, 3.0, 2.0], [5.0, 5.0, 6.0, 6.0]])
    np.testing.assert_allclose(intersection_over_union(first, second), [[1 / 3, 0.0]])


def test_precision_of_equal_sets_is_one_and_ranks_matter() -> None:
    truth = boxes((0, 0, 4, 4, 0.9, 0), (10, 0, 14, 4, 0.8, 0))
    assert average_precision([truth], [truth]) == 1.0
    false_last = boxes((0, 0, 4, 4, 0.9, 0), (10, 0, 14, 4, 0.8, 0), (20, 20, 22, 22, 0.1, 0))
    assert average_precision([false_last], [truth]) == 1.0
    false_first = boxes((20, 20, 22, 22, 0.95, 0), (0, 0, 4, 4, 0.9, 0), (10, 0, 14, 4, 0.8, 0))
    assert average_precision([false_first], [truth]) == pytest.approx(2 / 3)
    assert average_precision([boxes((0, 0, 4, 4, 0.9, 0))], [truth]) == 0.5
    assert average_precision([boxes((0, 0, 4, 4, 0.9, 1))], [truth]) == 0.0
    twice = boxes((0, 0, 4, 4, 0.9, 0), (0, 0, 4, 4, 0.8, 0))
    assert average_precision([twice], [truth]) == 0.5
    assert average_precision([boxes()], [boxes()]) == 1.0
