"""Names: unique ones, suggestions for unknown ones, and text that is safe to print."""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterable, Sequence

from vta_stages.printable import escapes, printable

__all__ = ["escapes", "nearest", "printable", "suggest", "unique_name"]


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word for which ``word`` is probably a slip, "" if none is near."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1)), "")


def suggest(name: str, known: Sequence[str], *, most: int = 5) -> str:
    """Return a hint that lists the known names nearest to ``name``, or the first few of them."""
    near = difflib.get_close_matches(name, known, n=most, cutoff=0.4)
    near = near or [k for k in known if name.lower() in k.lower()][:most]
    if near:
        return f"did you mean: {', '.join(near)}"
    rest = f" and {len(known) - most} more" if len(known) > most else ""
    return f"known names: {', '.join(known[:most])}{rest}"


def unique_name(name: str, taken: Container[str]) -> str:
    """Return ``name``, or the first of ``name_2``, ``name_3``, ... that is not taken."""
    unique, count = name, 1
    while unique in taken:
        count += 1
        unique = f"{name}_{count}"
    return unique
