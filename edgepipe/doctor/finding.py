"""What the doctor says about one thing."""

from __future__ import annotations

from dataclasses import dataclass

MAY_NOT_USE = "give the user rights with a udev rule or a group, or log in as a user that has them"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at: ``state`` is ok, warn (works, but ...) or fail; ``remedy`` unless ok."""

    check: str
    state: str
    text: str
    remedy: str = ""


def mib(count: int) -> str:
    """Return a number of bytes in MiB, as text."""
    return f"{count / (1 << 20):.1f} MiB"
