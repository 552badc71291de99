"""Every kind of detection head, in every layout: the C++ decoder gives numpy's boxes, exactly."""

from __future__ import annotations

import itertools

import box_reference as reference
import numpy as np
import pipeline_bundles as bundles
import pytest

from edgepipe.description import Postprocess
from edgepipe.errors import RuntimeFailure
from edgepipe.loading import load

SIZE = 100  # not a multiple of the strides
STRIDES = (8, 16, 32)
GRIDS = [-(-SIZE // stride) for stride in STRIDES]
CLASSES = 3
ANCHORS = ((10, 13, 16, 30), (30, 61, 62, 45), (116, 90, 156, 198))
NO_POINTS = np.zeros((0, 3))


def arranged(values, grid, per_cell, layout):
    """Arrange values [boxes, n] of a head as an exporter leaves them."""
    boxes = values.reshape(grid, grid, per_cell, -1)
    if layout == "planes":
        return boxes.transpose(2, 3, 0, 1).reshape(1, -1, grid, grid)
    if layout == "last":
        return boxes.reshape(1, grid, grid, -1)
    if layout == "anchors first":
        return boxes.transpose(2, 0, 1, 3)[None]
    if layout == "anchor planes":
        return boxes.transpose(2, 3, 0, 1)[None]
    if layout == "anchors last":
        return boxes[None]
    flat = boxes.reshape(grid * grid * per_cell, -1)
    return {"list": flat[None], "bare list": flat, "columns": flat.T[None]}[layout]


GRID_LAYOUTS = ("planes", "last", "anchors first", "anchor planes", "anchors last")
LIST_LAYOUTS = ("list", "bare list", "columns")


def decoded(tmp_path, files, tensors, **settings):
    """Return what a bundle finds in ``tensors``, which come in as its inputs."""
    arrays = {name: np.ascontiguousarray(a, np.float32) for name, a in tensors.items()}
    bundle = bundles.write_bundle(
        tmp_path / "heads",
        files,
        {},
        tensors=[
            *bundles.TENSORS,
            *(bundles.tensor(name, "float32", array.shape) for name, array in arrays.items()),
        ],
        inputs=("frame", *arrays),
        postprocess=Postprocess(**settings),
        size=SIZE,
    )
    with load(bundle) as pipeline:
        pipeline.run(bundles.frames(1)[0], *arrays.values())
        return pipeline.next().detections


def check(found, levels, *, score_threshold=0.4, iou_threshold=0.5, least=5):
    expected = reference.choose(
        levels,
        size=(SIZE, SIZE),
        score_threshold=score_threshold,
        iou_threshold=iou_threshold,
    )
    assert len(found) == len(expected.scores) >= least
    boxes = np.array([[b.left, b.top, b.right, b.bottom] for b in found], np.float32)
    np.testing.assert_array_equal(boxes, expected.corners)
    np.testing.assert_array_equal(np.float32([b.score for b in found]), expected.scores)
    assert [b.label_index for b in found] == list(expected.classes)
    points = [[[p.x, p.y, p.score] for p in b.points] for b in found]
    np.testing.assert_array_equal(
        np.array(points, np.float32).reshape(expected.points.shape), expected.points
    )


def random(rng, boxes, values, low=-3.0, high=2.0):
    return rng.uniform(low, high, (boxes, values)).astype(np.float32)


def wide(values):
    return values.astype(np.float64)


@pytest.mark.parametrize("layout", [*GRID_LAYOUTS, *LIST_LAYOUTS])
@pytest.mark.parametrize("formula", ["v3", "v5"])
def test_boxes_relative_to_anchors(tmp_path, files, layout, formula):
    rng = np.random.default_rng(5)
    tensors, levels = {}, []
    for stride, grid, anchors in zip(STRIDES, GRIDS, ANCHORS, strict=True):
        values = random(rng, grid * grid * 2, 5 + CLASSES)
        tensors[f"out_{stride}"] = arranged(values, grid, 2, layout)
        v = wide(values)
        x, y = reference.cells(grid, grid, 2, 0)
        w, h = (np.tile(anchors[k::2], grid * grid) for k in (0, 1))
        if formula == "v3":
            parts = (
                (x + reference.sigmoid(v[:, 0])) * stride,
                (y + reference.sigmoid(v[:, 1])) * stride,
                w * np.exp(v[:, 2]),
                h * np.exp(v[:, 3]),
            )
        else:
            s = 2 * reference.sigmoid(v[:, :4])
            parts = (
                (x - 0.5 + s[:, 0]) * stride,
                (y - 0.5 + s[:, 1]) * stride,
                w * (s[:, 2] * s[:, 2]),
                h * (s[:, 3] * s[:, 3]),
            )
        scores = reference.sigmoid(v[:, 5:]) * reference.sigmoid(v[:, 4:5])
        levels.append((reference.around(*parts), scores, np.zeros((len(v), 0, 3))))
    found = decoded(
        tmp_path,
        files,
        tensors,
        kind="anchors",
        formula=formula,
        strides=STRIDES,
        anchors=ANCHORS,
        outputs=tuple(tensors),
        score_threshold=0.4,
    )
    check(found, levels)


@pytest.mark.parametrize("bins", [1, 16])
@pytest.mark.parametrize("one_tensor", [True, False], ids=["one tensor", "two tensors"])
def test_distances_from_the_centre(tmp_path, files, bins, one_tensor):
    rng = np.random.default_rng(6)
    tensors, levels = {}, []
    for stride, grid in zip(STRIDES, GRIDS, strict=True):
        sides = random(rng, grid * grid, 4 * bins, 0, 3)
        scores = random(rng, grid * grid, CLASSES, -3, 1)
        if one_tensor:
            both = np.concatenate([sides, scores], axis=1)
            tensors[f"out_{stride}"] = arranged(both, grid, 1, "planes")
        else:
            tensors[f"scores_{stride}"] = arranged(scores, grid, 1, "list")
            tensors[f"sides_{stride}"] = arranged(sides, grid, 1, "planes")
        v = wide(sides).reshape(-1, 4, bins)
        if bins > 1:
            weights = np.exp(v - v.max(axis=2, keepdims=True))
            total = np.add.accumulate(weights, axis=2)[..., -1]  # in order, like a loop
            v = np.add.accumulate(weights * np.arange(bins), axis=2)[..., -1:] / total[..., None]
        d = v[..., 0] * stride
        x, y = (c * stride for c in reference.cells(grid, grid, 1, 0.5))
        corners = np.stack([x - d[:, 0], y - d[:, 1], x + d[:, 2], y + d[:, 3]], axis=1)
        levels.append((corners, reference.sigmoid(wide(scores)), np.zeros((len(d), 0, 3))))
    names = (
        {"outputs": tuple(tensors)}
        if one_tensor
        else {
            "scores": tuple(n for n in tensors if n.startswith("scores")),
            "distances": tuple(n for n in tensors if n.startswith("sides")),
        }
    )
    found = decoded(
        tmp_path,
        files,
        tensors,
        kind="distances",
        bins=bins,
        strides=STRIDES,
        score_threshold=0.4,
        **names,
    )
    check(found, levels)


def test_offsets_from_the_cell_in_one_list_for_all_strides(tmp_path, files):
    rng = np.random.default_rng(7)
    parts, levels = [], []
    for stride, grid in zip(STRIDES, GRIDS, strict=True):
        values = random(rng, grid * grid, 5 + CLASSES, -1, 1)
        values[:, 4:] = rng.uniform(0, 1, values[:, 4:].shape)
        parts.append(values)
        v = wide(values)
        x, y = reference.cells(grid, grid, 1, 0)
        corners = reference.around(
            (x + v[:, 0]) * stride,
            (y + v[:, 1]) * stride,
            np.exp(v[:, 2]) * stride,
            np.exp(v[:, 3]) * stride,
        )
        levels.append((corners, v[:, 5:] * v[:, 4:5], np.zeros((len(v), 0, 3))))
    found = decoded(
        tmp_path,
        files,
        {"out": np.concatenate(parts)[None]},
        kind="yolox",
        strides=STRIDES,
        outputs=("out",),
        score_threshold=0.4,
    )
    check(found, levels)


@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize(
    ("formula", "objectness", "normalized", "points"),
    [("", False, False, 0), ("", True, True, 0), ("corners", False, True, 4)],
)
def test_decoded_boxes(tmp_path, files, turned, formula, objectness, normalized, points):
    rng = np.random.default_rng(8)
    boxes, scale = 300, 1 if normalized else SIZE
    sides = rng.uniform(0, scale, (boxes, 4))
    if formula:
        sides = np.concatenate([sides[:, :2], sides[:, :2] + sides[:, 2:] / 3], axis=1)
    scores = rng.uniform(0, 0.8, (boxes, CLASSES + objectness))
    marks = rng.uniform(0, scale, (boxes, 3 * points))
    values = np.concatenate([sides, scores, marks], axis=1).astype(np.float32)
    v = wide(values)
    sides = v[:, :4] * (SIZE if normalized else 1)
    corners = sides if formula else reference.around(*sides.T)
    scores = v[:, 4 + objectness : 4 + objectness + CLASSES]
    if objectness:
        scores = scores * v[:, 4:5]
    marks = v[:, v.shape[1] - 3 * points :].reshape(boxes, points, 3)
    marks = marks * ([SIZE, SIZE, 1] if normalized else 1)
    out = values.T[None] if turned else values[None]
    found = decoded(
        tmp_path,
        files,
        {"out": out},
        kind="boxes",
        outputs=("out",),
        points=points,
        point_values=3 if points else 2,
        formula=formula,
        objectness=objectness,
        normalized=normalized,
        score_threshold=0.4,
    )
    check(found, [(corners, scores, marks)])


@pytest.mark.parametrize("landmarks", [0, 5])
def test_priors_with_a_background_class(tmp_path, files, landmarks):
    rng = np.random.default_rng(9)
    parts, levels = ([], [], []), []
    for grid, anchors in zip((13, 7), ANCHORS[:2], strict=True):
        step = SIZE / grid
        boxes = grid * grid * 2
        sides, scores = random(rng, boxes, 4, -1, 1), random(rng, boxes, CLASSES + 1, -2, 2)
        marks = random(rng, boxes, 2 * landmarks)
        for part, values in zip(parts, (sides, scores, marks), strict=True):
            part.append(values)
        v = wide(sides)
        x, y = (c * step for c in reference.cells(grid, grid, 2, 0.5))
        w, h = (np.tile(anchors[k::2], grid * grid) for k in (0, 1))
        corners = reference.around(
            x + v[:, 0] * 0.1 * w,
            y + v[:, 1] * 0.1 * h,
            w * np.exp(v[:, 2] * 0.2),
            h * np.exp(v[:, 3] * 0.2),
        )
        exps = np.exp(wide(scores) - wide(scores).max(axis=1, keepdims=True))
        shares = exps / np.add.accumulate(exps, axis=1)[:, -1:]
        m = wide(marks).reshape(boxes, landmarks, 2)
        points = np.stack(
            [
                x[:, None] + m[..., 0] * 0.1 * w[:, None],
                y[:, None] + m[..., 1] * 0.1 * h[:, None],
                np.ones((boxes, landmarks)),
            ],
            axis=2,
        )
        levels.append((corners, shares[:, 1:], points))
    names = ("sides", "classes", "marks")[: 3 if landmarks else 2]
    tensors = {n: np.concatenate(p)[None] for n, p in zip(names, parts, strict=False)}
    found = decoded(
        tmp_path,
        files,
        tensors,
        kind="ssd",
        grids=(13, 7),
        anchors=ANCHORS[:2],
        scores=("classes",),
        distances=("sides",),
        background=True,
        points=landmarks,
        landmarks=("marks",) if landmarks else (),
        score_threshold=0.5,
    )
    check(found, levels, score_threshold=0.5)


def test_faces_of_two_boxes_per_cell_with_five_points(tmp_path, files):
    rng = np.random.default_rng(10)
    tensors, levels = {}, []
    for stride, grid in zip(STRIDES, GRIDS, strict=True):
        boxes = grid * grid * 2
        sides = random(rng, boxes, 4, 0, 3)
        marks = random(rng, boxes, 10)
        scores = rng.uniform(0, 0.8, (boxes, 1)).astype(np.float32)
        for name, values in (("scores", scores), ("sides", sides), ("marks", marks)):
            tensors[f"{name}_{stride}"] = values  # [n, values], as SCRFD leaves them
        d = wide(sides) * stride
        x, y = (c * stride for c in reference.cells(grid, grid, 2, 0))
        corners = np.stack([x - d[:, 0], y - d[:, 1], x + d[:, 2], y + d[:, 3]], axis=1)
        m = wide(marks).reshape(boxes, 5, 2) * stride
        points = np.stack([x[:, None] + m[..., 0], y[:, None] + m[..., 1], np.ones((boxes, 5))], 2)
        levels.append((corners, wide(scores), points))
    names = {
        key: tuple(n for n in tensors if n.startswith(start))
        for key, start in (("scores", "scores"), ("distances", "sides"), ("landmarks", "marks"))
    }
    found = decoded(
        tmp_path,
        files,
        tensors,
        kind="distances",
        activation="none",
        per_cell=2,
        cell_offset=0.0,
        points=5,
        strides=STRIDES,
        score_threshold=0.4,
        **names,
    )
    check(found, levels)


def test_peaks_of_a_heat_map(tmp_path, files):
    rng = np.random.default_rng(11)
    grid = SIZE // 4
    heat = rng.uniform(0, 1, (CLASSES, grid, grid)).astype(np.float32)
    sides, centres = (rng.uniform(0, 5, (2, grid, grid)).astype(np.float32) for _ in range(2))
    padded = np.pad(heat, ((0, 0), (1, 1), (1, 1)), constant_values=-1)
    near = [padded[:, y : y + grid, x : x + grid] for y, x in itertools.product(range(3), repeat=2)]
    peaks = np.where(heat >= np.max(near, axis=0), heat, 0)
    x, y = reference.cells(grid, grid, 1, 0)
    c, s = (wide(a).reshape(2, -1) for a in (centres, sides))
    corners = reference.around((x + c[0]) * 4, (y + c[1]) * 4, s[0] * 4, s[1] * 4)
    tensors = {"heat": heat[None], "sides": sides[None], "centres": centres[None]}
    found = decoded(
        tmp_path,
        files,
        tensors,
        kind="centernet",
        strides=(4,),
        scores=("heat",),
        distances=("sides",),
        centers=("centres",),
        score_threshold=0.4,
    )
    check(found, [(corners, wide(peaks).reshape(CLASSES, -1).T, np.zeros((grid * grid, 0, 3)))])


def test_a_head_of_another_shape_is_refused(tmp_path, files):
    with pytest.raises(RuntimeFailure) as caught:
        decoded(
            tmp_path,
            files,
            {"out": np.zeros((1, 7, 13, 13))},
            kind="anchors",
            formula="v5",
            strides=(8,),
            anchors=((1, 2, 3, 4),),
            outputs=("out",),
        )
    assert str(caught.value) == (
        "manifest.json: postprocess: tensor 'out' is [1, 7, 13, 13], expected 6 values or more of "
        "2 boxes in each of 13x13 cells"
    )
    assert caught.value.hint == "correct the network's description and build the bundle again"


def test_more_boxes_than_a_number_can_count_are_refused(tmp_path, files):
    with pytest.raises(RuntimeFailure) as caught:
        decoded(
            tmp_path,
            files,
            {"out": np.zeros((1, 7, 13, 13))},
            kind="yolox",
            grids=(1_000_000,),
            outputs=("out",),
        )
    assert str(caught.value) == (
        "manifest.json: postprocess: has 1000000000000 boxes or more, expected at most 16777216"
    )


@pytest.mark.parametrize("threshold", [0.9999, 1.0])
def test_scores_that_round_up_to_the_threshold_count(tmp_path, files, threshold):
    logits = np.linspace(8, 20, 100)
    scores = reference.sigmoid(logits.astype(np.float32).astype(np.float64))
    count = np.count_nonzero(scores.astype(np.float32) >= np.float32(threshold))
    assert 0 < count < 100
    found = decoded(
        tmp_path,
        files,
        {"out": np.concatenate([np.tile([50, 50, 9, 9], (100, 1)), logits[:, None]], axis=1)[None]},
        kind="boxes",
        outputs=("out",),
        activation="sigmoid",
        score_threshold=threshold,
        iou_threshold=1.0,
    )
    assert len(found) == count
