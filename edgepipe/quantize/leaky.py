"""Leaky ReLU in shifts and adds: which steps stand for a slope, and what they do to rounding."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

from vta_stages.layers import Leaky

Steps = tuple[tuple[int, bool], ...]
MAX_STEPS = 3
MAX_STEP_SHIFT = 7


def slope_of(steps: Steps) -> Fraction:
    """Return the factor that ``steps`` apply to ``v``."""
    slope = Fraction(1)
    for shift, add in steps:
        slope = slope / (1 << shift) + (1 if add else 0)
    return slope


def steps_for(slope: float, *, most: int = MAX_STEPS) -> Steps:
    """Return the steps of at most ``most`` shifts whose slope is nearest; fewer win a tie.

    The last step never adds (the slope stays below one). A slope of 0.1 gives 13/128 in three
    shifts and 3/32 in two.
    """
    best: tuple[float, int, Steps] | None = None
    for count in range(1, most + 1):
        for shifts in product(range(1, MAX_STEP_SHIFT + 1), repeat=count):
            steps = tuple((shift, index < count - 1) for index, shift in enumerate(shifts))
            error = abs(float(slope_of(steps)) - slope)
            if best is None or (error, count) < best[:2]:
                best = (error, count, steps)
    assert best is not None
    return best[2]


def leaky(slope: float, shift: NDArray[np.int32], *, most: int = MAX_STEPS) -> Leaky:
    """Return the record for ``slope`` on an accumulator that is shifted right by ``shift`` after.

    ``v`` carries the rounding constant ``r = 2**(shift-1)``. The branch must give
    ``slope * (v - r) + r`` (plus half a step of its own truncations), and the offset is added
    before the slope is applied, so it is ``r * (1 - slope) / slope`` and what makes up for them.
    """
    steps = steps_for(slope, most=most)
    exact = slope_of(steps)
    half = np.where(shift > 0, 1 << np.maximum(shift - 1, 0), 0).astype(np.int64)
    loss = Fraction(0)  # mean of what the flooring shifts take away, in units of the result
    gain_after = Fraction(1)
    for step, _ in reversed(steps):
        loss += gain_after * Fraction((1 << step) - 1, 1 << (step + 1))
        gain_after /= 1 << step
    first_gain = gain_after  # what an offset added before the first step becomes
    wanted = [(int(h) * (1 - exact) + loss) / first_gain for h in half]
    return Leaky(offset=np.array([round(w) for w in wanted], np.int32), steps=steps)
