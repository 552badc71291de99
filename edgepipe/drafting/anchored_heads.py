"""Heads whose boxes are relative to anchors: YOLOv3 and YOLOv5, SSD, RetinaFace.

No file contains the anchors, so they are those that the family is usually trained with, marked as
guesses. A form that no usual network has stays undecoded, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgepipe.drafting.grid_heads import alike
from edgepipe.drafting.head import THRESHOLDS, Head, Seen, listed
from edgepipe.drafting.probe import Output
from edgepipe.drafting.settings import Setting
from edgepipe.drafting.usual_anchors import (
    RETINAFACE,
    SMALL_FACES,
    Anchors,
    Faces,
    is_tensorflows_ssd,
    ssd_anchors,
    yolo_anchors,
)

_YOLO_ANCHORS = 3
_LANDMARKS = 10  # five points
_CORNERS = 4
_TENSORFLOWS_CLASSES = 90
# The last step of a network that turns what its convolutions give into boxes.
_DECODING = ("Clip", "Div", "Exp", "Mul", "ScatterElements", "ScatterND", "Slice", "Sub")
_FROM_SIZES = "by the sizes"
_ADD_ANCHORS = "to decode them, add the anchors that the network was trained with"
_DECODED = (
    'the network decodes its boxes itself; join them with the scores to one output for kind "boxes"'
)
_YOLO_DECODED = "the network decodes its boxes in part; export it without decoding"


def yolo_grids(seen: Seen) -> Head | None:
    """YOLOv3 and others: for each stride a grid of cells with 3 boxes each.

    The outputs are ``[1, 3, h, w, 5 + classes]``, the same with other axes last, or
    ``[1, 3 * (5 + classes), h, w]`` with the channels first or last.
    """
    found = alike(seen)
    if found is None:
        return None
    strides, each, values = found
    if not each and not values % _YOLO_ANCHORS:
        each, values = _YOLO_ANCHORS, values // _YOLO_ANCHORS
    classes = values - 5
    if not each or classes < 1:
        return None
    text = f"a grid of boxes for each of the strides {listed(strides)}, {each} anchors per cell"
    text = f"{text}, {classes} classes"
    anchors = yolo_anchors(strides) if each == _YOLO_ANCHORS else None
    activated = all(output.maker == "Sigmoid" and output.are_shares for output in seen.outputs)
    makers = {output.maker for output in seen.outputs}
    if not activated and makers & {"Sigmoid", *_DECODING}:
        return Head(family="YOLOv3", text=text, classes=classes, remedy=_YOLO_DECODED)
    if anchors is None:
        return Head(family="YOLOv3", text=text, classes=classes, remedy=_ADD_ANCHORS)
    newer = activated or strides == sorted(strides)
    settings = [
        Setting(key="strides", value=tuple(strides), reason=f"pixels per cell, {_FROM_SIZES}"),
        Setting(key="outputs", value=_names(seen.outputs), reason="one output for each stride"),
        Setting(key="formula", value="v5" if newer else "v3", reason=_why(newer), is_guess=True),
        _anchors(anchors),
    ]
    if activated:
        settings.append(
            Setting(key="activation", value="none", reason="the network ends in Sigmoid")
        )
    return Head(
        family="YOLOv5" if newer else "YOLOv3",
        text=text,
        kind="anchors",
        is_guess=any(len(output.shape) == 4 for output in seen.outputs),
        classes=classes,
        settings=(*settings, *THRESHOLDS),
    )


def _why(newer: bool) -> str:
    order = "the smallest stride is first" if newer else "the smallest stride is not first"
    return f'{order}; "v5" for YOLOv5, YOLOv7 and Ultralytics\' YOLOv3, "v3" for YOLOv3 and YOLOv4'


def retinaface(seen: Seen) -> Head | None:
    """RetinaFace: boxes [1, n, 4], scores [1, n, 2] or [1, n, 1], and landmarks [1, n, 10] or none.

    Without landmarks, n must be that of RetinaFace, or of a detector whose heads are like it.
    """
    lists = _lists(seen)
    if lists is None:
        return None
    count, by_columns = lists
    columns = set(by_columns)
    scores = columns - {_CORNERS, _LANDMARKS}
    if len(seen.outputs) != len(columns) or _CORNERS not in columns or scores not in ({1}, {2}):
        return None
    has_points = _LANDMARKS in columns
    usual = [f for f in (RETINAFACE, SMALL_FACES) if f.count(seen.height, seen.width) == count]
    if not has_points and not usual:
        return None
    text = "boxes, scores and landmarks of faces" if has_points else "boxes and scores of faces"
    faces = usual[0] if usual else RETINAFACE
    text = f"{text} (RetinaFace)" if faces is RETINAFACE else text
    family = "RetinaFace" if faces is RETINAFACE else "small faces"
    boxes = by_columns[_CORNERS][0]
    if not usual:
        remedy = f"{count} boxes do not fit its usual anchors; {_ADD_ANCHORS}"
        return Head(family=family, text=text, classes=1, remedy=remedy)
    if boxes.maker in _DECODING:
        return Head(family=family, text=text, classes=1, remedy=_DECODED)
    (score,) = by_columns[scores.pop()]
    landmarks = by_columns[_LANDMARKS][0] if has_points else None
    return Head(
        family=family,
        text=text,
        kind="ssd",
        classes=1,
        settings=(*_face_settings(faces, boxes, score, landmarks), *THRESHOLDS),
    )


def _face_settings(
    faces: Faces, boxes: Output, scores: Output, landmarks: Output | None
) -> list[Setting]:
    anchors = Anchors(levels=faces.anchors, who=faces.who)
    settings = [
        Setting(key="strides", value=faces.strides, reason=f"pixels per cell, {_FROM_SIZES}"),
        _anchors(anchors),
        *_scores_and_boxes(scores, boxes, "sigmoid" if scores.shape[2] == 1 else "softmax"),
    ]
    if landmarks is not None:
        settings += [
            Setting(
                key="landmarks", value=(landmarks.name,), reason="x and y of five points of a box"
            ),
            Setting(key="points", value=_LANDMARKS // 2, reason="points of each box"),
        ]
    return settings


def ssd(seen: Seen) -> Head | None:
    """SSD: scores [1, n, classes + 1] and boxes [1, n, 4] of the same n anchors."""
    lists = _lists(seen)
    if lists is None or len(seen.outputs) != 2:
        return None
    count, _ = lists
    pair = _boxes_and_scores(seen.outputs)
    if pair is None:
        return None
    boxes, scores = pair
    classes = scores.shape[2] - 1
    if classes < 1:
        return None
    text = f"{count} anchors: boxes, scores of {classes} classes and background (SSD)"
    if boxes.maker in _DECODING:
        return Head(family="SSD", text=text, classes=classes, remedy=_DECODED)
    anchors = ssd_anchors(count, classes, seen.height, seen.width)
    of_tensorflow = seen.metadata.producer == "tf2onnx" or classes == _TENSORFLOWS_CLASSES
    if of_tensorflow and is_tensorflows_ssd(count, seen.height):
        remedy = "TensorFlow's boxes have y before x, which no kind reads"
        return Head(family="SSD", text=text, classes=classes, remedy=remedy)
    if anchors is None:
        remedy = f"they do not fit the anchors of a usual SSD; {_ADD_ANCHORS}"
        return Head(family="SSD", text=text, classes=classes, remedy=remedy)
    return Head(
        family="SSD",
        text=text,
        kind="ssd",
        classes=classes,
        settings=(
            _levels(anchors),
            _anchors(anchors),
            *_scores_and_boxes(scores, boxes, "softmax"),
            *THRESHOLDS,
        ),
    )


def _levels(anchors: Anchors) -> Setting:
    if anchors.strides:
        what, key, value = "pixels per cell", "strides", anchors.strides
    else:
        what, key, value = "cells of a side", "grids", anchors.grids
    reason = f"{what} of each level, by the number of anchors"
    return Setting(key=key, value=value, reason=reason, is_guess=True)


def _lists(seen: Seen) -> tuple[int, dict[int, list[Output]]] | None:
    """Return n and the outputs by their columns, if all outputs are [1, n, columns]."""
    shapes = seen.shapes(3)
    if not shapes or len(shapes) != len(seen.outputs) or any(shape[0] != 1 for shape in shapes):
        return None
    if len({shape[1] for shape in shapes}) != 1:
        return None
    by_columns: dict[int, list[Output]] = {}
    for output in seen.outputs:
        by_columns.setdefault(output.shape[2], []).append(output)
    return shapes[0][1], by_columns


def _boxes_and_scores(pair: Sequence[Output]) -> tuple[Output, Output] | None:
    """Return boxes and scores; those of 3 classes and background have 4 columns, too."""
    boxes = [output for output in pair if output.shape[2] == _CORNERS]
    if len(boxes) == len(pair):
        shares = [output for output in pair if output.are_shares]
        words = ("cls", "class", "score", "conf")
        named = [output for output in pair if any(w in output.name.lower() for w in words)]
        known = next((found for found in (shares, named) if len(found) == 1), None)
        boxes = [output for output in pair if output is not known[0]] if known else []
    if len(boxes) != 1:
        return None
    return boxes[0], next(output for output in pair if output is not boxes[0])


def _scores_and_boxes(scores: Output, boxes: Output, left: str) -> list[Setting]:
    """Return the keys of the outputs; ``left`` is the activation that a network may leave."""
    ended = scores.are_shares
    of_scores = "the scores are from 0 to 1" if ended else "the scores are not from 0 to 1"
    has_background = scores.shape[2] > 1
    return [
        Setting(key="scores", value=(scores.name,), reason="the output with the scores"),
        Setting(key="distances", value=(boxes.name,), reason="the output with the boxes"),
        Setting(key="activation", value="none" if ended else left, reason=of_scores),
        Setting(
            key="background",
            value=has_background,
            reason="the first score belongs to no class" if has_background else "one score a box",
            is_guess=has_background,
        ),
    ]


def _anchors(anchors: Anchors) -> Setting:
    reason = f"width and height in pixels of a cell's boxes, as usual for {anchors.who}"
    return Setting(key="anchors", value=anchors.levels, reason=reason, is_guess=True)


def _names(outputs: Sequence[Output]) -> tuple[str, ...]:
    return tuple(output.name for output in outputs)
