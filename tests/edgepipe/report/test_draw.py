"""Drawing: boxes are at the detections, and nothing is drawn outside the picture."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from edgepipe.report.draw import colour, draw_caption, draw_classes, draw_detections, draw_points
from edgepipe.runtime.results import Detection, Point


def detection(left, top, right, bottom, label_index=0):
    return Detection(
        left=left,
        top=top,
        right=right,
        bottom=bottom,
        score=0.5,
        label_index=label_index,
        label="dog",
    )


def test_a_box_is_drawn_on_its_edge_and_the_source_stays_as_it_was():
    picture = np.zeros((300, 400, 3), np.uint8)
    drawn = draw_detections(picture, [detection(100, 120, 200, 220)])
    assert picture.sum() == 0
    assert np.abs(drawn[170, 100].astype(int) - colour(0)).max() < 40  # the line is anti-aliased
    assert drawn[170, 150].sum() == 0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-500, 900), min_size=4, max_size=4), st.integers(0, 79))
def test_boxes_beyond_the_edges_are_clipped(edges, label_index):
    picture = np.zeros((60, 80, 3), np.uint8)
    drawn = draw_detections(picture, [detection(*edges, label_index)])
    assert drawn.shape == picture.shape


def test_a_caption_is_a_band_at_the_top():
    drawn = draw_caption(np.full((200, 300, 3), 255, np.uint8), "frame 1")
    assert drawn[2, 2].max() < 64
    assert drawn[150, 150].min() == 255


def test_a_keypoint_is_a_dot_in_its_own_colour_and_may_lie_outside():
    picture = np.zeros((300, 400, 3), np.uint8)
    drawn = draw_points(picture, [Point(-900, 5), Point(100, 120)])
    assert picture.sum() == 0
    assert tuple(drawn[120, 100]) == colour(1)
    assert drawn[120, 110].sum() == 0


def test_classes_are_mixed_with_the_picture_except_for_the_background():
    picture = np.full((2, 1, 3), 100, np.uint8)
    drawn = draw_classes(picture, np.array([[0], [3]], np.uint8))
    assert drawn.dtype == np.uint8
    assert tuple(drawn[0, 0]) == (100, 100, 100)
    assert tuple(drawn[1, 0]) == tuple((100 + part) // 2 for part in colour(3))
