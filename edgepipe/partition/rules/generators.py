"""Which operators users' code generators compute, by the rules in their files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from edgepipe.errors import PartitionError
from edgepipe.names import suggest
from edgepipe.partition.foreign import OWN, ForeignCall
from edgepipe.partition.operator import Operator
from edgepipe.partition.placement import Segment
from edgepipe.partition.rules.book import RuleBook
from edgepipe.partition.rules.reasons import reasons
from edgepipe.partition.rules.rule import Rule, RuleSet


def with_calls(
    segments: Sequence[Segment],
    book: RuleBook,
    asked: Mapping[str, str],
    outputs: Collection[str],
) -> tuple[Segment, ...]:
    """Return ``segments`` with the calls of users' functions, which the reasons then name.

    ``asked`` are code generators that were requested, by operator; ``outputs`` are the tensors that
    the network returns. Patterns come before operators alone, and files in their order. A chain is
    one call if all of it is in one segment, and nothing else reads what is between. Raises
    ``PartitionError`` for an unknown code generator, and if one cannot compute what was asked.
    """
    known = [*OWN.values(), *(rules.code_generator for rules in book.generators())]
    for name, generator in asked.items():
        if generator not in known:
            raise PartitionError(
                f"{name}: code generator {generator!r} is unknown", hint=suggest(generator, known)
            )
    made = tuple(_with_calls(part, _Search(book, segments, asked, outputs)) for part in segments)
    by = {name: call.generator for part in made for call in part.calls for name in call.operators}
    for part in made:
        for placed in part.operators:
            name = placed.operator.name
            wanted = asked.get(name, "")
            if wanted and wanted != by.get(name, OWN[part.device]):
                raise PartitionError(
                    f"{name}: cannot be computed by {wanted} on {part.device}: "
                    f"{book.unsuited(placed.operator, wanted)}",
                    hint="leave it to edgepipe",
                    option="placement",
                    value=f"{name}={part.device}",
                )
    return made


@dataclass(frozen=True, slots=True)
class _Search:
    """What decides about calls: rules, requests, and who reads which tensor."""

    book: RuleBook
    segments: Sequence[Segment]
    asked: Mapping[str, str]
    outputs: Collection[str]

    def is_private(self, chain: tuple[Operator, ...]) -> bool:
        """Return whether only the chain reads what is inside it."""
        inside = {operator.name for operator in chain}
        tensors = {operator.output for operator in chain[:-1]}
        readers = {
            placed.operator.name
            for part in self.segments
            for placed in part.operators
            if tensors & {*placed.operator.inputs}
        }
        return readers <= inside and not tensors & {*self.outputs}

    def is_wanted(self, rule: Rule, rules: RuleSet, chain: tuple[Operator, ...]) -> bool:
        """Return whether the generator should compute the chain, or was asked to."""
        wishes = {self.asked.get(operator.name, "") for operator in chain}
        if wishes - {"", rules.code_generator}:
            return False
        return rule.should is not False or wishes == {rules.code_generator}


def _with_calls(part: Segment, search: _Search) -> Segment:
    if part.device != "arm":
        return part
    here = {placed.operator.name for placed in part.operators}
    taken: dict[str, ForeignCall] = {}
    for rules in search.book.generators():
        for rule, chain in _candidates(rules, part, search.book):
            names = tuple(operator.name for operator in chain)
            free = here.issuperset(names) and not taken.keys() & {*names}
            if free and search.is_private(chain) and search.is_wanted(rule, rules, chain):
                call = ForeignCall(
                    generator=rules.code_generator,
                    function=rule.function,
                    operators=names,
                    sources=rules.sources,
                )
                taken |= dict.fromkeys(names, call)
    if not taken:
        return part
    placed = tuple(
        replace(p, reason=reasons().computed.format(reason=p.reason, **_names(taken[name])))
        if (name := p.operator.name) in taken
        else p
        for p in part.operators
    )
    return replace(part, operators=placed, calls=tuple(dict.fromkeys(taken.values())))


def _names(call: ForeignCall) -> dict[str, str]:
    return {"function": call.function, "generator": call.generator}


def _candidates(
    rules: RuleSet, part: Segment, book: RuleBook
) -> Iterator[tuple[Rule, tuple[Operator, ...]]]:
    for rule in rules.rules:
        if rule.is_pattern and rule.can:
            yield from ((rule, chain) for chain in book.chains(rule))
    for placed in part.operators:
        deciding = book.deciding(rules, placed.operator)
        if deciding is not None and deciding.can:
            yield deciding, (placed.operator,)
