"""What the pipeline's ``take`` returns: see ``cpp_runtime/ffi/pipeline_module.h``."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_HEADER = struct.Struct("<QQqII")
_BOX = struct.Struct("<5fi")
_CLASS = struct.Struct("<i2f")


class TakenFrame(NamedTuple):
    """A finished frame: its number, latency and id, and where ``content`` says more of it."""

    frame: int
    latency_ns: int
    id: int
    box_count: int
    class_count: int
    content: bytes
    offset: int  # of the boxes

    def boxes(self) -> Iterator[tuple[float, float, float, float, float, int]]:
        """Yield left, top, right, bottom, score and class."""
        for i in range(self.box_count):
            yield _BOX.unpack_from(self.content, self.offset + i * _BOX.size)

    def classes(self) -> Iterator[tuple[int, float, float]]:
        """Yield class, score and probability."""
        start = self.offset + self.box_count * _BOX.size
        for i in range(self.class_count):
            yield _CLASS.unpack_from(self.content, start + i * _CLASS.size)

    @property
    def end(self) -> int:
        """Where the boxes and classes end, and the outputs begin if they went to no tensors."""
        return self.offset + self.box_count * _BOX.size + self.class_count * _CLASS.size


def read_frames(content: bytes, output_bytes: int = 0) -> list[TakenFrame]:
    """Read what ``take`` has returned; each frame is followed by ``output_bytes`` of outputs."""
    found: list[TakenFrame] = []
    offset = 0
    while offset < len(content):
        number, latency_ns, id, boxes, classes = _HEADER.unpack_from(content, offset)
        start = offset + _HEADER.size
        frame = TakenFrame(number, latency_ns, id, boxes, classes, content, start)
        found.append(frame)
        offset = frame.end + output_bytes
    return found
