"""Tokens for a program that is written instruction by instruction.

The order in which the instructions are written is one in which they can run: nobody waits for a
token that is written later, so the program cannot deadlock, whatever the depths of the queues.
Everything else is left to the modules, except what ``admit`` is asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from vta_stages.isa.instructions import Module, Token

Clock = tuple[int, int, int]
"""How many instructions of load, compute and store have certainly ended."""

NEVER: Clock = (0, 0, 0)


@dataclass(slots=True)
class _Written:
    """The latest instruction of a module: its place in the program, its tokens, and what has ended
    when it has."""

    index: int
    clock: Clock


def _pop(source: Module, module: Module) -> Token:
    return Token.POP_PREV if source < module else Token.POP_NEXT


def _push(module: Module, target: Module) -> Token:
    return Token.PUSH_PREV if target < module else Token.PUSH_NEXT


def neighbours(module: Module) -> list[Module]:
    """Return the modules that exchange tokens with a module."""
    return [other for other in Module if abs(other - module) == 1]


def later(first: Clock, second: Clock) -> Clock:
    """Return what has ended when both clocks are reached."""
    return (
        max(first[0], second[0]),
        max(first[1], second[1]),
        max(first[2], second[2]),
    )


class TokenOrder:
    """The tokens of a program, and what certainly has ended before each of its instructions.

    ``idle`` appends an instruction of a module that does nothing, with tokens. ``eagerness`` is
    how often an instruction pushes or pops a token that nothing asks for, from 0 to 1.

        tokens = order.admit(module, needed)   # may append idle instructions
        order.append(module, tokens)           # the instruction, with these tokens and others
    """

    def __init__(
        self, draw: Random, token_depth: int, eagerness: float, idle: Callable[[Module], None]
    ) -> None:
        self.tokens: list[int] = []
        self._draw = draw
        self._depth = token_depth
        self._eagerness = eagerness
        self._idle = idle
        self._ended: dict[Module, Clock] = dict.fromkeys(Module, NEVER)
        self._count = dict.fromkeys(Module, 0)
        self._latest: dict[Module, _Written] = {}
        pairs = [(a, b) for a in Module for b in neighbours(a)]
        self._queues: dict[tuple[Module, Module], deque[Clock]] = {p: deque() for p in pairs}
        self._last_pop = dict.fromkeys(pairs, -1)

    def stamp(self, module: Module) -> int:
        """Return 1 + the place of the module's next instruction in its queue."""
        return self._count[module] + 1

    def admit(self, module: Module, needed: Clock) -> int:
        """Return tokens with which the module's next instruction starts after ``needed``.

        That of the module itself is ignored: it runs in order. Appends idle instructions if one
        instruction cannot pop or push all tokens that this takes.
        """
        pops = 0
        if module is not Module.COMPUTE:
            beyond = Module(Module.STORE - module)  # tokens from there come through compute
            if self._ended[module][beyond] < needed[beyond]:
                self._pass_on(beyond, needed[beyond])
        for source in neighbours(module):
            while self._lacks(module, source, needed):
                bit = _pop(source, module)
                if pops & bit:
                    self._append_idle(module, pops)
                    pops = 0
                if not self._queues[source, module]:
                    self._ask_for_token(source, module)
                pops |= self._take(source, module)
        return pops

    def append(self, module: Module, tokens: int, *, more: bool = True) -> None:
        """Append an instruction of a module with tokens that :meth:`admit` has returned.

        ``more`` adds random ones. The caller appends the instruction itself.
        """
        for other in neighbours(module):
            if not more:
                break
            pop, push = _pop(other, module), _push(module, other)
            if not tokens & pop and self._queues[other, module] and self._wants():
                tokens |= self._take(other, module)
            if not tokens & push and self._has_room(module, other) and self._wants():
                tokens |= push
        self._count[module] += 1
        after = list(self._ended[module])
        after[module] = self._count[module]
        clock: Clock = (after[0], after[1], after[2])
        self._ended[module] = clock
        self._latest[module] = _Written(len(self.tokens), clock)
        for other in neighbours(module):
            if tokens & _push(module, other):
                self._queues[module, other].append(clock)
        self.tokens.append(tokens)

    def finish(self) -> int:
        """Return the tokens of a FINISH that waits for everything, and leaves no token."""
        for module in (Module.LOAD, Module.STORE):
            while self._queues[Module.COMPUTE, module]:
                self._append_idle(module, self._take(Module.COMPUTE, module))
        ends = (self._count[Module.LOAD], 0, self._count[Module.STORE])
        tokens = self.admit(Module.COMPUTE, ends)
        while any(self._queues[source, Module.COMPUTE] for source in neighbours(Module.COMPUTE)):
            for source in neighbours(Module.COMPUTE):
                bit = _pop(source, Module.COMPUTE)
                if self._queues[source, Module.COMPUTE] and not tokens & bit:
                    tokens |= self._take(source, Module.COMPUTE)
            if any(self._queues[source, Module.COMPUTE] for source in neighbours(Module.COMPUTE)):
                self._append_idle(Module.COMPUTE, tokens)
                tokens = 0
        return tokens

    def _wants(self) -> bool:
        return self._draw.random() < self._eagerness

    def _has_room(self, module: Module, target: Module) -> bool:
        return len(self._queues[module, target]) < self._depth

    def _lacks(self, module: Module, source: Module, needed: Clock) -> bool:
        """Whether a token from ``source`` is still to be popped."""
        ended = self._ended[module]
        through = [source] if module is Module.COMPUTE else [m for m in Module if m is not module]
        return any(ended[other] < needed[other] for other in through)

    def _append_idle(self, module: Module, tokens: int) -> None:
        self._idle(module)
        self.append(module, tokens, more=False)

    def _take(self, source: Module, module: Module) -> int:
        """Pop a token; return its flag."""
        clock = self._queues[source, module].popleft()
        self._ended[module] = later(self._ended[module], clock)
        self._last_pop[source, module] = len(self.tokens)
        return _pop(source, module)

    def _ask_for_token(self, source: Module, module: Module) -> None:
        """Push a token that says that all of ``source`` so far has ended; the queue is empty.

        The latest instruction of ``source`` pushes it, or an idle one if that has such a token or
        if it was written when the queue had one: it might have to wait for room.
        """
        push = _push(source, module)
        latest = self._latest[source]
        if self.tokens[latest.index] & push or self._last_pop[source, module] >= latest.index:
            self._append_idle(source, push)
        else:
            self.tokens[latest.index] |= push
            self._queues[source, module].append(latest.clock)

    def _pass_on(self, beyond: Module, stamp: int) -> None:
        """Let compute wait for the first ``stamp`` instructions of load or store."""
        if self._ended[Module.COMPUTE][beyond] >= stamp:
            return
        needed = [0, 0, 0]
        needed[beyond] = stamp
        tokens = self.admit(Module.COMPUTE, (needed[0], needed[1], needed[2]))
        self._append_idle(Module.COMPUTE, tokens)
