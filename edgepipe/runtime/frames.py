"""What the pipeline's ``get_output`` returns: see ``cpp_runtime/ffi/pipeline_module.h``."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_HEADER = struct.Struct("<QQII")
_BOX = struct.Struct("<5fi")
_CLASS = struct.Struct("<i2f")


@dataclass(frozen=True, slots=True)
class TakenFrame:
    """A frame's number and latency, and how many boxes and classes follow in ``content``."""

    content: bytes
    frame: int
    latency_ns: int
    box_count: int
    class_count: int

    @property
    def latency_ms(self) -> float:
        """The time from submission to the last stage's end."""
        return self.latency_ns / 1e6

    def boxes(self) -> Iterator[tuple[float, float, float, float, float, int]]:
        """Yield left, top, right, bottom, score and class."""
        for i in range(self.box_count):
            yield _BOX.unpack_from(self.content, _HEADER.size + i * _BOX.size)

    def classes(self) -> Iterator[tuple[int, float, float]]:
        """Yield class, score and probability."""
        start = _HEADER.size + self.box_count * _BOX.size
        for i in range(self.class_count):
            yield _CLASS.unpack_from(self.content, start + i * _CLASS.size)

    @property
    def outputs(self) -> memoryview:
        """The bytes of every output, one after the other; empty when they went to tensors."""
        counted = self.box_count * _BOX.size + self.class_count * _CLASS.size
        return memoryview(self.content)[_HEADER.size + counted :]


def read_frame(content: bytes) -> TakenFrame:
    """Read what ``get_output`` has returned."""
    return TakenFrame(content, *_HEADER.unpack_from(content))
