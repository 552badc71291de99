"""Equal slots of an on-chip buffer, filled with blocks of DRAM and reused in turn."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from vta_stages.schedule import Group


@dataclass(slots=True, eq=False)
class Slot:
    """A piece of a buffer. ``loaded`` filled it, ``used`` is the last compute group to read it."""

    base: int
    key: Hashable = None
    loaded: Group | None = None
    used: Group | None = None
    turn: int = 0


class SlotRing:
    """Keeps the most recently used blocks on chip.

    slot, hit = ring.take(key)      # hit: the block is there already
    """

    def __init__(self, slot_elements: int, count: int, used: Group | None, base: int = 0) -> None:
        self._slots = [Slot(base + index * slot_elements, used=used) for index in range(count)]
        self._by_key: dict[Hashable, Slot] = {}
        self._turn = 0

    def take(self, key: Hashable) -> tuple[Slot, bool]:
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
        return slot, False
