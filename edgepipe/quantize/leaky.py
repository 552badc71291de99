"""Leaky ReLU in shifts and additions: the steps for a slope, and their effect on rounding."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from vta_stages.layers.records import Leaky, LeakySum

Steps = tuple[tuple[int, LeakySum], ...]
MAX_STEPS = 3
MAX_STEP_SHIFT = 7
_MOST_OFFSET = float(1 << 30)
"""An accumulator stays within 2**30, so with this much more it stays in int32."""
_MOST_SHIFT = 31
TOLERANCE = 1 / 512
"""A slope within this distance causes an error of at most a quarter of an output step in 128
steps."""


@dataclass(frozen=True, slots=True)
class _Form:
    """A value as ``v * gain + offset * share - loss``; all are dyadic, so floats hold them exactly.

    ``loss`` is the mean of what the flooring shifts have removed.
    """

    gain: float
    share: float
    loss: float

    def shifted(self, shift: int) -> _Form:
        part = 2.0**-shift
        return _Form(self.gain * part, self.share * part, self.loss * part + (1 - part) / 2)

    def plus(self, other: _Form) -> _Form:
        return _Form(self.gain + other.gain, self.share + other.share, self.loss + other.loss)


def _forms(steps: Steps) -> tuple[_Form, _Form]:
    """Return the value and the branch after ``steps``."""
    value, branch = _Form(1.0, 0.0, 0.0), _Form(1.0, 1.0, 0.0)
    for shift, sum_ in steps:
        branch = branch.shifted(shift)
        if sum_ is LeakySum.TO_BRANCH:
            branch = branch.plus(value)
        elif sum_ is LeakySum.TO_VALUE:
            value = value.plus(branch)
    return value, branch


def slope_of(steps: Steps) -> float:
    """Return the gain of ``steps`` for negative values divided by that for positive values."""
    value, branch = _forms(steps)
    return branch.gain / value.gain


def gain_of(steps: Steps) -> float:
    """Return the factor that ``steps`` apply to positive values."""
    return _forms(steps)[0].gain


def gain_for(slope: float, *, most: int = MAX_STEPS) -> float:
    """Return the factor that an activation with ``slope`` applies to positive accumulators."""
    return 1.0 if slope == 1.0 else gain_of(steps_for(slope, most=most))


@cache
def steps_for(slope: float, *, most: int = MAX_STEPS) -> Steps:
    """Return steps of at most ``most`` shifts: the cheapest close to ``slope``, or the closest.

    The slope stays below one, and at most one step adds to the value, so no sum is twice its
    initial value. 0.1 gives ``((2, TO_VALUE), (1, NOTHING))``, which is exact.
    """
    choices = []
    for count in range(1, most + 1):
        for sums in product(LeakySum, repeat=count):
            if sums.count(LeakySum.TO_VALUE) > 1 or sums[-1] is LeakySum.TO_BRANCH:
                continue
            passes = count + sum(sum_ is not LeakySum.NOTHING for sum_ in sums)
            for shifts in product(range(1, MAX_STEP_SHIFT + 1), repeat=count):
                steps = tuple(zip(shifts, sums, strict=True))
                error = abs(slope_of(steps) - slope)
                choices.append((0.0 if error <= TOLERANCE else error, passes, error, steps))
    return min(choices)[-1]


@cache
def longest_leaky_shift(slope: float, *, most: int = MAX_STEPS) -> int:
    """Return the longest shift of an accumulator whose constants for ``slope`` fit beside it.

    The branch loses the bits of its own shifts before it is shifted, and its rounding constant
    grows with them: for 0.01, it is ``2**(shift + 8)``.
    """
    shifts = np.arange(_MOST_SHIFT + 1, dtype=np.int64)
    constants = np.abs(_constants(steps_for(slope, most=most), shifts)).max(axis=0)
    return int(shifts[constants <= _MOST_OFFSET].max())


def leaky(
    slope: float, shift: NDArray[np.int32], *, most: int = MAX_STEPS
) -> tuple[Leaky, NDArray[np.int64]]:
    """Return the record for ``slope`` on an accumulator that is then shifted right by ``shift``.

    Also returns the bias that its value needs, int64[channels]. At the end, both the value and the
    branch must include the rounding constant ``2**(shift-1)`` and what their own shifts removed.
    The two constants, bias and offset, ensure this. The offset needs a shift of at most
    :func:`longest_leaky_shift`.
    """
    steps = steps_for(slope, most=most)
    bias, offset = np.rint(_constants(steps, shift))
    return Leaky(offset=offset.astype(np.int32), steps=steps), bias.astype(np.int64)


def _constants(steps: Steps, shift: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return bias and offset float64[2, channels] of :func:`leaky`, not yet rounded."""
    value, branch = _forms(steps)
    half = np.where(shift > 0, 2.0 ** np.maximum(shift - 1, 0), 0.0)
    matrix = np.array([[value.gain, value.share], [branch.gain, branch.share]])
    return np.linalg.solve(matrix, np.stack([half + value.loss, half + branch.loss]))
