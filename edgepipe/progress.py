"""Progress of long work: library functions report it to an object and never print themselves."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives the progress of long work."""

    def step(self, text: str) -> None:
        """Begin a named step; the previous one is done."""

    def update(self, done: int, total: int) -> None:
        """Report the progress of the current step; ``total`` is 0 if it is not known."""

    def notice(self, text: str) -> None:
        """Report something that the user should know, such as a fixed batch dimension."""


class Silent:
    """Ignores all progress: the default of every library function."""

    def step(self, text: str) -> None:
        """Ignore the step."""

    def update(self, done: int, total: int) -> None:
        """Ignore the update."""

    def notice(self, text: str) -> None:
        """Ignore the notice."""
