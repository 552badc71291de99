"""Placement: which device each operator runs on, and the order that makes stages contiguous."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from edgepipe.errors import LayerError, PartitionError
from edgepipe.names import suggest
from edgepipe.partition.operator import Operator
from vta_stages.layers.records import Conv

_MOST_COLOURS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedOperator:
    """An operator, its device ("arm" or "vta") and the reason in one line."""

    operator: Operator
    device: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Neighbouring operators of one device, which become one stage."""

    device: str
    operators: tuple[PlacedOperator, ...]


def place(
    operators: Sequence[Operator],
    check: Callable[[Operator], None],
    *,
    border: str | None = None,
    overrides: Mapping[str, str] | None = None,
    on_arm: Mapping[str, str] | None = None,
) -> tuple[PlacedOperator, ...]:
    """Decide the device of every operator; ``operators`` is in topological order.

    Everything up to and including the first convolution goes to ARM, or, when ``border`` names an
    operator, that operator and all that it depends on. A first convolution of more channels than a
    picture has does not: an operator before it has folded pixels into channels, and it suits the
    accelerator. The rest goes to VTA where ``check`` raises
    no ``LayerError``; its text is the reason why an operator goes to ARM. ``overrides`` maps
    operator names to "arm" or "vta" and takes precedence; ``on_arm`` maps operators that run on ARM
    unless overridden to the reason.
    Raises ``PartitionError`` for unknown names and for an operator that cannot run on the VTA.
    """
    overrides = dict(overrides or {})
    names = [operator.name for operator in operators]
    for name in [*overrides, *([border] if border else [])]:
        if name not in names:
            raise PartitionError(f"operator {name!r} is unknown", hint=suggest(name, names))
    first = border or next((o.name for o in operators if o.kind == "conv"), None)
    front = _with_ancestors(first, operators) if first else set()
    if not border:
        front -= {o.name for o in operators if o.name == first and _is_deep(o)}
    placed = []
    for operator in operators:
        refusal = _refusal(operator, check)
        wish = overrides.get(operator.name)
        if wish == "vta" and refusal:
            raise PartitionError(
                f"{operator.name}: cannot be placed on vta: {refusal}",
                hint="leave it on arm",
                option="placement",
                value=f"{operator.name}=arm",
            )
        if wish:
            device, reason = wish, "placed there on request"
        elif refusal or operator.name in (on_arm or {}):
            device, reason = "arm", refusal or (on_arm or {})[operator.name]
        elif operator.name in front:
            where = "the given cut" if border else "the first convolution"
            device, reason = "arm", f"up to {where}: runs while the VTA has the previous frame"
        else:
            device, reason = "vta", "fits the accelerator"
        placed.append(PlacedOperator(operator=operator, device=device, reason=reason))
    return tuple(placed)


def segment(placed: Sequence[PlacedOperator], cuts: Sequence[str] = ()) -> tuple[Segment, ...]:
    """Order the operators so that each device's work is in as few pieces as possible.

    A segment takes every operator that is ready on its device, in the given order, before a segment
    of the other device begins. ARM begins. A segment also ends after each operator named in
    ``cuts``; operators that depend on it come in a later segment. Raises PartitionError for an
    unknown cut.
    """
    names = [p.operator.name for p in placed]
    for cut in cuts:
        if cut not in names:
            raise PartitionError(f"cut {cut!r} is unknown", hint=suggest(cut, names))
    made_by = {p.operator.output: p for p in placed}
    rank = _cut_ranks(placed, made_by, cuts)
    waiting = list(placed)
    done: set[str] = set()
    segments: list[Segment] = []
    device = "arm"
    while waiting:
        turn: list[PlacedOperator] = []
        level = min(rank[p.operator.name] for p in waiting)
        for candidate in list(waiting):
            inputs = [
                made_by[name].operator.name for name in candidate.operator.inputs if name in made_by
            ]
            ready = all(name in done for name in inputs)
            if candidate.device == device and rank[candidate.operator.name] == level and ready:
                turn.append(candidate)
                done.add(candidate.operator.name)
                waiting.remove(candidate)
        if turn:
            segments.append(Segment(device=device, operators=tuple(turn)))
        if not turn or not any(
            p.device == device and rank[p.operator.name] > level for p in waiting
        ):
            device = "vta" if device == "arm" else "arm"
    return tuple(segments)


def _cut_ranks(
    placed: Sequence[PlacedOperator], made_by: Mapping[str, PlacedOperator], cuts: Sequence[str]
) -> dict[str, int]:
    """Return how many cuts each operator depends on, directly or indirectly."""
    order = [p.operator for p in placed]
    before: dict[str, set[str]] = {}
    for operator in order:
        seen: set[str] = set()
        for name in operator.inputs:
            if name in made_by:
                source = made_by[name].operator.name
                seen |= before[source] | ({source} if source in cuts else set())
        before[operator.name] = seen
    return {name: len(seen) for name, seen in before.items()}


def _is_deep(operator: Operator) -> bool:
    """Return whether a convolution reads more channels than a picture can have."""
    return isinstance(operator.layer, Conv) and operator.layer.input.channels > _MOST_COLOURS


def _refusal(operator: Operator, check: Callable[[Operator], None]) -> str:
    try:
        check(operator)
    except LayerError as error:
        return str(error)
    return ""


def _with_ancestors(name: str, operators: Sequence[Operator]) -> set[str]:
    by_output = {operator.output: operator for operator in operators}
    by_name = {operator.name: operator for operator in operators}
    found: set[str] = set()
    stack = [name]
    while stack:
        current = by_name[stack.pop()]
        if current.name not in found:
            found.add(current.name)
            stack += [by_output[i].name for i in current.inputs if i in by_output]
    return found
