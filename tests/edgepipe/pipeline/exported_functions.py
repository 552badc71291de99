"""Functions of every kind for the tests of exports; another process can import this module."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Function = Callable[[Array], Array]


def doubled(function: Function) -> Function:
    """Double what the function returns; the result has the function's own name."""

    @functools.wraps(function)
    def wrapper(x: Array) -> Array:
        return 2 * function(x)

    return wrapper


def increment(x: Array) -> Array:
    """Return x + 1."""
    return x + np.int32(1)


twice_incremented = doubled(increment)  # its name leads to increment


@doubled
def decorated(x: Array) -> Array:
    """Return 2 * (x + 3)."""
    return x + np.int32(3)


def adder(number: int) -> Function:
    """Return a closure: x + number."""

    def add(x: Array) -> Array:
        return x + np.int32(number)

    return add


class Scale:
    """Multiplies by a factor, as a method and when called."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def apply(self, x: Array) -> Array:
        """Return x * factor."""
        return x * np.int32(self.factor)

    def __call__(self, x: Array) -> Array:
        """Return x * factor + 1."""
        return self.apply(x) + np.int32(1)

    @staticmethod
    def negate(x: Array) -> Array:
        """Return -x."""
        return -x
