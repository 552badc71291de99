"""The format that the pipeline's ``take`` returns: see ``cpp_runtime/ffi/pipeline_module.h``."""

from __future__ import annotations

import struct
from collections.abc import Sequence

HEADER = struct.Struct("<QQqIII")
_BOX = struct.Struct("<5fi")
_POINT = struct.Struct("<3f")
_CLASS = struct.Struct("<i2f")


Box = tuple[float, float, float, float, float, int]  # left, top, right, bottom, score, class
Point = tuple[float, float, float]  # x, y, score
Class = tuple[int, float, float]  # class, score, probability
# A finished frame: its number, latency in ns, id, and the results of the bundle's postprocessing:
# boxes, their points (as many for each box), classes.
TakenFrame = tuple[int, int, int, Sequence[Box], Sequence[Point], Sequence[Class]]


def read_frames(content: bytes, output_bytes: int = 0) -> list[tuple[TakenFrame, int]]:
    """Read what ``take`` has returned: each frame, and the offset in bytes of its outputs.

    Each frame is followed by ``output_bytes`` of outputs; 0 if they went to tensors.
    """
    found: list[tuple[TakenFrame, int]] = []
    offset = 0
    while offset < len(content):
        number, latency_ns, id, *counts = HEADER.unpack_from(content, offset)
        box_count, point_count, class_count = counts
        offset += HEADER.size
        boxes: Sequence[Box] = ()
        points: Sequence[Point] = ()
        classes: Sequence[Class] = ()
        if box_count:
            end = offset + box_count * _BOX.size
            boxes = tuple(_BOX.iter_unpack(content[offset:end]))
            offset = end
        if point_count:
            end = offset + point_count * _POINT.size
            points = tuple(_POINT.iter_unpack(content[offset:end]))
            offset = end
        if class_count:
            end = offset + class_count * _CLASS.size
            classes = tuple(_CLASS.iter_unpack(content[offset:end]))
            offset = end
        found.append(((number, latency_ns, id, boxes, points, classes), offset))
        offset += output_bytes
    return found
