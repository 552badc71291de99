"""Read what ``ep_take`` gives: see ``cpp_runtime/src/postprocess/result_bytes.h``."""

from __future__ import annotations

import struct

import numpy as np

from edgepipe_runtime.results import (
    ClassMap,
    ClassScore,
    Detection,
    FrameResult,
    Point,
    label_of,
)

_RESULT = struct.Struct("<7If")
_BOX = struct.Struct("<5fi")
_POINT = struct.Struct("<3f")
_CLASS = struct.Struct("<i2f")
_BOXES = 1  # ResultKind::kDetections: its points belong to the boxes


def read_results(content: bytes, labels: tuple[str, ...], result: FrameResult) -> None:
    """Fill in what the bundle's postprocessing found in a frame."""
    kind, boxes, points, classes, rows, columns, text_bytes, score = _RESULT.unpack_from(content)
    if not kind:
        return
    offset = _RESULT.size
    parts = []
    for part_bytes in (
        boxes * _BOX.size,
        points * _POINT.size,
        classes * _CLASS.size,
        rows * columns,
        text_bytes,
    ):
        parts.append(content[offset : offset + part_bytes])
        offset += part_bytes
    found = [Point(*point) for point in _POINT.iter_unpack(parts[1])]
    if kind == _BOXES:
        each = len(found) // boxes if boxes else 0
        result.detections = tuple(
            Detection(
                *(left, top, right, bottom, value, index),
                label=label_of(labels, index),
                points=tuple(found[n * each : (n + 1) * each]),
            )
            for n, (left, top, right, bottom, value, index) in enumerate(_BOX.iter_unpack(parts[0]))
        )
    else:
        result.points = tuple(
            Point(point.x, point.y, point.score, label_of(labels, n))
            for n, point in enumerate(found)
        )
    result.classes = tuple(
        ClassScore(value, probability, index, label_of(labels, index))
        for index, value, probability in _CLASS.iter_unpack(parts[2])
    )
    if rows:
        cells = np.frombuffer(parts[3], np.uint8).reshape(rows, columns)
        result.class_map = ClassMap(cells, labels)
    result.text = parts[4].decode("utf-8", "replace")
    result.text_score = score
