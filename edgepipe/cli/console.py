"""What the command prints: only text that is safe on a terminal, progress, and errors.

``PrintableStream`` replaces standard output and error, so everything that Python prints passes
through it. Only the sequences of this module's ``draw`` control the terminal.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Any, TextIO, cast

from edgepipe.names import escapes, printable

_ESCAPES = escapes(kept="\n")
_ERASE_LINE = "\r\x1b[K"
_ERASE_SCREEN = "\x1b[H\x1b[J"


class PrintableStream:
    """A text stream that escapes characters that control a terminal, except line breaks and tabs.

    Everything except writing is passed on to ``stream``.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    @staticmethod
    def around(stream: TextIO) -> TextIO:
        """Return ``stream`` if it already escapes, otherwise a stream that does."""
        escaping = isinstance(stream, PrintableStream)
        return stream if escaping else cast(TextIO, PrintableStream(stream))

    def write(self, text: str) -> int:
        """Write ``text`` with escapes; return the number of characters written."""
        return self.stream.write(text.translate(_ESCAPES))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write every text of ``lines``."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def escape_standard_streams() -> None:
    """Make standard output and error of this process escape what controls a terminal."""
    sys.stdout = PrintableStream.around(sys.stdout)
    sys.stderr = PrintableStream.around(sys.stderr)


def print_line(text: str) -> None:
    """Print ``text`` as one line; its line breaks are escaped, too."""
    print(printable(text), flush=True)


def print_error(text: str, hint: str) -> None:
    """Print the error on one line and its hint on another, to standard error."""
    print(f"edgepipe: error: {_one_line(text)}", file=sys.stderr)
    print(f"hint: {_one_line(hint)}", file=sys.stderr)


def redraw_screen(text: str) -> None:
    """Replace the content of the terminal with ``text``."""
    _draw(sys.stdout, _ERASE_SCREEN)
    print(text, flush=True)


def _draw(stream: TextIO, sequence: str) -> None:
    target = stream.stream if isinstance(stream, PrintableStream) else stream
    target.write(sequence)


def _one_line(text: str) -> str:
    return "; ".join(printable(line.strip()) for line in text.split("\n") if line.strip())


class ConsoleProgress:
    """Prints steps to stderr; redraws counters only on a terminal, so that logs stay short."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = PrintableStream.around(stream or sys.stderr)
        self._terminal = self._stream.isatty()
        self._text = ""
        self._began = 0.0
        self._drawn = 0.0

    def step(self, text: str) -> None:
        """End the previous step and begin the next one."""
        self.finish()
        self._text = text
        self._began = time.monotonic()
        if self._terminal:
            self._write(f"{text} ...")

    def update(self, done: int, total: int) -> None:
        """Redraw the counter, at most ten times a second."""
        now = time.monotonic()
        if self._terminal and (now - self._drawn > 0.1 or done == total):
            self._drawn = now
            of = f"/{total}" if total else ""
            self._write(f"{self._text} ... {done}{of}")

    def notice(self, text: str) -> None:
        """Print a line above the current step."""
        self._write("")
        print(f"note: {text}", file=self._stream)

    def finish(self) -> None:
        """Print the current step's line with its time."""
        if self._text:
            seconds = time.monotonic() - self._began
            self._write("")
            print(f"{self._text:<58}{seconds:7.1f} s", file=self._stream, flush=True)
            self._text = ""

    def _write(self, text: str) -> None:
        if self._terminal:
            _draw(self._stream, _ERASE_LINE)
            print(text, end="", file=self._stream, flush=True)
