"""Which instruction last read and wrote each element of a memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vta_stages.isa.instructions import Module

from .token_order import NEVER, Clock

Elements = slice | NDArray[np.int64]


class ElementAccesses:
    """The latest accesses of each module to the elements of a buffer or of DRAM.

    Accesses are stamps: 1 + the place of an instruction in the queue of its module, 0 for none.
    """

    def __init__(self, elements: int) -> None:
        self._written = {module: np.zeros(elements, np.int32) for module in Module}
        self._read = {module: np.zeros(elements, np.int32) for module in Module}

    def before_reading(self, elements: Elements) -> Clock:
        """Return what must have ended before an instruction reads elements."""
        return self._latest(self._written, elements)

    def before_writing(self, elements: Elements) -> Clock:
        """Return what must have ended before an instruction writes elements."""
        written = self._latest(self._written, elements)
        read = self._latest(self._read, elements)
        return (max(written[0], read[0]), max(written[1], read[1]), max(written[2], read[2]))

    def read(self, module: Module, elements: Elements, stamp: int) -> None:
        """Note that the module's instruction reads elements."""
        self._read[module][elements] = stamp

    def write(self, module: Module, elements: Elements, stamp: int) -> None:
        """Note that the module's instruction writes elements."""
        self._written[module][elements] = stamp

    @staticmethod
    def _latest(stamps: dict[Module, NDArray[np.int32]], elements: Elements) -> Clock:
        found = [int(stamps[module][elements].max(initial=0)) for module in Module]
        return (found[0], found[1], found[2]) if any(found) else NEVER
