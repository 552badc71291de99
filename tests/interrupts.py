"""Signals in the middle of calls: an interrupted call must end within 50 ms."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

T = TypeVar("T")
SOON_S = 0.05  # how late an interrupt may be seen


class AlarmError(Exception):
    """The exception of the tests' signal handler."""


@contextlib.contextmanager
def paused(process: int) -> Iterator[None]:
    """Stop a session's process on the server, so that a call to it takes as long as the block."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)


@contextlib.contextmanager
def interrupted(after_s: float = 0.1) -> Iterator[None]:
    """Raise AlarmError from a signal handler; the block must end with it, within 50 ms."""
    rung: list[float] = []

    def ring(*_: object) -> None:
        rung.append(time.monotonic())
        raise AlarmError

    before = signal.signal(signal.SIGALRM, ring)
    sent: list[float] = []

    def send() -> None:
        sent.append(time.monotonic())
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)

    timer = threading.Timer(after_s, send)
    timer.start()
    try:
        with pytest.raises(AlarmError):
            yield
        assert time.monotonic() - sent[0] < SOON_S
    finally:
        timer.cancel()
        timer.join()
        signal.signal(signal.SIGALRM, before)


class Storm:
    """Interrupts calls at random moments and repeats them until they return."""

    def __init__(self) -> None:
        self.count = 0
        self._armed = False
        self._random = random.Random(7)

    def __call__(self, call: Callable[[], T], *, longest_s: float = 0.001) -> T:
        while True:
            returned = False
            try:
                self._armed = True
                signal.setitimer(signal.ITIMER_REAL, self._random.uniform(2e-6, longest_s))
                result = call()
                returned = True  # no signal handler can run between these three statements
                self._armed = False
            except AlarmError:
                self.count += 1
            finally:
                self._armed = False
            if returned:
                return result

    def after(self, delay_s: float) -> float:
        """Interrupt the running code in ``delay_s``; return the time of the interrupt."""
        self._armed = True
        signal.setitimer(signal.ITIMER_REAL, delay_s)
        return time.monotonic() + delay_s

    @contextlib.contextmanager
    def raging(self) -> Iterator[None]:
        """Handle the storm's signals."""

        def interrupt(*_: object) -> None:
            if self._armed:  # another thread may have got the signal, and been late
                self._armed = False
                raise AlarmError

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            yield
        finally:
            self._armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
