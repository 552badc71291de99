"""The format that the pipeline's ``take`` returns: see ``cpp_runtime/ffi/pipeline_module.h``."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

FRAME = struct.Struct("<QQq")
_RESULT = struct.Struct("<7If")
HEADER_BYTES = FRAME.size + _RESULT.size
_BOX = struct.Struct("<5fi")
_POINT = struct.Struct("<3f")
_CLASS = struct.Struct("<i2f")


Box = tuple[float, float, float, float, float, int]  # left, top, right, bottom, score, class
Point = tuple[float, float, float]  # x, y, score
Class = tuple[int, float, float]  # class, score, probability


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The results of the bundle's postprocessing; ``points`` are as many for each box.

    ``class_map`` is uint8[rows, columns].
    """

    boxes: Sequence[Box] = ()
    points: Sequence[Point] = ()
    classes: Sequence[Class] = ()
    class_map: NDArray[np.uint8] | None = None
    text: str = ""
    text_score: float = 0.0


NOTHING = Found()
# A finished frame: its number, latency in ns, id, and results.
TakenFrame = tuple[int, int, int, Found]


def read_frames(content: bytes, output_bytes: int = 0) -> list[tuple[TakenFrame, int]]:
    """Read what ``take`` has returned: each frame, and the offset in bytes of its outputs.

    Each frame is followed by ``output_bytes`` of outputs; 0 if they went to tensors.
    """
    frames: list[tuple[TakenFrame, int]] = []
    offset = 0
    while offset < len(content):
        number, latency_ns, id = FRAME.unpack_from(content, offset)
        found, offset = read_found(content, offset + FRAME.size)
        frames.append(((number, latency_ns, id, found), offset))
        offset += output_bytes
    return frames


def read_found(content: bytes, offset: int) -> tuple[Found, int]:
    """Read results, whose bytes begin at ``offset``; also return the offset of what follows.

    ``cpp_runtime/src/postprocess/result_bytes.h`` writes them.
    """
    kind, *counts, text_score = _RESULT.unpack_from(content, offset)
    offset += _RESULT.size
    if not kind:
        return NOTHING, offset
    boxes, points, classes, rows, columns, text_bytes = counts
    ends = [offset]
    for part_bytes in (
        boxes * _BOX.size,
        points * _POINT.size,
        classes * _CLASS.size,
        rows * columns,
        text_bytes,
    ):
        ends.append(ends[-1] + part_bytes)
    box_part, point_part, class_part, map_part, text_part = (
        content[begin:end] for begin, end in pairwise(ends)
    )
    class_map = np.frombuffer(map_part, np.uint8).reshape(rows, columns) if rows else None
    found = Found(
        boxes=tuple(_BOX.iter_unpack(box_part)),
        points=tuple(_POINT.iter_unpack(point_part)),
        classes=tuple(_CLASS.iter_unpack(class_part)),
        class_map=class_map,
        text=text_part.decode("utf-8", "replace"),
        text_score=text_score,
    )
    return found, ends[-1]
