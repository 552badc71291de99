"""Class maps, heat maps and texts: the C++ decoders give the results of numpy and OpenCV."""

from __future__ import annotations

import cv2
import numpy as np
import pipeline_bundles as bundles
import pytest

from edgepipe.description import Postprocess
from edgepipe.errors import RuntimeFailure
from edgepipe.loading import load
from edgepipe.runtime.results import Point

SIDE = bundles.SIZE  # of the input, pixels
ROWS = COLUMNS = 12
CHARACTERS = "abc é\N{SNOWMAN}"


def result_of(tmp_path, files, values, **settings):
    """Return what a bundle makes of the tensor ``values``, which comes in as its second input."""
    array = np.ascontiguousarray(values, np.float32)
    bundle = bundles.write_bundle(
        tmp_path / "maps",
        {**files, "labels.txt": "\n".join(CHARACTERS).encode() + b"\n"},
        {},
        tensors=[*bundles.TENSORS, bundles.tensor("out", "float32", array.shape)],
        inputs=("frame", "out"),
        postprocess=Postprocess(**{"outputs": ("out",), "labels": "labels.txt", **settings}),
    )
    with load(bundle) as pipeline:
        pipeline.run(bundles.frames(1)[0], array)
        return pipeline.next()


def arranged(values, layout):
    """Arrange values [rows, columns, n] as an exporter leaves them."""
    return values.transpose(2, 0, 1)[None] if layout == "planes" else values[None]


@pytest.mark.parametrize("layout", ["planes", "last"])
def test_the_class_of_a_cell_has_the_highest_score(tmp_path, files, layout):
    scores = np.random.default_rng(1).integers(-4, 4, (ROWS, COLUMNS, 19)).astype(np.float32)
    scores[0, 0] = np.nan  # never the highest
    scores[0, 1, :5] = np.nan
    found = result_of(tmp_path, files, arranged(scores, layout), kind="segmentation").class_map
    comparable = np.nan_to_num(scores, nan=-np.inf)
    np.testing.assert_array_equal(found.classes, comparable.argmax(axis=2))  # ties: the first
    assert found.classes.dtype == np.uint8
    areas = found.areas()
    assert sum(area.share for area in areas) == pytest.approx(1)
    assert [a.share for a in areas] == sorted((a.share for a in areas), reverse=True)
    assert {area.label for area in areas} <= {*CHARACTERS, *map(str, range(6, 19))}


@pytest.mark.parametrize(("activation", "least"), [("none", 0.25), ("sigmoid", np.log(1 / 3))])
def test_a_single_class_is_told_from_the_rest_by_the_threshold(tmp_path, files, activation, least):
    scores = np.random.default_rng(2).uniform(-3, 3, (ROWS, COLUMNS, 1)).astype(np.float32)
    found = result_of(
        tmp_path,
        files,
        arranged(scores, "planes"),
        kind="segmentation",
        activation=activation,
        score_threshold=0.25,
    )
    np.testing.assert_array_equal(found.class_map.classes, scores[:, :, 0] >= np.float32(least))


@pytest.mark.parametrize("layout", ["planes", "last"])
def test_keypoints_are_the_peaks_of_their_maps(tmp_path, files, layout):
    heat = np.random.default_rng(3).uniform(0, 1, (ROWS, COLUMNS, 7)).astype(np.float32)
    heat[0, COLUMNS - 1, 0] = 2  # a corner: not moved
    heat[5, 6, 1], heat[5, 7, 1], heat[6, 6, 1], heat[4, 6, 1] = 2, 1.5, 1.5, 1.5
    expected = []
    for k in range(7):
        row, column = np.unravel_index(heat[:, :, k].argmax(), (ROWS, COLUMNS))

        def shift(line, place):
            inside = 0 < place < len(line) - 1
            return 0.25 * np.sign(line[place + 1] - line[place - 1]) if inside else 0

        x = column + shift(heat[row, :, k], column)
        y = row + shift(heat[:, column, k], row)
        label = CHARACTERS[k] if k < len(CHARACTERS) else str(k)
        step = SIDE / COLUMNS
        place = (float(np.float32(x * step)), float(np.float32(y * step)))
        expected.append(Point(*place, float(heat[row, column, k]), label))
    found = result_of(tmp_path, files, arranged(heat, layout), kind="keypoints")
    assert found.points == tuple(expected)
    assert (expected[0].x, expected[0].y) == (np.float32(11 * SIDE / 12), 0)
    assert found.detections == ()


@pytest.mark.parametrize("blank", ["first", "last"])
@pytest.mark.parametrize("activation", ["none", "softmax"])
def test_repeated_characters_count_once_and_blanks_separate_them(
    tmp_path, files, blank, activation
):
    # b b - b é é a - - SNOWMAN space
    steps = [1, 1, None, 1, 4, 4, 0, None, None, 5, 3]
    shift = 1 if blank == "first" else 0
    of_blank = 0 if blank == "first" else len(CHARACTERS)
    best = [of_blank if step is None else step + shift for step in steps]
    scores = np.random.default_rng(4).uniform(0, 0.5, (len(steps), len(CHARACTERS) + 1))
    scores[np.arange(len(steps)), best] = np.linspace(0.6, 1, len(steps))
    scores = scores.astype(np.float32).astype(np.float64)
    shares = scores
    if activation == "softmax":
        shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    counting = [0, 3, 4, 6, 9, 10]
    found = result_of(
        tmp_path, files, scores[:, None], kind="ctc", blank=blank, activation=activation
    )
    assert found.text == "bbéa\N{SNOWMAN} "
    assert found.text_score == pytest.approx(np.mean([shares[k, best[k]] for k in counting]))


def test_blanks_alone_are_an_empty_text(tmp_path, files):
    scores = np.zeros((1, 4, len(CHARACTERS) + 1))
    scores[:, :, 0] = 1
    found = result_of(tmp_path, files, scores, kind="ctc")
    assert (found.text, found.text_score) == ("", 0.0)


def text_map(side, boxes):
    """Return a map with filled rotated rectangles (centre, size, angle, value)."""
    drawn = np.zeros((side, side), np.float32)
    for centre, size, angle, value in boxes:
        corners = cv2.boxPoints((centre, size, angle)).round().astype(np.int32)
        cv2.fillConvexPoly(drawn, corners, value)
    return drawn


@pytest.mark.parametrize("activation", ["none", "sigmoid"])
def test_regions_of_text_have_the_smallest_rectangle_at_any_angle(tmp_path, files, activation):
    side, unclip = 128, 1.5
    drawn = text_map(
        side,
        [
            ((30, 20), (40, 10), 0, 0.9),
            ((80, 40), (50, 12), 30, 0.8),
            ((40, 90), (14, 50), 20, 0.7),
            ((100, 100), (20, 20), 45, 0.35),  # not sure enough
            ((110, 10), (8, 1), 0, 0.95),  # too narrow
        ],
    )
    drawn[70, 110] = np.nan
    with np.errstate(divide="ignore"):
        values = drawn if activation == "none" else np.log(drawn / (1 - drawn))
    found = result_of(
        tmp_path,
        files,
        values[None, None],
        kind="db",
        activation=activation,
        score_threshold=0.6,
        unclip=unclip,
    )
    assert len(found.detections) == 3
    _, regions = cv2.connectedComponents((drawn >= 0.3).astype(np.uint8), connectivity=8)
    step = SIDE / side
    for box, value in zip(found.detections, (0.9, 0.8, 0.7), strict=True):
        assert box.score == pytest.approx(value, abs=1e-6)
        inside = tuple(np.argwhere(drawn == np.float32(value))[0])
        rows, columns = np.nonzero(regions == regions[inside])
        centre, (width, height), angle = cv2.minAreaRect(
            np.stack([columns, rows], axis=1).astype(np.float32)
        )
        wider = 2 * width * height * unclip / (2 * (width + height))
        corners = cv2.boxPoints((centre, (width + wider, height + wider), angle))
        expected = np.clip((corners + 0.5) * step, 0, SIDE)
        points = np.array([(p.x, p.y) for p in box.points])
        for corner in points:
            assert np.abs(expected - corner).sum(axis=1).min() < 0.02
        assert (points.sum(axis=1)[0] <= points.sum(axis=1)).all()
        (ax, ay), (bx, by) = points[1] - points[0], points[2] - points[1]
        assert ax * by - ay * bx > 0  # clockwise, because y points down
        assert (box.left, box.top) == tuple(points.min(axis=0))
        assert (box.right, box.bottom) == tuple(points.max(axis=0))


def test_regions_that_touch_only_at_a_corner_are_one(tmp_path, files):
    drawn = np.zeros((32, 32), np.float32)
    drawn[4:10, 4:12] = 1
    drawn[10:16, 12:20] = 1
    found = result_of(tmp_path, files, drawn[None, None], kind="db")
    assert len(found.detections) == 1


@pytest.mark.parametrize(
    ("kind", "shape", "expected"),
    [
        (
            "segmentation",
            (1, 19, 12, 10),
            "1 to 256 classes in rows and columns in the proportion of the input, 16x16",
        ),
        (
            "segmentation",
            (1, 257, 4, 4),
            "1 to 256 classes in rows and columns in the proportion of the input, 16x16",
        ),
        ("keypoints", (4, 4), "1 to 4096 heat maps in the proportion of the input, 16x16"),
        ("db", (1, 2, 4, 4), "a map in the proportion of the input, 16x16"),
        ("ctc", (1, 40, 6), "steps of 7 scores: one for each of the labels, and the blank's"),
    ],
)
def test_a_tensor_of_another_shape_is_refused(tmp_path, files, kind, shape, expected):
    with pytest.raises(RuntimeFailure) as caught:
        result_of(tmp_path, files, np.zeros(shape), kind=kind)
    assert str(caught.value) == (
        f"manifest.json: postprocess: tensor 'out' is {list(shape)}, expected {expected}"
    )
    assert caught.value.hint == "correct the network's description and build the bundle again"
