"""One finding of the doctor."""

from __future__ import annotations

from dataclasses import dataclass

MAY_NOT_USE = "grant the user access with a udev rule or a group, or log in as a user who has it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check: ``state`` is ok, warn or fail; ``remedy`` is empty if ok."""

    check: str
    state: str
    text: str
    remedy: str = ""


def mib(count: int) -> str:
    """Return a number of bytes in MiB, as text."""
    return f"{count / (1 << 20):.1f} MiB"
