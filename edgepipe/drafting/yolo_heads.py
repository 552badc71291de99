"""YOLOs whose boxes are all in one output: YOLOv5 to YOLO11, and YOLOX."""

from __future__ import annotations

from collections.abc import Sequence

from edgepipe.drafting.head import COCO_CLASSES, THRESHOLDS, Head, Seen
from edgepipe.drafting.probe import Output
from edgepipe.drafting.settings import Setting

_PYRAMIDS = ((8, 16, 32), (8, 16, 32, 64), (16, 32), (4, 8, 16, 32))
_ENDED = 6  # box, score, class
_LEAST_COLUMNS = 6  # box, objectness, one class
_MASKS = 32
_CORNERS = 4
_POSE = _CORNERS + 1 + 17 * 3  # box, score of a person, COCO's keypoints


def dense_yolo(seen: Seen) -> Head | None:
    """Boxes of all cells in one output; the usual strides 8, 16, 32 are tried first."""
    for strides in _PYRAMIDS:
        for rule in (_without_objectness, _with_objectness):
            head = rule(seen, seen.pyramid(strides), strides)
            if head is not None:
                return head
    shapes = seen.shapes(3)
    if len(seen.outputs) == 1 and shapes and shapes[0][2] == _ENDED:
        text = f"{seen.outputs[0]}: boxes, scores and classes after non-maximum suppression"
        return Head(family="YOLOv10", text=text)
    return None


def _without_objectness(seen: Seen, cells: int, strides: Sequence[int]) -> Head | None:
    """YOLOv8 and later: [1, 4 + classes, cells] or, transposed, [1, cells, 4 + classes]."""
    masks = [shape for shape in seen.shapes(4) if shape[1] == _MASKS]
    found = [output for output in seen.outputs if len(output.shape) == 3]
    if len(found) != 1 or len(seen.outputs) != 1 + len(masks):
        return None
    (output,) = found
    _, rows, columns = output.shape
    if columns == cells:
        values = rows
    elif rows == cells and (masks or _lacks_objectness(seen, columns)):
        values = columns
    else:
        return None
    task = "segment" if masks else seen.metadata.task or _task(seen, values)
    return _yolov8(output, values, task, is_guess=task == "pose" and not seen.metadata.task)


def _lacks_objectness(seen: Seen, values: int) -> bool:
    """Return whether the ``values`` of a box are YOLOv8's: no objectness is among them."""
    if seen.metadata.task:
        return True
    named = len(seen.metadata.labels)
    return values == _CORNERS + (named or COCO_CLASSES) or bool(_task(seen, values))


def _task(seen: Seen, values: int) -> str:
    """Return "pose" if the ``values`` are those of a person's keypoints."""
    return "pose" if values == _POSE and len(seen.metadata.labels) <= 1 else ""


def _yolov8(output: Output, values: int, task: str, *, is_guess: bool) -> Head | None:
    """Return the head of boxes with ``values`` each; a ``task`` that is a guess is marked."""
    extra = {"segment": _MASKS, "pose": values - 5, "obb": 1}.get(task, 0)
    more = {"segment": ", masks", "pose": ", keypoints", "obb": ", angles"}.get(task, "")
    classes = values - _CORNERS - extra
    if classes < 1:
        return None
    text = f"{output}: boxes and scores of {classes} classes{more} (YOLOv8, YOLO11)"
    settings = [Setting(key="outputs", value=(output.name,), reason="the output with the boxes")]
    if is_guess:
        text += f"; without keypoints it would be {values - _CORNERS} classes, and no points"
    if task == "pose":
        settings += [
            Setting(
                key="points",
                value=extra // 3,
                reason="keypoints of each box, after its score",
                is_guess=is_guess,
            ),
            Setting(
                key="point_values",
                value=3,
                reason="x, y and a score for each keypoint",
                is_guess=is_guess,
            ),
        ]
    return Head(
        family="YOLOv8",
        text=text,
        kind="none" if task in ("segment", "obb") else "boxes",
        is_guess=is_guess,
        classes=classes,
        settings=() if task in ("segment", "obb") else (*settings, *THRESHOLDS),
    )


def _with_objectness(seen: Seen, cells: int, strides: Sequence[int]) -> Head | None:
    """YOLOv5, YOLOv6 and YOLOX: [1, cells * anchors, 5 + classes]."""
    if len(seen.outputs) != 1 or len(seen.shapes(3)) != 1:
        return None
    _, count, columns = seen.shapes(3)[0]
    family = {cells: "YOLOX", 3 * cells: "YOLOv5"}.get(count)
    if family is None or columns < _LEAST_COLUMNS:
        return None
    (output,) = seen.outputs
    # Offsets from cells and logarithms are small; centres of boxes reach the picture's far edges.
    if family == "YOLOX" and output.largest > max(seen.height, seen.width) / 2:
        family = "YOLOv6"
    classes = columns - 5
    text = f"{output}: boxes, objectness and scores of {classes} classes ({family})"
    # Boxes of three anchors have an objectness; of one, only the classes' number tells.
    is_guess = family != "YOLOv5" and classes != (len(seen.metadata.labels) or COCO_CLASSES)
    if is_guess:
        without = 'kind = "boxes"' if family == "YOLOX" else "objectness = false"
        text += f"; {without} if there is no objectness, but {classes + 1} classes (YOLOv8)"
    named = Setting(key="outputs", value=(output.name,), reason="the output with the boxes")
    if family == "YOLOX":
        last = Setting(key="strides", value=tuple(strides), reason="pixels per cell, by the size")
    else:
        why = "a score after the box multiplies the others"
        last = Setting(key="objectness", value=True, reason=why, is_guess=is_guess)
    return Head(
        family=family,
        text=text,
        kind="yolox" if family == "YOLOX" else "boxes",
        is_guess=is_guess,
        classes=classes,
        settings=(named, last, *THRESHOLDS),
    )
