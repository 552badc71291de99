"""Interrupts that cannot get lost in code that catches every exception."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Literal

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """The interrupts in a block of :func:`remembered`: an exception each, or too late."""

    def __init__(self) -> None:
        self._raised: list[BaseException] = []
        self._late: list[int] = []
        self.committed = False

    def remember(self, raised: BaseException) -> None:
        """Keep an exception that a signal handler raises."""
        self._raised.append(raised)

    def hold_back(self, number: int) -> None:
        """Keep a signal that came after ``commit``."""
        self._late.append(number)

    def commit(self) -> None:
        """Pass the point of no return: an interrupt is seen here at the latest, or comes too late.

        Call it before the first of several changes that only make sense together. Raises the
        exception of an earlier interrupt; a later one raises nothing until the end of the block.
        """
        self.check()
        self.committed = True  # a signal handler runs before or after this, never within

    def release(self) -> None:
        """Send the signals that were held back again, now to the handlers outside the block."""
        while self._late:
            signal.raise_signal(self._late.pop(0))

    def check(self) -> None:
        """Raise the first exception again if the code in between has swallowed it."""
        if self._raised:
            raise self._raised[0]


@contextmanager
def remembered(late: Literal["raised", "ignored"] = "raised") -> Iterator[Interrupts]:
    """Make sure that an interrupt in this block ends it.

        with remembered() as interrupts:
            module = import_model()   # may catch KeyboardInterrupt, or turn it into another error
            interrupts.check()        # ends here if it was interrupted
            interrupts.commit()       # ends here, or not any more
            old.rename(...)
            new.rename(...)

    Foreign code (TVM's importer and passes, destructors) may swallow what a signal handler raises,
    and go on with a wrong result. Whatever the handlers of SIGINT and SIGTERM raise is raised again
    at the next ``check`` and at the end of the block, also in place of another error.

    After ``commit``, an interrupt is ``"raised"`` when the block has ended. A program whose work is
    then done has it ``"ignored"``: both signals, also after the block, so that it ends with success
    however late they come. Python runs handlers in the main thread; in other threads this does
    nothing.
    """
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def handle(number: int, frame: FrameType | None) -> None:
        if interrupts.committed:
            interrupts.hold_back(number)
            return
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
        ignored = interrupts.committed and late == "ignored"
        for number, previous in before.items():
            if callable(previous):
                signal.signal(number, signal.SIG_IGN if ignored else previous)
        interrupts.check()
        if not ignored:
            interrupts.release()
