"""The board's half of a command: its functions, wrapped for execution as one step."""

from __future__ import annotations

from pathlib import Path

_EVERY_STEP = Path(__file__).with_name("every_step.sh")


def read(functions: Path) -> str:
    """Return the program for ``sh -c``; its arguments are a name, STEP, ROOT and the step's own."""
    parts = (_EVERY_STEP.read_text(encoding="utf-8"), functions.read_text(encoding="utf-8"))
    return "\n".join((*parts, '"$step" "$@"'))
