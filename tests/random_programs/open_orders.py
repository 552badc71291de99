"""Which transfers of a program ran in both orders that its tokens and queues leave open."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vta_rtl.verilated.device import Transfers
from vta_stages.isa.codec import Column, InstructionTable
from vta_stages.isa.instructions import SINGLE_ROW, MemoryType, Opcode, element_bytes

from .certain_ends import UNITS, certain_ends
from .program import RandomProgram


@dataclass(frozen=True)
class Hold:
    """A transfer to hold: its instruction, and its first burst among those of its master.

    ``port`` is the place of the master in :data:`~vta_rtl.isa.names.MASTERS`.
    """

    transfer: int
    port: int
    burst: int


class OpenOrders:
    """The pairs of transfers of two modules without a certain order, and what is seen of them.

    A transfer is all bursts of a LOAD or STORE. It is before another one if memory has been read or
    written for the last time for it before the first time for the other.
    """

    def __init__(self, program: RandomProgram, bus_bytes: int) -> None:
        table = program.table
        modules = table.modules.astype(np.int64)
        beats = _beats(program, table, bus_bytes)
        certain = certain_ends(table)
        # By unit, each with a master: the numbers of its transfers, the beats after which each has
        # ended.
        self._of = {
            unit: np.flatnonzero((certain.units == unit) & (beats > 0))
            for unit in range(len(UNITS))
        }
        self._ends = {m: np.cumsum(beats[of]) for m, of in self._of.items()}
        moved = np.flatnonzero(beats > 0)
        first, second = (grid.ravel() for grid in np.meshgrid(moved, moved, indexing="ij"))
        of_two_modules = modules[first] < modules[second]
        first, second = first[of_two_modules], second[of_two_modules]
        forwards, backwards = certain.before(first, second), certain.before(second, first)
        self._first, self._second = first, second
        self._is_open = ~(forwards | backwards)
        self._only_forwards, self._only_backwards = forwards, backwards
        self._forwards = np.zeros(len(first), np.bool_)
        self._backwards = np.zeros(len(first), np.bool_)
        self._began = 0
        self._held = np.zeros(len(table), np.bool_)
        self._units = certain.units
        self._bursts = np.zeros(len(table), np.int64)
        self._begins = np.zeros(len(table), np.int64)
        self._finishes = np.zeros(len(table), np.int64)

    @property
    def pairs(self) -> int:
        """How many pairs have no certain order."""
        return int(self._is_open.sum())

    @property
    def seen_both_ways(self) -> int:
        """How many of them have run in both orders."""
        return int((self._is_open & self._forwards & self._backwards).sum())

    @property
    def of_one_order(self) -> int:
        """How many of them have only one order, as far as holding the first transfer can show.

        Everything else ran while it was held, and the second one was not part of that.
        """
        only_forwards = self._held[self._first] & ~self._backwards
        only_backwards = self._held[self._second] & ~self._forwards
        return int((self._is_open & (only_forwards | only_backwards)).sum())

    def next_hold(self) -> Hold | None:
        """Return a transfer that was before another one in all runs, and has not been held yet.

        There must have been a run.
        """
        to_hold = np.concatenate(
            [
                self._first[self._is_open & ~self._backwards],
                self._second[self._is_open & ~self._forwards],
            ]
        )
        to_hold = to_hold[~self._held[to_hold]]
        if not len(to_hold):
            return None
        transfer = int(to_hold.min())
        port, burst = int(self._units[transfer]) + 1, int(self._bursts[transfer])
        return Hold(transfer, port, burst)

    def has_held(self, transfer: int, cycles: int) -> None:
        """Note that the last run that was seen held a transfer for so long, which it must have."""
        assert self._begins[transfer] - self._began >= cycles, f"transfer {transfer} was not held"
        self._held[transfer] = True

    def see(self, transfers: Transfers) -> str:
        """Note the order in which a run's transfers happened.

        Return "", or which transfers were in an order that cannot be.
        """
        self._began = int(transfers.first_cycle.min())
        for unit, numbers in self._of.items():
            chosen = transfers.port == unit + 1  # that of fetch is the first
            ends = np.cumsum(transfers.beats[chosen])
            expected = self._ends[unit]
            assert (int(ends[-1]) if len(ends) else 0) == (expected[-1] if len(expected) else 0)
            last = np.searchsorted(ends, expected)
            first = np.concatenate([[0], last[:-1] + 1]).astype(np.int64)[: len(last)]
            self._bursts[numbers] = first
            self._begins[numbers] = transfers.first_cycle[chosen][first]
            self._finishes[numbers] = transfers.last_cycle[chosen][last]
        forwards = self._finishes[self._first] < self._begins[self._second]
        backwards = self._finishes[self._second] < self._begins[self._first]
        for seen, other in ((forwards, self._only_backwards), (backwards, self._only_forwards)):
            wrong = np.flatnonzero(seen & other)
            if len(wrong):
                first, second = self._first[wrong[0]], self._second[wrong[0]]
                return f"transfers {first} and {second} in an order that tokens and queues exclude"
        self._forwards |= forwards
        self._backwards |= backwards
        return ""


def _beats(program: RandomProgram, table: InstructionTable, bus_bytes: int) -> NDArray[np.int64]:
    """Return how many beats of the bus each instruction moves."""
    beats = np.zeros(len(table), np.int64)
    for opcode in (Opcode.LOAD, Opcode.STORE):
        columns: dict[str, Column] = dict(table.columns[opcode])
        count = len(table.positions[opcode])
        memory = columns.get("memory_type", np.full(count, MemoryType.OUT, np.int64))
        units = np.array([element_bytes(program.accelerator, m) for m in MemoryType])[memory]
        begin = columns["dram_base"] * units % bus_bytes
        row = -(-(begin + columns["x_size"] * units) // bus_bytes)
        rows = np.where(np.isin(memory, SINGLE_ROW), 1, columns["y_size"])
        beats[table.positions[opcode]] = np.where(columns["x_size"] == 0, 0, row * rows)
    return beats
