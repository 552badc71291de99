"""The order in which a search decides a table's rows, and what it must remember of earlier ones.

A row's stage follows from the latest stage among its inputs. Rows that the same later rows read
therefore need only one number in common: the latest of their stages.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgepipe.partition.search.table import CostTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A row's turn.

    ``reads`` are the remembered numbers that it reads. ``merges`` says how the numbers to remember
    from then on come about: each is the maximum of these, of which ``len(before)`` is the new row.
    ``crossings`` are remembered numbers of single rows that no row before read, with the bytes that
    this one reads of each: only for these it is certain that the stage alone makes them.
    """

    row: int
    reads: tuple[int, ...]
    merges: tuple[tuple[int, ...], ...]
    crossings: tuple[tuple[int, int], ...] = ()


def walk(table: CostTable) -> tuple[Step, ...]:
    """Return the steps of a table, one for each row in order."""
    readers: list[set[int]] = [set() for _ in table.rows]
    for number, row in enumerate(table.rows):
        for source in row.inputs:
            readers[source].add(number)
    steps = []
    remembered: list[frozenset[int]] = []  # the rows that are still to read each number
    lone: list[int | None] = []  # the row of each number, None if it is of several
    for number, row in enumerate(table.rows):
        reads = tuple(at for at, later in enumerate(remembered) if number in later)
        groups: dict[frozenset[int], list[int]] = {}
        for at, later in enumerate([*remembered, frozenset(readers[number])]):
            left = later - {number}
            if left:
                groups.setdefault(left, []).append(at)
        sizes = dict(zip(row.inputs, row.input_bytes, strict=False))
        crossings = tuple(
            (at, sizes[source])
            for at, source in enumerate(lone)
            if source is not None and sizes.get(source) and min(readers[source]) == number
        )
        steps.append(
            Step(
                row=number,
                reads=reads,
                merges=tuple(map(tuple, groups.values())),
                crossings=crossings,
            )
        )
        sources = [*lone, number]
        lone = [sources[group[0]] if len(group) == 1 else None for group in groups.values()]
        remembered = list(groups)
    return tuple(steps)
