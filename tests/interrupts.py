"""Signals in the middle of calls."""

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
ATTEMPTS = 50  # a busy machine may delay any single one


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
    """Raise AlarmError from a signal handler; the block, which never ends alone, must end so."""

    def ring(*_: object) -> None:
        raise AlarmError

    before = signal.signal(signal.SIGALRM, ring)
    main = threading.main_thread().ident or 0
    timer = threading.Timer(after_s, signal.pthread_kill, (main, signal.SIGALRM))
    timer.start()
    try:
        with pytest.raises(AlarmError):
            yield
    finally:
        timer.cancel()
        timer.join()
        signal.signal(signal.SIGALRM, before)


def assert_interrupted_soon(wait: Callable[[], object], what: str = "") -> None:
    """Check that a call that never ends alone ends within 50 ms of an interrupt."""
    storm = Storm()
    lags: list[float] = []
    with storm.raging():
        while not lags or (min(lags) >= SOON_S and len(lags) < ATTEMPTS):
            due = storm.after(0.1)
            with pytest.raises(AlarmError):
                wait()
            lags.append(time.monotonic() - due)
    assert min(lags) < SOON_S, what


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

    def rounds(self, fewest: int, *, interrupts: int) -> Iterator[int]:
        """Count from 0 for ``fewest`` rounds, and on until ``interrupts`` calls were interrupted.

        How many calls a storm hits depends on how fast the machine is.
        """
        for number in range(1000 * fewest):
            if number >= fewest and self.count >= interrupts:
                return
            yield number
        raise AssertionError(f"found {self.count} interrupted calls, expected {interrupts}")

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
