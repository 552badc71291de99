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


class Held:
    """Passes progress on, but keeps notices until they are released, or for ever."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._notices: list[str] = []

    def step(self, text: str) -> None:
        """Pass the step on."""
        self._progress.step(text)

    def update(self, done: int, total: int) -> None:
        """Pass the update on."""
        self._progress.update(done, total)

    def notice(self, text: str) -> None:
        """Keep the notice."""
        self._notices.append(text)

    def release(self) -> None:
        """Pass on the notices."""
        for text in self._notices:
            self._progress.notice(text)
        self._notices.clear()
