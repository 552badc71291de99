"""What every operator of a network costs on either device: all that the search looks at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat

from edgepipe.boards import Board
from edgepipe.errors import LayerError
from edgepipe.partition.measured.costs import MeasuredCosts
from edgepipe.partition.operator import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An operator, or several that always run in one stage.

    ``inputs`` are the numbers of earlier rows that it reads, and ``input_bytes`` what it reads of
    each; empty if that costs nothing. ``result_bytes`` are those of a tensor that no row reads.
    ``arm_ms`` is its time on one core and ``vta_ms`` that on the accelerator, without hops,
    launches and the maintenance of caches; None if it cannot run there.
    """

    name: str
    inputs: tuple[int, ...]
    arm_ms: float | None
    vta_ms: float | None
    input_bytes: tuple[int, ...] = ()
    result_bytes: int = 0

    @property
    def is_free(self) -> bool:
        """Whether it may run on either device."""
        return self.arm_ms is not None and self.vta_ms is not None


@dataclass(frozen=True, kw_only=True)
class CostTable:
    """The rows of a network in topological order, and the board with the costs of hops."""

    rows: tuple[Row, ...]
    board: Board

    @cached_property
    def inputs(self) -> tuple[tuple[int, ...], ...]:
        """The inputs of each row."""
        return tuple(row.inputs for row in self.rows)

    @cached_property
    def device_ms(self) -> tuple[tuple[float | None, float | None], ...]:
        """What each row takes on ARM and on the accelerator."""
        return tuple((row.arm_ms, row.vta_ms) for row in self.rows)

    @cached_property
    def crossings(self) -> tuple[tuple[int, int, int], ...]:
        """What rows read of others that costs something between devices: reader, source, bytes."""
        return tuple(
            (number, source, size)
            for number, row in enumerate(self.rows)
            for source, size in zip(row.inputs, row.input_bytes, strict=False)
        )

    @cached_property
    def results(self) -> tuple[tuple[int, int], ...]:
        """The rows that make results that cost something, with their bytes."""
        return tuple((n, row.result_bytes) for n, row in enumerate(self.rows) if row.result_bytes)

    @property
    def hop_ms(self) -> float:
        """The time to wake a stage's thread, in ms."""
        return self.board.arm_timing.handover_us / 1e3

    @property
    def launch_ms(self) -> float:
        """The time to start a program of the accelerator, in ms."""
        return self.board.vta_stage_ms(0)

    @property
    def border_byte_ms(self) -> float:
        """The time to maintain caches for a byte of a tensor between the devices, in ms."""
        return self.board.vta_ms(self.board.timing.cache_kib_cycles / 1024)


Placement = tuple[bool, ...]
"""For every row of a table, whether it runs on the accelerator."""


def cost_table(
    operators: Sequence[Operator],
    check: Callable[[Operator], None],
    cycles: Mapping[str, float],
    board: Board,
    fixed: Mapping[str, str],
    measured: MeasuredCosts | None = None,
    tensor_bytes: Mapping[str, int] | None = None,
) -> CostTable:
    """Return the costs of ``operators``, which are in topological order.

    ``check`` raises ``LayerError`` for those that the VTA cannot run, and fills ``cycles`` with
    those of the others on the VTA. ``fixed`` are the devices of operators that are settled.
    ``measured`` costs take the place of the model's. ``tensor_bytes`` are those between stages.
    """
    tensor_bytes = tensor_bytes or {}
    read = {name for operator in operators for name in operator.inputs}
    measured = measured or MeasuredCosts(board=board)
    number = {operator.output: index for index, operator in enumerate(operators)}
    tuples = {o.output for o in operators if o.bindings and o.bindings[-1].dtype == "tuple"}
    rows = []
    for operator in operators:
        arm_ms: float | None = measured.operator_ms(operator)
        vta_ms = None
        try:
            check(operator)
        except LayerError:
            pass
        else:
            found = measured.cycles(operator.name, cycles[operator.name])
            vta_ms = board.vta_ms(found)
        wish = fixed.get(operator.name)
        # A tuple cannot leave its stage, and its maker runs on ARM.
        if wish == "arm" or not tuples.isdisjoint(operator.inputs):
            vta_ms = None
        elif wish == "vta" and vta_ms is not None:
            arm_ms = None
        reads = tuple(dict.fromkeys(number[name] for name in operator.inputs if name in number))
        rows.append(
            Row(
                name=operator.name,
                inputs=reads,
                arm_ms=arm_ms,
                vta_ms=vta_ms,
                input_bytes=tuple(tensor_bytes.get(operators[n].output, 0) for n in reads),
                result_bytes=0 if operator.output in read else tensor_bytes.get(operator.output, 0),
            )
        )
    return CostTable(rows=tuple(rows), board=board)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contracted:
    """A table whose rows can be several rows of another one: ``groups`` has their numbers."""

    table: CostTable
    groups: tuple[tuple[int, ...], ...]

    def expand(self, placement: Placement) -> Placement:
        """Return the placement of the other table's rows."""
        found = {row: on for on, group in zip(placement, self.groups, strict=True) for row in group}
        return tuple(found[row] for row in range(len(found)))

    def contract(self, placement: Placement) -> Placement:
        """Return the placement of this table's rows, given that of the other table's."""
        return tuple(placement[group[0]] for group in self.groups)


def contracted(table: CostTable) -> Contracted:
    """Return the table with rows of one device joined to the only row that they read.

    They can be in no other stage than that row, so this changes no estimate, except that caches can
    seem to cost less: of what several rows read of one, only the most counts.
    """
    groups: list[list[int]] = []
    group_of: list[int] = []
    for number, row in enumerate(table.rows):
        read = {group_of[each] for each in row.inputs}
        if len(read) == 1 and not row.is_free:
            (group,) = read
            first = table.rows[groups[group][0]]
            if not first.is_free and (first.vta_ms is None) == (row.vta_ms is None):
                groups[group].append(number)
                group_of.append(group)
                continue
        groups.append([number])
        group_of.append(len(groups) - 1)
    rows = []
    for members in groups:
        parts = [table.rows[each] for each in members]
        number = group_of[members[0]]
        tensors: dict[int, dict[int, int]] = {}  # by the group that makes them, and by their row
        for part in parts:
            for at, size in zip(part.inputs, part.input_bytes or repeat(0), strict=False):
                tensors.setdefault(group_of[at], {})[at] = size
        tensors.pop(number, None)
        rows.append(
            Row(
                name=parts[0].name,
                inputs=tuple(tensors),
                input_bytes=tuple(sum(sizes.values()) for sizes in tensors.values()),
                result_bytes=sum(part.result_bytes for part in parts),
                arm_ms=_sum([part.arm_ms for part in parts]),
                vta_ms=_sum([part.vta_ms for part in parts]),
            )
        )
    return Contracted(
        table=CostTable(rows=tuple(rows), board=table.board),
        groups=tuple(map(tuple, groups)),
    )


def _sum(times: Sequence[float | None]) -> float | None:
    known = [ms for ms in times if ms is not None]
    return sum(known) if len(known) == len(times) else None
