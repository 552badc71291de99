"""What the uop buffer holds: sequences are loaded when first used and kept while there is room."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vta_stages.emission.consts import ConstBuilder
from vta_stages.errors import LayerError
from vta_stages.isa.codec import InstructionBuffer
from vta_stages.isa.instructions import MemoryType


class UopBuffer:
    """Places uop sequences in the uop buffer; the oldest make room for new ones.

    Loads run in the compute module like the steps that use them, so no token is needed: a sequence
    may be overwritten by any later instruction.
    """

    def __init__(self, buffer: InstructionBuffer, consts: ConstBuilder) -> None:
        self._buffer = buffer
        self._consts = consts
        self._depth = buffer.accelerator.uop_depth
        self._next = 0
        self._resident: dict[bytes, tuple[int, int]] = {}

    @property
    def longest(self) -> int:
        """The longest sequence that leaves room for a second one."""
        return self._depth // 2

    def place(self, uops: NDArray[np.uint32]) -> int:
        """Return the buffer index of a sequence, having appended a load if it was not there."""
        content = uops.tobytes()
        known = self._resident.get(content)
        if known is not None:
            return known[0]
        count = len(uops)
        if count > self._depth:
            raise LayerError(f"uop sequence: {count} uops, expected at most {self._depth}")
        if self._next + count > self._depth:
            self._next = 0
        begin, end = self._next, self._next + count
        self._resident = {
            key: span for key, span in self._resident.items() if span[1] <= begin or span[0] >= end
        }
        self._buffer.load(
            MemoryType.UOP,
            sram_base=begin,
            dram_base=self._consts.add(content, self._buffer.accelerator.uop_bytes),
            x_size=count,
            region=self._consts.region,
        )
        self._resident[content] = (begin, end)
        self._next = end
        return begin
