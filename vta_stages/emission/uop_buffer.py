"""The contents of the uop buffer: sequences are loaded on first use and kept while they fit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vta_stages.emission.constant_pool import ConstantPool
from vta_stages.errors import LayerError
from vta_stages.isa.instruction_buffer import InstructionBuffer
from vta_stages.isa.instructions import MemoryType

_UOPS_OF_A_BEAT = 4
"""Uops in 16 bytes, the widest bus of ``vta_rtl``."""


class UopBuffer:
    """Places uop sequences in the uop buffer; new ones replace the oldest.

    The compute module runs uop loads as well as the instructions that use the uops, in order. So
    loads need no tokens, and any later instruction may overwrite a sequence.
    """

    def __init__(self, buffer: InstructionBuffer, constants: ConstantPool) -> None:
        self._buffer = buffer
        self._constants = constants
        self._depth = buffer.accelerator.uop_depth
        # Hardware of our own loads a beat of uops in a cycle if they have the same places in the
        # buffer as in DRAM, where sequences are aligned.
        self._align = _UOPS_OF_A_BEAT if buffer.accelerator.is_own else 1
        self._next = 0
        self._resident: dict[bytes, tuple[int, int]] = {}

    @property
    def longest(self) -> int:
        """The length of the longest sequence that leaves room for a second one, in uops."""
        return self._depth // 2

    def place(self, uops: NDArray[np.uint32]) -> int:
        """Return the buffer index of a sequence; append its load unless the buffer holds it.

        ``uops`` is uint32[n], encoded. Raises LayerError if the buffer is too small for it.
        """
        content = uops.tobytes()
        known = self._resident.get(content)
        if known is not None:
            return known[0]
        count = len(uops)
        if count > self._depth:
            raise LayerError(f"uop sequence: {count} uops, expected at most {self._depth}")
        self._next += -self._next % self._align
        if self._next + count > self._depth:
            self._next = 0
        begin, end = self._next, self._next + count
        self._resident = {
            key: span for key, span in self._resident.items() if span[1] <= begin or span[0] >= end
        }
        self._buffer.load(
            MemoryType.UOP,
            sram_base=begin,
            dram_base=self._constants.add(content, self._buffer.accelerator.uop_bytes),
            x_size=count,
            region=self._constants.region,
        )
        self._resident[content] = (begin, end)
        self._next = end
        return begin
