"""Signals in the middle of calls: what a test interrupts must end within 50 ms."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

SOON_S = 0.05  # how late an interrupt may be seen


class AlarmError(Exception):
    """What the tests' signal handler raises."""


@contextlib.contextmanager
def paused(process: int) -> Iterator[None]:
    """Stop a session's process over there, so that a call to it takes as long as the block."""
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
