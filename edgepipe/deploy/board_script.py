"""The board's half of a command: its functions, with what every step begins and ends with."""

from __future__ import annotations

from pathlib import Path

_EVERY_STEP = Path(__file__).with_name("every_step.sh")


def read(functions: Path) -> str:
    """Return the program for ``sh -c``, whose arguments are a name, STEP, ROOT and the step's."""
    parts = (_EVERY_STEP.read_text(encoding="utf-8"), functions.read_text(encoding="utf-8"))
    return "\n".join((*parts, '"$step" "$@"'))
