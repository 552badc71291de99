"""Progress of long work, as a value that library functions call and never print themselves."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives what long work is doing."""

    def step(self, text: str) -> None:
        """Begin a named step; the one before it is done."""

    def update(self, done: int, total: int) -> None:
        """Report how far the current step is."""

    def notice(self, text: str) -> None:
        """Tell something the user should know, such as a fixed batch dimension."""


class Silent:
    """Progress that goes nowhere: the default of every library function."""

    def step(self, text: str) -> None:
        """Ignore the step."""

    def update(self, done: int, total: int) -> None:
        """Ignore the update."""

    def notice(self, text: str) -> None:
        """Ignore the notice."""
