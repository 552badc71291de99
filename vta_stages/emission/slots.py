"""Equal slots of an on-chip buffer, filled with blocks of DRAM and reused in turn."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from vta_stages.emission.schedule import Extent, Schedule
from vta_stages.isa.instructions import MemoryType


@dataclass(slots=True, eq=False)
class Slot:
    """A piece of a buffer; ``filled`` are the elements that its block takes."""

    extent: Extent
    filled: Extent
    key: Hashable = None
    turn: int = 0

    @property
    def base(self) -> int:
        return self.extent.first


class SlotRing:
    """Keeps the most recently used blocks on chip.

    slot, hit = ring.take(key, elements)      # hit: the block is there already
    """

    def __init__(self, schedule: Schedule, memory: MemoryType, base: int, size: int, count: int):
        """Cut ``count`` slots of ``size`` elements. Those that come free first are taken first."""
        extents = [Extent(memory, base + index * size, size) for index in range(count)]
        self._slots = [Slot(extent, extent) for extent in sorted(extents, key=schedule.last_reader)]
        self._by_key: dict[Hashable, Slot] = {}
        self._turn = 0

    def take(self, key: Hashable, elements: int) -> tuple[Slot, bool]:
        """Return the slot of a block, and whether it holds it; if not, the oldest slot is given."""
        self._turn += 1
        slot = self._by_key.get(key)
        if slot is not None:
            slot.turn = self._turn
            return slot, True
        slot = min(self._slots, key=lambda s: s.turn)
        self._by_key.pop(slot.key, None)
        self._by_key[key] = slot
        slot.key, slot.turn = key, self._turn
        slot.filled = Extent(slot.extent.memory, slot.base, elements)
        return slot, False
