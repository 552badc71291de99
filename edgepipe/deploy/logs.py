"""The journal of the systemd unit on a board."""

from __future__ import annotations

from collections.abc import Iterator

from edgepipe.deploy.connection import Connection, Target


def read(target: Target, unit: str, lines: int, *, follow: bool) -> Iterator[str]:
    """Yield the last ``lines`` lines of the unit's journal, and with ``follow`` all new ones.

    Following ends when the iterator is closed, or with ``ConnectionLostError`` if the connection is
    lost. Raises ``DeployError`` if the board cannot be reached or has no such unit.
    """
    with Connection(target) as connection:
        arguments = (unit, str(lines), *(["follow"] if follow else []))
        session = connection.start("logs", *arguments)
        try:
            yield from session.lines()
        finally:
            session.close()
