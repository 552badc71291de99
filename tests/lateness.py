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
