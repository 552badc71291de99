"""Operators that a user's code generator computes: functions in C, inside ARM stages.

It is apart from the rules that choose them, so that code generation needs none.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

OWN = {"arm": "tvm", "vta": "vta"}
"""edgepipe's code generator for each device."""

SEPARATOR = "/"
"""What is between a device and a code generator, as in ``arm/mine``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignCall:
    """A call of ``function``, in C, that computes ``operators``: one, or a chain of several.

    ``sources`` are the C files of ``generator``.
    """

    generator: str
    function: str
    operators: tuple[str, ...]
    sources: tuple[Path, ...]
