"""What the systemd unit on a board says."""

from __future__ import annotations

from collections.abc import Iterator

from edgepipe.deploy.connection import Connection, Target


def read(target: Target, unit: str, lines: int, *, follow: bool) -> Iterator[str]:
    """Yield the last ``lines`` lines that the unit said, and with ``follow`` all that it says.

    Following ends with the iterator, or raises ``ConnectionLostError`` with the link. Raises
    ``DeployError`` when the board cannot be reached or has no such unit.
    """
    with Connection(target) as connection:
        arguments = (unit, str(lines), *(["follow"] if follow else []))
        session = connection.start("logs", *arguments)
        try:
            yield from session.lines()
        finally:
            session.close()
