"""An order in which the three modules can run a program, and the guarantees of that order.

The fetch unit moves instructions in program order to one bounded queue per module. Each module runs
its queue in order: pop tokens, execute, push tokens. The outcome of such a network does not depend
on timing, so one simulation decides whether the hardware can deadlock. Only tokens order
instructions of different modules: the n-th pop of a token queue waits for its n-th push.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vta_stages.errors import VerificationError
from vta_stages.isa.codec import InstructionTable
from vta_stages.isa.instructions import Module, Token

Fault = Callable[[int, str], VerificationError]
"""Returns the error for an instruction, given its index and the broken rule."""

Clock = tuple[int, int, int]
"""How many instructions of each module have certainly ended."""

# The module at the other end of a token, as a step along load, compute, store.
_TOWARDS = {Token.POP_PREV: -1, Token.POP_NEXT: 1, Token.PUSH_PREV: -1, Token.PUSH_NEXT: 1}
_POPS = (Token.POP_PREV, Token.POP_NEXT)
_PUSHES = (Token.PUSH_PREV, Token.PUSH_NEXT)


@dataclass(frozen=True)
class Ordering:
    """One possible order of a program's instructions, and what holds in every order.

    ``sequence`` is int64[n], the instructions in that order. ``clocks`` is int32[n, 3]: before
    instruction i starts, the first ``clocks[i, m]`` instructions of module m have certainly ended.
    ``places`` is int32[n], the position of instruction i in the queue of its module.
    """

    sequence: NDArray[np.int64]
    clocks: NDArray[np.int32]
    places: NDArray[np.int32]


@dataclass(slots=True)
class _Queues:
    """The state of the machine: commands and tokens in flight."""

    commands: list[deque[int]]
    tokens: dict[tuple[Module, Module], deque[Clock]]


def _peer(module: Module, token: Token) -> Module:
    return Module(module + _TOWARDS[token])


def check_tokens(table: InstructionTable, fault: Fault) -> None:
    """Check that tokens use existing queues and that each queue has as many pushes as pops.

    Raises the error that ``fault`` returns.
    """
    modules, tokens = table.modules, table.tokens
    for module, impossible in (
        (Module.LOAD, Token.POP_PREV | Token.PUSH_PREV),
        (Module.STORE, Token.POP_NEXT | Token.PUSH_NEXT),
    ):
        bad = np.flatnonzero((modules == module) & ((tokens & impossible) != 0))
        if len(bad):
            side = "before" if module is Module.LOAD else "after"
            raise fault(
                int(bad[0]),
                f"uses a token queue to a module {side} {module.name}, which does not exist",
            )
    for producer in Module:
        for push in _PUSHES:
            if not Module.LOAD <= producer + _TOWARDS[push] <= Module.STORE:
                continue
            consumer = _peer(producer, push)
            pop = Token.POP_PREV if consumer > producer else Token.POP_NEXT
            pushes = np.flatnonzero((modules == producer) & ((tokens & push) != 0))
            pops = np.flatnonzero((modules == consumer) & ((tokens & pop) != 0))
            if len(pushes) != len(pops):
                longer = pushes if len(pushes) > len(pops) else pops
                raise fault(
                    int(longer[min(len(pushes), len(pops))]),
                    f"token queue {producer.name} to {consumer.name} has {len(pushes)} pushes "
                    f"and {len(pops)} pops, expected equal numbers",
                )


def order_instructions(table: InstructionTable, fault: Fault) -> Ordering:
    """Simulate the queues of a program that :func:`check_tokens` accepts.

    Raises the error that ``fault`` returns if the modules deadlock.
    """
    accelerator = table.accelerator
    modules: list[int] = table.modules.tolist()
    flags: list[int] = table.tokens.tolist()
    count = len(modules)
    queues = _Queues(
        commands=[deque() for _ in Module],
        tokens={(a, b): deque() for a in Module for b in Module if abs(a - b) == 1},
    )
    ends = _ends(queues)
    clocks = [[0, 0, 0] for _ in Module]
    sequence: list[int] = []
    found: list[Clock] = [(0, 0, 0)] * count
    places = [0] * count
    depths = [accelerator.load_commands, *(2 * [accelerator.command_queue_depth])]
    fetched = 0
    while len(sequence) < count:
        before = (len(sequence), fetched)
        while fetched < count:
            commands = queues.commands[modules[fetched]]
            if len(commands) >= depths[modules[fetched]]:
                break
            commands.append(fetched)
            fetched += 1
        for module in Module:
            commands, clock = queues.commands[module], clocks[module]
            while commands:
                index = commands[0]
                pops, pushes = ends[module][flags[index]]
                if not all(pops) or any(
                    len(queue) >= accelerator.token_queue_depth for queue in pushes
                ):
                    break
                commands.popleft()
                for queue in pops:
                    clock = [max(pair) for pair in zip(clock, queue.popleft(), strict=True)]
                found[index] = (clock[0], clock[1], clock[2])
                places[index] = clock[module]
                clock[module] += 1
                for queue in pushes:
                    queue.append((clock[0], clock[1], clock[2]))
                sequence.append(index)
            clocks[module] = clock
        if before == (len(sequence), fetched):
            raise _deadlock(table, queues, fetched, fault)
    return Ordering(
        np.array(sequence, np.int64),
        np.array(found, np.int32).reshape(-1, 3),
        np.array(places, np.int32),
    )


def _ends(queues: _Queues) -> list[list[tuple[list[deque[Clock]], list[deque[Clock]]]]]:
    """Return the queues to pop from and to push to, by module and set of tokens."""
    table = []
    for module in Module:
        rows = []
        for flags in range(16):
            named = {t: module + _TOWARDS[t] for t in Token if flags & t}
            valid = {t: Module(m) for t, m in named.items() if Module.LOAD <= m <= Module.STORE}
            rows.append(
                (
                    [queues.tokens[(valid[t], module)] for t in _POPS if t in valid],
                    [queues.tokens[(module, valid[t])] for t in _PUSHES if t in valid],
                )
            )
        table.append(rows)
    return table


def _deadlock(
    table: InstructionTable, queues: _Queues, fetched: int, fault: Fault
) -> VerificationError:
    waits = []
    for module in Module:
        if not queues.commands[module]:
            waits.append(f"{module.name} has no instruction")
            continue
        index = queues.commands[module][0]
        flags = int(table.tokens[index])
        empty = [
            f"a token from {_peer(module, t).name}"
            for t in _POPS
            if flags & t and not queues.tokens[(_peer(module, t), module)]
        ]
        full = [
            f"room for a token to {_peer(module, t).name}"
            for t in _PUSHES
            if flags & t
            and len(queues.tokens[(module, _peer(module, t))])
            >= table.accelerator.token_queue_depth
        ]
        waits.append(f"{module.name} waits at {index} for {' and '.join(empty + full)}")
    if fetched < len(table):
        full_module = Module(int(table.modules[fetched])).name
        waits.append(f"fetch waits at {fetched} for room in the queue of {full_module}")
    stuck = next(commands[0] for commands in queues.commands if commands)
    return fault(stuck, f"deadlock: {'; '.join(waits)}")
