"""Equal slots of an on-chip buffer, filled from DRAM and reused in turn."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from vta_stages.emission.schedule import Extent, Schedule
from vta_stages.isa.instructions import MemoryType


@dataclass(slots=True, eq=False)
class BufferSlot:
    """A part of an on-chip buffer.

    ``filled`` is the part that the loaded block occupies, ``key`` names that block, and ``turn``
    is the number of the ring's latest call that returned the slot.
    """

    extent: Extent
    filled: Extent
    key: Hashable = None
    turn: int = 0

    @property
    def base(self) -> int:
        """The first element of the slot."""
        return self.extent.first


class SlotRing:
    """Keeps the most recently used blocks on chip.

    slot, hit = ring.take(key, elements)      # hit: the slot holds this block already
    """

    def __init__(self, schedule: Schedule, memory: MemoryType, base: int, size: int, count: int):
        """Create ``count`` slots of ``size`` elements; those that become free first come first."""
        extents = [Extent(memory, base + index * size, size) for index in range(count)]
        self._slots = [
            BufferSlot(extent, extent) for extent in sorted(extents, key=schedule.last_reader)
        ]
        self._by_key: dict[Hashable, BufferSlot] = {}
        self._turn = 0

    def take(self, key: Hashable, elements: int) -> tuple[BufferSlot, bool]:
        """Return the slot for a block of that many elements, and whether it already holds the
        block.

        Otherwise the slot is the least recently used one, and the caller loads the block into it.
        """
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
