"""The range of a tensor that a quantised network gives: what its integers stand for."""

from __future__ import annotations

from dataclasses import dataclass

_MOST_STEPS = 127  # of int8 on either side of zero
_ONE_CODE = 1.5  # steps: the last code may saturate if that keeps the given step


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenRange:
    """Real values from ``low`` to ``high``, in equal steps of ``step``.

    int8 with a zero point of 5 and a scale of 0.1 has low -13.3, high 12.2 and step 0.1.
    """

    low: float
    high: float
    step: float

    @property
    def largest(self) -> float:
        """The largest magnitude in the range."""
        return max(abs(self.low), abs(self.high))

    @property
    def int8_step(self) -> float:
        """The step with which int8 without a zero point covers the range, except its last code.

        It is the given step if the range has at most 128 of them on a side, and twice the given
        step for the 255 of an unsigned range. So a power of two remains one.
        """
        steps = self.largest / self.step
        if steps <= _MOST_STEPS + _ONE_CODE:
            return self.step
        if abs(steps - 2 * _MOST_STEPS) <= 2 * _ONE_CODE:
            return 2 * self.step
        return self.largest / _MOST_STEPS
