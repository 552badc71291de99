"""Order instructions: groups in three queues, and the tokens that they wait for.

A group declares which buffer elements it touches. It then waits for the latest group of the other
module at that buffer, writer or reader, that touched any of them. Nothing else orders layers, so
loads for a layer start during the layer before it, wherever there is room.

The three modules run concurrently, each in order, and exchange anonymous tokens. Both ends of a
token queue work in order, so the k-th token pushed is the k-th popped. A group that must wait for
group ``g`` of a neighbour therefore needs a token only if no earlier group of its own queue has
waited for ``g`` or a later group. This gives the fewest tokens, and none is left at the end.

A group only waits for groups that precede it in the program. In-order fetch can therefore never
block on a full command queue while a module waits for an instruction that is not fetched yet.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from vta_stages.isa.instruction_buffer import InstructionBuffer
from vta_stages.isa.instructions import MemoryType, Module, Token, buffer_depth


@dataclass(slots=True, eq=False)
class Group:
    """Consecutive instructions ``first .. last`` of a module; ``index`` counts its groups."""

    module: Module
    index: int
    first: int
    last: int = -1


@dataclass(frozen=True, slots=True)
class Extent:
    """The elements ``first .. first + count - 1`` of a buffer that two modules share."""

    memory: MemoryType
    first: int
    count: int

    @property
    def elements(self) -> slice:
        """The elements as an index of an array."""
        return slice(self.first, self.first + self.count)


_SHARED_BY = {
    MemoryType.INP: (Module.LOAD, Module.COMPUTE),
    MemoryType.WGT: (Module.LOAD, Module.COMPUTE),
    MemoryType.OUT: (Module.COMPUTE, Module.STORE),
}
"""The module that writes a buffer and the module that reads it."""

_PUSH = {(Module.LOAD, Module.COMPUTE): (Token.PUSH_NEXT, Token.POP_PREV),
         (Module.COMPUTE, Module.LOAD): (Token.PUSH_PREV, Token.POP_NEXT),
         (Module.COMPUTE, Module.STORE): (Token.PUSH_NEXT, Token.POP_PREV),
         (Module.STORE, Module.COMPUTE): (Token.PUSH_PREV, Token.POP_NEXT)}  # fmt: skip
"""(producer, consumer) of a token: the flag of the producer and the flag of the consumer."""


class Schedule:
    """Appends groups to an instruction buffer and orders them with tokens.

    with schedule.group(Module.LOAD, Extent(MemoryType.WGT, 0, 64)):
        schedule.buffer.load(...)
    """

    def __init__(self, buffer: InstructionBuffer) -> None:
        self.buffer = buffer
        self._groups: dict[Module, list[Group]] = {module: [] for module in Module}
        self._waited = dict.fromkeys(_PUSH, -1)
        self._behind_stores: list[tuple[int, Group]] = []
        # The index of the module's latest group that touched each element, -1 for none.
        self._touched = {
            (memory, module): np.full(buffer_depth(buffer.accelerator, memory), -1, np.int64)
            for memory, modules in _SHARED_BY.items()
            for module in modules
        }

    def last(self, module: Module) -> Group | None:
        """Return the latest group of a module; when it is done, so are all before it."""
        return self._groups[module][-1] if self._groups[module] else None

    def group_at(self, module: Module, index: int) -> Group:
        """Return a module's group number ``index``."""
        return self._groups[module][index]

    def last_reader(self, extent: Extent) -> int:
        """Return the index of the latest group that reads any of the elements, -1 for none."""
        _, reader = _SHARED_BY[extent.memory]
        return int(self._touched[extent.memory, reader][extent.elements].max(initial=-1))

    def behind_store(self, index: int) -> Group | None:
        """Return the first compute group that starts after store group ``index`` is done."""
        at = bisect.bisect_left(self._behind_stores, index, key=lambda known: known[0])
        return self._behind_stores[at][1] if at < len(self._behind_stores) else None

    @contextmanager
    def group(
        self, module: Module, *touched: Extent, after: Sequence[Group | None] = ()
    ) -> Iterator[Group]:
        """Make a group of the instructions appended inside the block, at least one.

        The group starts after every group of ``after`` and after the earlier users of the touched
        elements. Groups of the same module run in order anyway; other modules must be neighbours.
        """
        group = Group(module, len(self._groups[module]), len(self.buffer))
        before = [*after, *(self._user(module, extent) for extent in touched)]
        yield group
        group.last = len(self.buffer) - 1
        if group.last < group.first:
            raise AssertionError(f"empty {module.name} group")
        self._groups[module].append(group)
        for extent in touched:
            self._touched[extent.memory, module][extent.elements] = group.index
        for producer in Module:
            newest = max(
                (g for g in before if g is not None and g.module is producer),
                key=lambda g: g.index,
                default=None,
            )
            if newest is not None and producer is not module:
                self._wait(group, newest)

    def _user(self, module: Module, extent: Extent) -> Group | None:
        """Return the latest group of the other module at a buffer that touched the elements."""
        writer, reader = _SHARED_BY[extent.memory]
        other = writer if module is reader else reader
        index = int(self._touched[extent.memory, other][extent.elements].max(initial=-1))
        return self._groups[other][index] if index >= 0 else None

    def _wait(self, group: Group, on: Group) -> None:
        edge = (on.module, group.module)
        if on.index <= self._waited[edge]:
            return
        self._waited[edge] = on.index
        push, pop = _PUSH[edge]
        self.buffer.add_tokens(on.last, push)
        self.buffer.add_tokens(self._first_dependent(group), pop)
        if edge == (Module.STORE, Module.COMPUTE):
            self._behind_stores.append((on.index, group))

    def _first_dependent(self, group: Group) -> int:
        """Return the first instruction that touches something that other modules touch too."""
        for index in range(group.first, group.last):
            if not self.buffer.is_load_of_compute(index):
                return index
        return group.last
