"""The lines of a drafted description: values with their reasons, and their form as TOML."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

GUESS = "guess: "
_COLUMNS = 100

Value = (
    str
    | int
    | float
    | tuple[str, ...]
    | tuple[int, ...]
    | tuple[float, ...]
    | tuple[tuple[float, ...], ...]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key of a description, why it has its value, and whether that is only a guess."""

    key: str
    value: Value
    reason: str
    is_guess: bool = False

    @property
    def comment(self) -> str:
        """The text that stands above the key."""
        return f"{GUESS if self.is_guess else ''}{self.reason}"

    @property
    def assignment(self) -> str:
        """The key and its value in TOML."""
        return f"{self.key} = {toml(self.value)}"


def toml(value: Value) -> str:
    """Return a value as TOML; every character of a text survives."""
    if isinstance(value, tuple):
        return f"[{', '.join(toml(element) for element in value)}]"
    if isinstance(value, str):  # a JSON string is a TOML string, except for DEL
        return json.dumps(value).replace("\x7f", "\\u007F")
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value)


def table(name: str, settings: Sequence[Setting]) -> str:
    """Return a TOML table; the reason of each key is a comment above it."""
    lines = [f"[{name}]"]
    for setting in settings:
        lines += [*comment(setting.comment), setting.assignment]
    return "\n".join(lines) + "\n"


def comment(text: str) -> list[str]:
    """Return ``text`` as lines of a TOML comment; characters that TOML forbids are escaped."""
    safe = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
    return textwrap.wrap(
        safe, _COLUMNS, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )
