"""Names that users type and read: suggestions for unknown ones, and text that is safe to print."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from vta_stages.printable import escapes, printable

__all__ = ["escapes", "printable", "suggest"]


def suggest(name: str, known: Sequence[str], *, most: int = 5) -> str:
    """Return a hint that lists the known names nearest to ``name``, or the first few of them."""
    near = difflib.get_close_matches(name, known, n=most, cutoff=0.4)
    near = near or [k for k in known if name.lower() in k.lower()][:most]
    if near:
        return f"did you mean: {', '.join(near)}"
    rest = f" and {len(known) - most} more" if len(known) > most else ""
    return f"known names: {', '.join(known[:most])}{rest}"
