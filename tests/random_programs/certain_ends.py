"""What has certainly ended when an instruction begins: by tokens, and by queues that are bounded.

Tokens are not all that orders the instructions of two modules. Fetch hands them out in the order of
the program and waits for room in a module's queue, which a LOAD leaves when it begins, and others
when they have pushed their tokens. A module that pushes a token waits for room in the queue of
tokens. What no token orders, but one of these does, has one order only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from vta_stages.isa.codec import InstructionTable
from vta_stages.isa.instructions import MemoryType, Module, Opcode, Token
from vta_stages.verification.ordering import order_instructions

UNITS = ("inputs", "weights", "compute", "store")
"""What runs one instruction at a time. LOADs of weights run beside those of inputs."""

Known = NDArray[np.int32]
"""int32[2, units]: how many instructions of each unit have certainly begun, and have ended."""

_TOWARDS = {Token.POP_PREV: -1, Token.POP_NEXT: 1, Token.PUSH_PREV: -1, Token.PUSH_NEXT: 1}
_POPS = (Token.POP_PREV, Token.POP_NEXT)
_BEGUN, _ENDED = 0, 1


@dataclass
class _Tokens:
    """A queue of tokens: what is known where each was pushed, and where each was popped."""

    pushed: list[Known] = field(default_factory=list)
    popped: list[Known] = field(default_factory=list)


@dataclass(frozen=True)
class CertainEnds:
    """What holds whatever the timing.

    ``units`` is int64[n], the unit of each instruction, and ``places`` int64[n] its place among
    those of the unit. Before instruction i begins, the first ``ended[i, u]`` (int32[n, units]) of
    unit u have certainly ended.
    """

    units: NDArray[np.int64]
    places: NDArray[np.int64]
    ended: NDArray[np.int32]

    def before(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return of pairs whether the first has always ended when the second begins."""
        return np.asarray(self.ended[second, self.units[first]] > self.places[first])


def _units(table: InstructionTable) -> NDArray[np.int64]:
    units = table.modules.astype(np.int64) + 1
    units[table.modules == Module.LOAD] = UNITS.index("inputs")
    loads = table.positions[Opcode.LOAD]
    weights = table.columns[Opcode.LOAD]["memory_type"] == MemoryType.WGT
    units[loads[weights]] = UNITS.index("weights")
    return units


def _refuse(index: int, what: str) -> NoReturn:
    raise AssertionError(f"instruction {index}: {what}")


def certain_ends(table: InstructionTable) -> CertainEnds:
    """Return what has certainly ended when each instruction of a valid program begins."""
    accelerator = table.accelerator
    units = _units(table)
    places = np.zeros(len(table), np.int64)
    for unit in range(len(UNITS)):
        places[units == unit] = np.arange(np.count_nonzero(units == unit))
    depths = [accelerator.load_commands, *(2 * [accelerator.command_queue_depth])]
    tokens = {(a, b): _Tokens() for a in Module for b in Module if abs(a - b) == 1}
    left: dict[int, list[Known]] = {module: [] for module in Module}  # its queue, in order
    handed_out: list[Known] = []
    numbers = dict.fromkeys(map(int, Module), 0)  # of the next instruction in each module's queue
    ends = {unit: _nothing() for unit in range(len(UNITS))}  # of the last that has begun
    ended = np.zeros((len(table), len(UNITS)), np.int32)

    for index in order_instructions(table, _refuse).sequence.tolist():
        while len(handed_out) <= index:
            module = int(table.modules[len(handed_out)])
            known = handed_out[-1] if handed_out else _nothing()
            if numbers[module] >= depths[module]:  # it waited until that one had left the queue
                known = np.maximum(known, left[module][numbers[module] - depths[module]])
            handed_out.append(known)
            numbers[module] += 1

        module, unit = int(table.modules[index]), int(units[index])
        pops, pushes = _queues(tokens, module, int(table.tokens[index]))
        # The first of its queue pops each token as soon as it is there.
        is_first = handed_out[index]
        if left[module]:
            is_first = np.maximum(is_first, left[module][-1])
        known = np.maximum(is_first, ends[unit])
        for queue in pops:
            popped = np.maximum(is_first, queue.pushed[len(queue.popped)])
            queue.popped.append(popped)
            known = np.maximum(known, popped)
        known[_BEGUN, unit] = places[index] + 1
        known[_ENDED] = np.maximum(known[_ENDED], known[_BEGUN] - 1)
        ended[index] = known[_ENDED]

        end = known.copy()
        end[_ENDED, unit] = places[index] + 1
        ends[unit] = end
        if module == Module.LOAD:  # tokens are pushed in the order of the program
            end = np.maximum(ends[UNITS.index("inputs")], ends[UNITS.index("weights")])
        after = end
        for queue in pushes:  # each as soon as there is room in its queue
            pushed = end
            if len(queue.pushed) >= accelerator.token_queue_depth:
                room = queue.popped[len(queue.pushed) - accelerator.token_queue_depth]
                pushed = np.maximum(end, room)
            queue.pushed.append(pushed)
            after = np.maximum(after, pushed)
        left[module].append(known if module == Module.LOAD else after)
    return CertainEnds(units=units, places=places, ended=ended)


def _nothing() -> Known:
    return np.zeros((2, len(UNITS)), np.int32)


def _queues(
    tokens: dict[tuple[Module, Module], _Tokens], module: int, flags: int
) -> tuple[list[_Tokens], list[_Tokens]]:
    """Return the queues from which an instruction pops tokens, and those to which it pushes."""
    named = [token for token in Token if flags & token]
    others = {token: Module(module + _TOWARDS[token]) for token in named}
    pops = [tokens[other, Module(module)] for token, other in others.items() if token in _POPS]
    pushes = [tokens[Module(module), o] for token, o in others.items() if token not in _POPS]
    return pops, pushes
