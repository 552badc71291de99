"""The board's half of a command: its functions, wrapped for execution as one step."""

from __future__ import annotations

from pathlib import Path

_EVERY_STEP = Path(__file__).with_name("every_step.sh")


def read(*functions: Path) -> str:
    """Return the program for ``sh -c`` with the functions of these files.

    Its arguments are a name, STEP, ROOT and the step's own.
    """
    parts = [path.read_text(encoding="utf-8") for path in (_EVERY_STEP, *functions)]
    return "\n".join((*parts, '"$step" "$@"'))
