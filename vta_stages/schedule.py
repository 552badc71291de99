"""Which instruction waits for which: groups of instructions in three queues, and their tokens.

The three modules run concurrently, each in order, and hand each other tokens that carry no name. As
both ends of a token queue work in order, the k-th token pushed is the k-th popped; so a group that
must wait for group ``g`` of a neighbour needs a token only if no earlier group of its own queue has
waited for ``g`` or a later one. That gives the fewest tokens, and none is left over at the end.

A group only waits for groups that come before it in the program. In-order fetch can therefore never
block on a full command queue while something it has yet to fetch is waited for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from vta_stages.codec import InstructionBuffer
from vta_stages.isa import Module, Token


@dataclass(slots=True, eq=False)
class Group:
    """Consecutive instructions ``first .. last`` of one module; ``index`` counts its groups."""

    module: Module
    index: int
    first: int
    last: int = -1


_PUSH = {(Module.LOAD, Module.COMPUTE): (Token.PUSH_NEXT, Token.POP_PREV),
         (Module.COMPUTE, Module.LOAD): (Token.PUSH_PREV, Token.POP_NEXT),
         (Module.COMPUTE, Module.STORE): (Token.PUSH_NEXT, Token.POP_PREV),
         (Module.STORE, Module.COMPUTE): (Token.PUSH_PREV, Token.POP_NEXT)}  # fmt: skip
"""(producer, consumer) of a token: the flags on the producer's and on the consumer's side."""


class Schedule:
    """Appends groups to an instruction buffer and orders them with tokens.

    with schedule.group(Module.LOAD, after=[last_reader]) as loaded:
        schedule.buffer.load(...)
    """

    def __init__(self, buffer: InstructionBuffer) -> None:
        self.buffer = buffer
        self._last: dict[Module, Group | None] = dict.fromkeys(Module)
        self._counts = dict.fromkeys(Module, 0)
        self._waited = dict.fromkeys(_PUSH, -1)

    def last(self, module: Module) -> Group | None:
        """Return the newest group of a module; all that came before it is done when it is."""
        return self._last[module]

    @contextmanager
    def group(self, module: Module, after: Sequence[Group | None] = ()) -> Iterator[Group]:
        """Make a group of the instructions appended inside, at least one.

        It starts when every group of ``after`` is done; groups of the same module are in order
        anyway, other modules must be neighbours.
        """
        group = Group(module, self._counts[module], len(self.buffer))
        yield group
        group.last = len(self.buffer) - 1
        if group.last < group.first:
            raise AssertionError(f"empty {module.name} group")
        self._counts[module] += 1
        self._last[module] = group
        for producer in Module:
            newest = max(
                (g for g in after if g is not None and g.module is producer),
                key=lambda g: g.index,
                default=None,
            )
            if newest is not None and producer is not module:
                self._wait(group, newest)

    def _wait(self, group: Group, on: Group) -> None:
        edge = (on.module, group.module)
        if on.index <= self._waited[edge]:
            return
        self._waited[edge] = on.index
        push, pop = _PUSH[edge]
        self.buffer.add_tokens(on.last, push)
        self.buffer.add_tokens(group.first, pop)
