"""Tests of limits of time on a busy machine, which may delay any single attempt."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec

P = ParamSpec("P")
ATTEMPTS = 10


class LateError(AssertionError):
    """Something took longer than it may."""


def in_time_at_least_once(test: Callable[P, None]) -> Callable[P, None]:
    """Repeat a test that ends with LateError: what always takes too long fails every time."""

    @functools.wraps(test)
    def repeated(*arguments: P.args, **named: P.kwargs) -> None:
        for _ in range(ATTEMPTS - 1):
            try:
                return test(*arguments, **named)
            except LateError:
                pass
        return test(*arguments, **named)

    return repeated


def in_time_half_of(attempts: int) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Repeat a test until half of an even number of attempts have not ended with LateError.

    More late attempts than that fail: what is late more often than not is not the machine's fault.
    """
    half = attempts // 2

    def decorate(test: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(test)
        def repeated(*arguments: P.args, **named: P.kwargs) -> None:
            in_time = late = 0
            while in_time < half:
                try:
                    test(*arguments, **named)
                    in_time += 1
                except LateError:
                    late += 1
                    if late > half:
                        raise

        return repeated

    return decorate
