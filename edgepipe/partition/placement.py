"""Placement: which device each operator runs on, and the order that makes stages contiguous."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from edgepipe.errors import LayerError, PartitionError
from edgepipe.names import suggest
from edgepipe.partition.choices import DEVICES
from edgepipe.partition.foreign import ForeignCall
from edgepipe.partition.operator import Operator
from edgepipe.partition.rules import combinations
from edgepipe.partition.rules.book import RuleBook
from edgepipe.partition.rules.facts import OperatorFacts
from edgepipe.partition.rules.reasons import reasons
from edgepipe.partition.target import EXPECTED


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedOperator:
    """An operator, its device ("arm" or "vta") and the reason in one line."""

    operator: Operator
    device: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Neighbouring operators of one device, which become one stage.

    ``calls`` are those that a user's code generator computes.
    """

    device: str
    operators: tuple[PlacedOperator, ...]
    calls: tuple[ForeignCall, ...] = ()


def place(
    operators: Sequence[Operator],
    check: Callable[[Operator], None],
    *,
    border: str | None = None,
    overrides: Mapping[str, str] | None = None,
    on_arm: Mapping[str, str] | None = None,
    book: RuleBook | None = None,
    why: Mapping[str, str] | None = None,
) -> tuple[PlacedOperator, ...]:
    """Decide the device of every operator; ``operators`` is in topological order.

    An operator goes to VTA unless ``check`` raises ``LayerError``, whose text is then the reason,
    or the tables of ``book``, by default the package's, say that it should not: the package's keep
    everything up to and including the first convolution on ARM, or, when ``border`` names an
    operator, that operator and all that it depends on. ``overrides`` maps operator names to "arm"
    or "vta" and takes precedence, for the reasons in ``why`` or because someone asked; ``on_arm``
    maps operators that run on ARM unless overridden, or unless ARM cannot run them, to the reason.
    Raises ``PartitionError`` for unknown names and devices, and for operators that no device can
    run, or not the requested one, alone or together with others.
    """
    overrides, on_arm = dict(overrides or {}), on_arm or {}
    names = [operator.name for operator in operators]
    for name in [*overrides, *([border] if border else [])]:
        if name not in names:
            raise PartitionError(f"operator {name!r} is unknown", hint=suggest(name, names))
    for name, device in overrides.items():
        if device not in DEVICES:
            raise PartitionError(f"{name}: device {device!r} is unknown", hint=f"give {EXPECTED}")
    book = book or RuleBook(OperatorFacts(operators))
    refusals: dict[tuple[str, str], str] = {}
    for operator in operators:
        refusals[operator.name, "vta"] = _refusal(operator, check)
        refusals[operator.name, "arm"] = _refusal(operator, lambda o: book.require(o, "arm"))
    positions = _positions(operators, border)
    placed: dict[str, tuple[str, str]] = {}
    for operator in operators:
        name = operator.name
        on_vta, here = refusals[name, "vta"], refusals[name, "arm"]
        wish = overrides.get(name)
        if wish and refusals[name, wish]:
            raise _impossible(name, wish, refusals)
        preferred = book.preference(operator, positions.get(name, ""))
        if wish:
            placed[name] = wish, (why or {}).get(name, reasons().requested)
        elif on_vta and here:
            raise _impossible(name, "vta", refusals)
        elif on_vta:
            placed[name] = "arm", on_vta
        elif here:
            placed[name] = "vta", here
        elif name in on_arm:
            placed[name] = "arm", on_arm[name]
        elif preferred and (preferred.why or preferred.device == "arm"):
            placed[name] = preferred.device, preferred.why or reasons().preferred
        else:
            placed[name] = "vta", reasons().fits
    placed |= combinations.moved(
        book,
        operators,
        {name: device for name, (device, _) in placed.items()},
        overrides,
        lambda operator, device: not refusals[operator.name, device],
    )
    return tuple(
        PlacedOperator(operator=o, device=placed[o.name][0], reason=placed[o.name][1])
        for o in operators
    )


def _impossible(name: str, device: str, refusals: Mapping[tuple[str, str], str]) -> PartitionError:
    """Return the error for an operator that ``device`` cannot run."""
    text = f"{name}: cannot be placed on {device}: {refusals[name, device]}"
    other = next(each for each in DEVICES if each != device)
    if refusals[name, other]:
        return PartitionError(
            f"{text}; nor on {other}: {refusals[name, other]}",
            hint="change the rule file that refuses it",
        )
    return PartitionError(
        text, hint=f"leave it on {other}", option="placement", value=f"{name}={other}"
    )


def _positions(operators: Sequence[Operator], border: str | None) -> dict[str, str]:
    """Return where operators lie in front of the part that is the VTA's, as rules name it."""
    if border:
        return dict.fromkeys(_with_ancestors(border, operators), "cut")
    first = next((o.name for o in operators if o.kind == "conv"), None)
    if first is None:
        return {}
    return dict.fromkeys(_with_ancestors(first, operators), "front") | {first: "first"}


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
