"""Check integers from a user; anything else raises one clear error."""

from __future__ import annotations

import operator
from typing import SupportsIndex, TypeGuard

import numpy as np

from edgepipe.errors import EdgepipeError, PipelineError

MOST_CORE = 1023  # limit of cpu_set_t


def whole_number(
    what: str,
    value: object,
    *,
    at_least: int,
    at_most: int | None = None,
    hint: str | None = None,
    error: type[EdgepipeError] = PipelineError,
) -> int:
    """Return ``value`` as an int; accepts Python's and NumPy's ints, but not bool, float or text.

    Raises ``error``, which says what was found and what is expected.
    """
    expected = f"{at_least} or more" if at_most is None else f"{at_least} to {at_most}"
    if not is_whole_number(value):
        raise error(f"{what} is {value!r}, expected a whole number, {expected}", hint=hint)
    number = operator.index(value)
    if number < at_least or (at_most is not None and number > at_most):
        raise error(f"{what} is {number}, expected {expected}", hint=hint)
    return number


def slot_count(slots: object) -> int:
    """Return how many frames may be in flight; 0 for None, the default.

    Raises PipelineError for anything but a whole number of at least 1.
    """
    if slots is None:
        return 0
    return whole_number("slots", slots, at_least=1, hint="omit slots to use the default")


def core_number(what: str, core: object) -> int:
    """Return a core's number; raise PipelineError for an impossible one."""
    hint = "omit core to let the thread run on any"
    return whole_number(what, core, at_least=0, at_most=MOST_CORE, hint=hint)


def is_whole_number(value: object) -> TypeGuard[SupportsIndex]:
    """Whether a value is Python's or NumPy's int, but not a bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
