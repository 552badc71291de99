"""Progress on a terminal: one line per step with its time, and a counter redrawn in place."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class ConsoleProgress:
    """Prints steps to stderr; redraws counters only on a terminal, so that logs stay short."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
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
            self._write(f"{self._text} ... {done}/{total}")

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
            print(f"\r\x1b[K{text}", end="", file=self._stream, flush=True)
