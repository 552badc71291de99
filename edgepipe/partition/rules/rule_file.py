"""Rule files (docs/reference/placement-rules.md): the package's own and those of users."""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgepipe import schema
from edgepipe.errors import PartitionError, advise
from edgepipe.names import suggest
from edgepipe.partition.choices import DEVICES
from edgepipe.partition.foreign import OWN
from edgepipe.partition.rules import toml_lines
from edgepipe.partition.rules.rule import (
    ANY_KIND,
    FACTS,
    KINDS,
    POSITION,
    TEXTS,
    Condition,
    Member,
    Rule,
    RuleSet,
)

FORMAT = 1
CHECKS = ("vta_program",)
"""The code that a rule may name: whether the VTA's compiler finds a program for the operator."""

_FOLDER = Path(__file__).parent
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_FUNCTION = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """The keys of a file outside its rules."""

    format: int
    device: str
    otherwise: str = ""
    code_generator: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleKeys:
    """The keys of a rule, besides ``when`` and ``pattern``."""

    kinds: tuple[str, ...] = ()
    can: bool | None = None
    should: bool | None = None
    why: str = ""
    check: str = ""
    function: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The keys of a condition that is a table; those of an integer, and two for words."""

    least: int | None = None
    most: int | None = None
    multiple_of: int | None = None
    none_of: tuple[str, ...] = ()
    within: tuple[str, ...] = ()


@functools.cache
def built_in() -> tuple[RuleSet, ...]:
    """Return the package's rules, one set for each device."""
    return tuple(read(_FOLDER / f"{device}.toml") for device in DEVICES)


def rule_sets(paths: Sequence[Path]) -> tuple[RuleSet, ...]:
    """Return the rules of ``paths`` and then the package's.

    Raises ``PartitionError`` for files that ``read`` refuses.
    """
    sets = tuple(map(read, paths))
    names = [rules.code_generator for rules in sets if rules.code_generator]
    for name in names:
        if names.count(name) > 1:
            raise PartitionError(
                f"code generator {name!r} is in {names.count(name)} files of rules",
                hint="give each code generator one file",
            )
    return (*sets, *built_in())


def read(path: Path) -> RuleSet:
    """Read one device's rules.

    Raises ``PartitionError``, with the line where it is known, for anything that does not belong
    into the file.
    """
    with advise("correct the rules; docs/reference/placement-rules.md explains every key"):
        return _rules(path)


def _rules(path: Path) -> RuleSet:
    document = schema.read_toml(path, PartitionError)
    text = path.read_text(encoding="utf-8")
    top = toml_lines.keys(text)
    if document.get("format") != FORMAT:
        raise PartitionError(
            f"{toml_lines.at(path, top.get('format', 0))}: format: found "
            f"{document.get('format', 'none')}, expected {FORMAT}",
            hint=f"write format = {FORMAT} if the file is meant for this version of edgepipe",
        )
    tables = document.pop("rules", [])
    if not isinstance(tables, list):
        raise PartitionError(
            f"{toml_lines.at(path, top.get('rules', 0))}: rules: expected an array of tables",
            hint="write [[rules]] above the keys of each rule",
        )
    unknown = next((key for key in document if key in top and key not in File.__slots__), "")
    found = schema.from_table(
        File, document, toml_lines.at(path, top.get(unknown, 0)), PartitionError
    )
    if found.device not in DEVICES:
        raise PartitionError(
            f"{toml_lines.at(path, top.get('device', 0))}: device {found.device!r} is unknown",
            hint=f"devices with a code generator: {', '.join(DEVICES)}",
        )
    lines = toml_lines.tables(text, "rules")
    if len(lines) != len(tables):
        lines = [0] * len(tables)
    where = toml_lines.at(path, top.get("otherwise", 0))
    _check_text(found.otherwise, where)
    generator_line = top.get("code_generator", top.get("sources", 0))
    sources = _sources(found, path, toml_lines.at(path, generator_line))
    rules = []
    for number, (table, line) in enumerate(zip(tables, lines, strict=True), 1):
        place = f"{toml_lines.at(path, line)}: rule {number}"
        rule = _rule(table, place)
        _check_function(rule, found.code_generator, place)
        rules.append(rule)
    return RuleSet(
        device=found.device,
        rules=tuple(rules),
        otherwise=found.otherwise,
        where=str(path),
        code_generator=found.code_generator,
        sources=sources,
    )


def _sources(found: File, path: Path, where: str) -> tuple[Path, ...]:
    """Return the C files of a code generator, which are named relative to the file of rules."""
    name = found.code_generator
    if bool(name) != bool(found.sources):
        raise PartitionError(
            f"{where}: expected code_generator and sources together",
            hint="name the code generator and its C files, or neither",
        )
    if name and (found.device != "arm" or not _NAME.fullmatch(name) or name in OWN.values()):
        raise PartitionError(
            f"{where}: code generator {name!r} for {found.device} cannot be used",
            hint='a name of your own in small letters, beside device = "arm"',
        )
    sources = tuple(path.parent / source for source in found.sources)
    for source in sources:
        if not source.is_file():
            raise PartitionError(
                f"{where}: {source}: no such file", hint="name C files beside the file of rules"
            )
    return sources


def _check_function(rule: Rule, generator: str, where: str) -> None:
    """Raise ``PartitionError`` unless a code generator's rules have functions, and no others."""
    if bool(rule.function) != bool(generator and rule.can):
        raise PartitionError(
            f"{where}: function {rule.function!r} does not fit",
            hint="rules with can = true of files with a code_generator name a function, no others",
        )
    if rule.function and not _FUNCTION.fullmatch(rule.function):
        raise PartitionError(
            f"{where}: function {rule.function!r} is no name in C",
            hint="letters, digits and underscores, a letter first",
        )
    if generator and (rule.check or (rule.can is None)):
        raise PartitionError(
            f"{where}: only can, should, why and function belong into a code generator's rules",
            hint="say with can whether the function computes the operator",
        )


def _rule(table: object, where: str) -> Rule:
    rest: dict[str, Any] = dict(table) if isinstance(table, dict) else {}
    if not isinstance(table, dict):
        raise PartitionError(f"{where}: expected a table", hint="write [[rules]] above its keys")
    when, pattern = rest.pop("when", None), rest.pop("pattern", None)
    keys = schema.from_table(RuleKeys, rest, where, PartitionError)
    if (pattern is None) != bool(keys.kinds):
        raise PartitionError(
            f"{where}: expected either kinds or pattern",
            hint="kinds names operators alone, pattern several that follow each other",
        )
    if pattern is not None and when is not None:
        raise PartitionError(
            f"{where}: when is beside pattern",
            hint='give each operator its own: pattern = [{ kind = "conv", when = { ... } }, ...]',
        )
    if pattern is None:
        members: tuple[Member, ...] = (_member(keys.kinds, when, where),)
    else:
        members = _pattern(pattern, where)
    rule = Rule(
        members=members,
        can=keys.can,
        should=keys.should,
        why=keys.why,
        check=keys.check,
        function=keys.function,
    )
    _check_rule(rule, where)
    return rule


def _pattern(pattern: object, where: str) -> tuple[Member, ...]:
    if not isinstance(pattern, list) or len(pattern) < 2:
        raise PartitionError(
            f"{where}: pattern: expected an array of two or more operators",
            hint='for example pattern = ["conv", "max_pool"]; use kinds for one operator',
        )
    members = []
    for number, entry in enumerate(pattern, 1):
        place = f"{where}: pattern: operator {number}"
        table = {"kind": entry} if isinstance(entry, str) else entry
        if not isinstance(table, dict) or not isinstance(table.get("kind"), str):
            raise PartitionError(
                f"{place}: expected a kind or a table with one",
                hint='for example { kind = "conv", when = { kernel = { least = 5 } } }',
            )
        for key in table:
            if key not in ("kind", "when"):
                raise PartitionError(f"{place}: unknown key {key!r}", hint="known keys: kind, when")
        members.append(_member((table["kind"],), table.get("when"), place))
    return tuple(members)


def _member(kinds: tuple[str, ...], when: object, where: str) -> Member:
    for kind in kinds:
        if kind not in (*KINDS, ANY_KIND):
            raise PartitionError(
                f"{where}: operator kind {kind!r} is unknown", hint=suggest(kind, KINDS)
            )
    if when is None:
        return Member(kinds=kinds)
    if not isinstance(when, dict):
        raise PartitionError(
            f"{where}: when: expected a table", hint="for example when = { kernel = { most = 7 } }"
        )
    return Member(
        kinds=kinds, when=tuple(_condition(fact, limit, where) for fact, limit in when.items())
    )


def _condition(fact: str, limit: object, where: str) -> Condition:
    where = f"{where}: when: {fact}"
    if fact not in FACTS:
        raise PartitionError(f"{where}: is unknown", hint=suggest(fact, list(FACTS)))
    wanted = FACTS[fact]
    if isinstance(limit, dict):
        limits = schema.from_table(Limits, limit, where, PartitionError)
        given = {key for key in Limits.__slots__ if key in limit}
        allowed: Mapping[type, set[str]] = {
            int: {"least", "most", "multiple_of"},
            str: {"none_of"},
            tuple: {"within"},
        }
        wrong = given - allowed.get(wanted, set())
        if wrong or not given:
            raise PartitionError(
                f"{where}: found {', '.join(sorted(wrong)) or 'an empty table'}",
                hint=f"expected {', '.join(sorted(allowed.get(wanted, {'true or false'})))}",
            )
        if limits.multiple_of is not None and limits.multiple_of < 1:
            raise PartitionError(
                f"{where}: multiple_of: found {limits.multiple_of}, expected at least 1",
                hint="give the number of lanes, such as 16",
            )
        return Condition(
            fact=fact,
            least=limits.least,
            most=limits.most,
            multiple_of=limits.multiple_of,
            none_of=limits.none_of,
            within=limits.within,
        )
    values = tuple(limit) if isinstance(limit, list) else (limit,)
    if wanted is tuple or not values or any(type(value) is not wanted for value in values):
        expected = "a table with within" if wanted is tuple else _words(wanted)
        raise PartitionError(f"{where}: found {limit!r}", hint=f"expected {expected}")
    return Condition(fact=fact, one_of=values)


def _words(kind: type) -> str:
    names = {
        int: "a number, an array of numbers, or a table with least, most or multiple_of",
        bool: "true or false",
        str: "a text, an array of texts, or a table with none_of",
    }
    return names[kind]


def _check_rule(rule: Rule, where: str) -> None:
    """Raise ``PartitionError`` for a rule that says nothing, or not why."""
    if rule.can is None and rule.should is None:
        raise PartitionError(
            f"{where}: neither can nor should", hint="say with one of them what the rule decides"
        )
    if rule.is_pattern and rule.should is not None and not rule.function:
        raise PartitionError(
            f"{where}: should is beside pattern", hint="patterns decide only what a device can run"
        )
    says_no = rule.can is False or (rule.should is False and not rule.function)
    if says_no and not rule.why:
        raise PartitionError(
            f"{where}: why is missing", hint="give the reason that `edgepipe inspect` shows"
        )
    if rule.check and (rule.check not in CHECKS or not rule.can or rule.is_pattern):
        raise PartitionError(
            f"{where}: check {rule.check!r} cannot be used",
            hint=f"known checks: {', '.join(CHECKS)}, beside kinds and can = true",
        )
    if rule.can is not None and any(c.fact == POSITION for m in rule.members for c in m.when):
        raise PartitionError(
            f"{where}: position is beside can",
            hint="where an operator lies depends on the cuts, so it can only decide should",
        )
    _check_text(rule.why, where)


def _check_text(text: str, where: str) -> None:
    known = (*FACTS, *TEXTS)
    try:
        fields = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]
    except ValueError as cause:
        raise PartitionError(
            f"{where}: {text!r} cannot be filled in ({cause})", hint="write {{ and }} for braces"
        ) from cause
    for field in fields:
        if field not in known:
            raise PartitionError(
                f"{where}: {{{field}}} in {text!r} is unknown", hint=suggest(field, known)
            )
