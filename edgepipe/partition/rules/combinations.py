"""Placements that devices refuse because of operators together, and what moves to mend them."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

from edgepipe.errors import PartitionError
from edgepipe.partition.choices import DEVICES
from edgepipe.partition.operator import Operator
from edgepipe.partition.rules.book import RuleBook


@dataclass(frozen=True, slots=True, kw_only=True)
class _Conflict:
    """Operators that ``device`` cannot run as they are placed, and why."""

    operators: tuple[Operator, ...]
    device: str
    why: str


def moved(
    book: RuleBook,
    operators: Sequence[Operator],
    devices: Mapping[str, str],
    pinned: Container[str],
    can: Callable[[Operator, str], bool],
) -> dict[str, tuple[str, str]]:
    """Return the operators that must leave their device, with their new one and the reason.

    ``devices`` are the devices of all operators by name; ``pinned`` must stay. Of operators that a
    device cannot run together, the last one that may go elsewhere moves, and none moves twice.
    Raises ``PartitionError`` if none may.
    """
    placed, found = dict(devices), dict[str, tuple[str, str]]()
    if not book.has_patterns():
        return found
    while (conflict := _conflict(book, operators, placed)) is not None:
        other = next(device for device in DEVICES if device != conflict.device)
        free = [
            operator
            for operator in reversed(conflict.operators)
            if operator.name not in pinned and operator.name not in found and can(operator, other)
        ]
        if not free:
            raise _refused(conflict, other)
        found[free[0].name] = (other, conflict.why)
        placed[free[0].name] = other
    return found


def _conflict(
    book: RuleBook, operators: Sequence[Operator], placed: Mapping[str, str]
) -> _Conflict | None:
    for device in DEVICES:
        there = {name for name, where in placed.items() if where == device}
        for operator in operators:
            if operator.name in there and (why := book.missing_chain(operator, device, there)):
                return _Conflict(operators=(operator,), device=device, why=why)
        for chain, why in book.refused_chains(device):
            if all(operator.name in there for operator in chain):
                return _Conflict(operators=chain, device=device, why=why)
    return None


def _refused(conflict: _Conflict, other: str) -> PartitionError:
    names = [operator.name for operator in conflict.operators]
    together = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    what = "cannot be placed together on" if len(names) > 1 else "cannot be placed on"
    return PartitionError(
        f"{together}: {what} {conflict.device}: {conflict.why}",
        hint=f"place {'one of them' if len(names) > 1 else 'it'} on {other}",
        option="placement",
        value=f"{names[-1]}={other}",
    )
