"""Find the lines of keys and tables in a TOML text, for errors about files that people edit.

Python's reader keeps no positions. Forms that are not found this way (a value over several lines
that looks like a key, inline arrays of tables) give an error without a line, never a wrong value.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

_ANY_TABLE = re.compile(r"\s*\[")


def tables(text: str, name: str) -> list[int]:
    """Return the lines of the headers ``[[name]]``, from 1."""
    header = re.compile(rf"\s*\[\[\s*{re.escape(name)}\s*\]\]")
    return [number for number, line in enumerate(text.splitlines(), 1) if header.match(line)]


def keys(text: str, after: int = 0) -> dict[str, int]:
    """Return the keys of a table, with their lines; ``after`` is the header's line, 0 for the top.

    A key that is assigned twice is a syntax error, so the first line is the only one.
    """
    found: dict[str, int] = {}
    for number, line in enumerate(text.splitlines()[after:], after + 1):
        if _ANY_TABLE.match(line) and "=" not in line.partition("]")[2]:
            break
        key = _key(line)
        if key is not None:
            found.setdefault(key, number)
    return found


def table(text: str, name: str) -> int:
    """Return the line of the header ``[name]``, or 0."""
    header = re.compile(rf"\s*\[\s*{re.escape(name)}\s*\]\s*(#.*)?$")
    lines = enumerate(text.splitlines(), 1)
    return next((number for number, line in lines if header.match(line)), 0)


def at(where: Path | str, line: int) -> str:
    """Return ``FILE, line N``, or the file alone if the line is 0."""
    return f"{where}, line {line}" if line else str(where)


def _key(line: str) -> str | None:
    """Return the key that the line assigns, unquoted."""
    if "=" not in line or line.lstrip().startswith("#"):
        return None
    for end in (i for i, letter in enumerate(line) if letter == "="):
        try:
            document = tomllib.loads(f"{line[:end]}= 0")
        except tomllib.TOMLDecodeError:
            continue
        return next(iter(document))
    return None
