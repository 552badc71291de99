"""What the rules of all files say about the operators of one network."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from edgepipe.errors import LayerError
from edgepipe.partition.operator import Operator
from edgepipe.partition.rules.facts import OperatorFacts
from edgepipe.partition.rules.rule import ANY_KIND, POSITION, Member, Rule, RuleSet
from edgepipe.partition.rules.rule_file import built_in

Checks = Mapping[str, Callable[[Operator], None]]
"""What a rule's ``check`` names: functions that raise ``LayerError`` with a computed reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """The device that an operator should run on, of those that can run it, and why."""

    device: str
    why: str


class RuleBook:
    """Answers what the operators of a network can and should run on.

    ``sets`` are the rules in the order of precedence, by default the package's. An operator can run
    on a device if every set that says something about it says so, so a file of a user's adds
    limits. What it should run on is decided by the first set that says something.
    """

    def __init__(
        self,
        facts: OperatorFacts,
        sets: Sequence[RuleSet] | None = None,
        checks: Checks | None = None,
    ) -> None:
        self._facts = facts
        self._sets = built_in() if sets is None else tuple(sets)
        self._checks = checks or {}
        self._preferences: dict[tuple[str, str], Preference | None] = {}

    @property
    def is_built_in(self) -> bool:
        """Whether the rules are the package's alone."""
        return self._sets == built_in()

    def require(self, operator: Operator, device: str) -> None:
        """Raise ``LayerError`` with the reason if ``device`` cannot run ``operator``.

        An operator that the tables allow only as part of a pattern passes, if the network has such
        a chain; whether all of it is on the device, ``missing_chain`` tells.
        """
        why = self._refusal(operator, device, lambda _: True)
        if why:
            raise LayerError(why)
        for rules in self._of(device):
            rule = self.deciding(rules, operator)
            if rule is not None and rule.check in self._checks:
                self._checks[rule.check](operator)

    def allows(self, operator: Operator, device: str) -> bool:
        """Return whether ``device`` can run ``operator``, as ``require`` says."""
        try:
            self.require(operator, device)
        except LayerError:
            return False
        return True

    def missing_chain(self, operator: Operator, device: str, there: Container[str]) -> str:
        """Return why ``device`` cannot run ``operator`` if only ``there`` are on it, or nothing."""
        return self._refusal(
            operator, device, lambda chain: all(each.name in there for each in chain)
        )

    def refused_chains(self, device: str) -> Iterator[tuple[tuple[Operator, ...], str]]:
        """Yield the chains that ``device`` cannot run together, with the reason."""
        for rules in self._of(device):
            for rule in rules.rules:
                if rule.is_pattern and rule.can is False:
                    for chain in self.chains(rule):
                        yield chain, self._filled(rule.why, chain[-1])

    def has_patterns(self) -> bool:
        """Return whether any rule is about several operators."""
        own = (rules for rules in self._sets if not rules.code_generator)
        return any(rule.is_pattern for rules in own for rule in rules.rules)

    def generators(self) -> Iterator[RuleSet]:
        """Yield the sets of users' code generators, in the order of precedence."""
        return (rules for rules in self._sets if rules.code_generator)

    def unsuited(self, operator: Operator, generator: str) -> str:
        """Return why a code generator does not compute an operator, as far as its rules say it."""
        for rules in self.generators():
            if rules.code_generator == generator:
                rule = self.deciding(rules, operator)
                if rule is not None and rule.can is False:
                    return self._filled(rule.why, operator)
        return "no rule of its file allows it as it is placed"

    def preference(self, operator: Operator, position: str) -> Preference | None:
        """Return what the tables prefer for an operator at this ``position`` in the network.

        It is ``"cut"`` for what a given cut keeps on ARM, ``"first"`` for the first convolution,
        ``"front"`` for what it depends on, and otherwise empty.
        """
        key = operator.name, position
        if key not in self._preferences:
            self._preferences[key] = self._preferred(operator, position)
        return self._preferences[key]

    def _preferred(self, operator: Operator, position: str) -> Preference | None:
        for rules in self._sets:
            for rule in () if rules.code_generator else rules.rules:
                if rule.should is None or not self._applies(rule.members[0], operator, position):
                    continue
                other = "arm" if rules.device == "vta" else "vta"
                device = rules.device if rule.should else other
                return Preference(device=device, why=self._filled(rule.why, operator))
        return None

    def _of(self, device: str) -> Iterator[RuleSet]:
        return (r for r in self._sets if r.device == device and not r.code_generator)

    def deciding(self, rules: RuleSet, operator: Operator) -> Rule | None:
        """Return the first rule that says whether the operator can run alone."""
        for rule in rules.rules:
            if rule.can is None or rule.is_pattern:
                continue
            if self._applies(rule.members[0], operator):
                return rule
        return None

    def _refusal(
        self, operator: Operator, device: str, counts: Callable[[tuple[Operator, ...]], bool]
    ) -> str:
        """Return why some table refuses an operator, unless it allows a chain that ``counts``."""
        for rules in self._of(device):
            rule = self.deciding(rules, operator)
            why = rules.otherwise if rule is None else "" if rule.can else rule.why
            if why and not any(map(counts, self._allowed_chains(rules, operator))):
                return self._filled(why, operator)
        return ""

    def _allowed_chains(self, rules: RuleSet, operator: Operator) -> Iterator[tuple[Operator, ...]]:
        """Yield the chains with ``operator`` that a pattern of one table allows."""
        for rule in rules.rules:
            if rule.is_pattern and rule.can:
                yield from (chain for chain in self.chains(rule) if operator in chain)

    def chains(self, rule: Rule) -> Iterator[tuple[Operator, ...]]:
        """Yield the chains that a pattern describes; each operator reads the one before it."""
        for operator in self._facts.operators:
            yield from self._ending_with(operator, rule.members)

    def _ending_with(
        self, operator: Operator, members: Sequence[Member]
    ) -> Iterator[tuple[Operator, ...]]:
        if not self._applies(members[-1], operator):
            return
        if len(members) == 1:
            yield (operator,)
            return
        for source in self._facts.sources(operator):
            for chain in self._ending_with(source, members[:-1]):
                yield (*chain, operator)

    def _applies(self, member: Member, operator: Operator, position: str = "") -> bool:
        if operator.kind not in member.kinds and ANY_KIND not in member.kinds:
            return False
        return all(
            condition.holds(
                position
                if condition.fact == POSITION
                else self._facts.find(condition.fact, operator)
            )
            for condition in member.when
        )

    def _filled(self, why: str, operator: Operator) -> str:
        return why.format_map(_Texts(self._facts, operator)) if "{" in why else why


class _Texts(dict[str, object]):
    """The facts of an operator as a text names them, each found when it is needed."""

    def __init__(self, facts: OperatorFacts, operator: Operator) -> None:
        super().__init__()
        self._facts, self._operator = facts, operator

    def __missing__(self, name: str) -> object:
        found = None if name == POSITION else self._facts.find(name, self._operator)
        if isinstance(found, tuple):
            return ", ".join(dict.fromkeys(found))
        return "none" if found is None else found
