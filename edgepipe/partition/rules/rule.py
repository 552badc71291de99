"""One rule of a device: which operators it is about, and what it says of them.

docs/reference/placement-rules.md describes the file form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

Value = int | bool | str | tuple[str, ...]
"""A fact about an operator."""

KINDS = (
    "conv",
    "transposed_conv",
    "sum",
    "product",
    "quotient",
    "pixel_affine",
    "table",
    "pick",
    "max_pool",
    "resize",
    "concat",
    "input_table",
    "generic",
)
"""The kinds of operators that ``operators.match_operators`` finds."""

ANY_KIND = "*"

POSITION = "position"
"""The fact that depends on the cuts, so only preferences may use it."""

FACTS: Mapping[str, type] = {
    "kernel": int,
    "stride": int,
    "dilation": int,
    "padding": int,
    "groups": int,
    "channels_in": int,
    "channels_out": int,
    "height": int,
    "width": int,
    "tensors": int,
    "terms": int,
    "depthwise": bool,
    "leaky": bool,
    "feeds_layers": bool,
    "has_table": bool,
    "has_multiply": bool,
    "dtype": str,
    "onnx": str,
    "conversion": str,
    POSITION: str,
    "calls": tuple,
}
"""What conditions may ask, with the type of the answer (``facts.py`` finds it)."""

TEXTS = ("name", "kind", "neighbours", "quantiser")
"""What only the text of a reason may name, besides the facts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A limit on one fact; what is None or empty does not limit it."""

    fact: str
    least: int | None = None
    most: int | None = None
    multiple_of: int | None = None
    one_of: tuple[int | bool | str, ...] = ()
    none_of: tuple[int | bool | str, ...] = ()
    within: tuple[str, ...] = ()

    def holds(self, value: Value | None) -> bool:
        """Return whether ``value`` is within the limits; an operator without the fact is not."""
        if value is None:
            return False
        if isinstance(value, tuple):
            return set(value) <= set(self.within)
        if (self.one_of and value not in self.one_of) or value in self.none_of:
            return False
        if isinstance(value, int):
            return (
                (self.least is None or value >= self.least)
                and (self.most is None or value <= self.most)
                and (self.multiple_of is None or value % self.multiple_of == 0)
            )
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """The operators that a rule is about, or one place of its pattern: kinds and conditions."""

    kinds: tuple[str, ...]
    when: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a device can and should run.

    ``members`` is one entry for operators alone. Several are a pattern: a chain of operators, each
    of which reads the one before. ``can`` and ``should`` are None where the rule says nothing;
    ``why`` is the reason if either is False, ``check`` names the code that decides what the table
    cannot (``book.Checks``), ``function`` the function that a user's code generator has for it.
    """

    members: tuple[Member, ...]
    can: bool | None = None
    should: bool | None = None
    why: str = ""
    check: str = ""
    function: str = ""

    @property
    def is_pattern(self) -> bool:
        """Whether the rule is about several operators together."""
        return len(self.members) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSet:
    """The rules of one file, all about ``device``; the first that applies decides.

    ``otherwise`` is the reason for operators that no rule mentions; without it the file says
    nothing about them. With a ``code_generator`` the rules say what its functions, in the C files
    ``sources``, can compute, and refuse the device nothing.
    """

    device: str
    rules: tuple[Rule, ...]
    otherwise: str = ""
    where: str = ""
    code_generator: str = ""
    sources: tuple[Path, ...] = ()
