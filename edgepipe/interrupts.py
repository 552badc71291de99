"""Interrupts that cannot get lost in code that catches every exception."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """The exceptions that signal handlers have raised in a block of :func:`remembered`."""

    def __init__(self) -> None:
        self._raised: list[BaseException] = []

    def remember(self, raised: BaseException) -> None:
        """Keep an exception that a signal handler raises."""
        self._raised.append(raised)

    def check(self) -> None:
        """Raise the first exception again if the code in between has swallowed it."""
        if self._raised:
            raise self._raised[0]


@contextmanager
def remembered() -> Iterator[Interrupts]:
    """Make sure that an interrupt in this block ends it.

        with remembered() as interrupts:
            module = import_model()   # may catch KeyboardInterrupt, or turn it into another error
            interrupts.check()        # nothing is written after an interrupt

    Foreign code (TVM's importer and passes, destructors) may swallow what a signal handler raises,
    and go on with a wrong result. Whatever the handlers of SIGINT and SIGTERM raise is raised again
    at the next ``check`` and at the end of the block, also in place of another error. Python runs
    handlers in the main thread; in other threads this does nothing.
    """
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def handle(number: int, frame: FrameType | None) -> None:
        previous = before[signal.Signals(number)]
        try:
            if callable(previous):
                previous(number, frame)
        except BaseException as raised:
            interrupts.remember(raised)
            raise

    for number, previous in before.items():
        if callable(previous):
            signal.signal(number, handle)
    try:
        yield interrupts
    finally:
        for number, previous in before.items():
            if callable(previous):
                signal.signal(number, previous)
        interrupts.check()
