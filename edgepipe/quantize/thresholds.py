"""How much of a tensor's range int8 should cover: three rules to choose a clipping threshold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgepipe.quantize.calibrate import BINS, TensorStatistics

PERCENTILE = 0.9999


def largest(statistics: TensorStatistics) -> float:
    """Cover everything seen."""
    return statistics.largest


def percentile(statistics: TensorStatistics) -> float:
    """Cover all but one value in ten thousand."""
    share = np.cumsum(statistics.counts) / max(int(statistics.counts.sum()), 1)
    edge = float(np.searchsorted(share, PERCENTILE) + 1) * statistics.bin_width
    return min(edge, statistics.largest)


def least_squares(statistics: TensorStatistics) -> float:
    """Minimise the mean squared error of rounding and clipping over the histogram."""
    if statistics.bin_width == 0.0:
        return 0.0
    middle = (np.arange(BINS) + 0.5) * statistics.bin_width
    candidates = statistics.largest * np.linspace(0.2, 1.0, 81)
    errors = []
    for candidate in candidates:
        step = candidate / 127
        inside = middle <= candidate + step / 2
        # Rounding errs by step^2 / 12; a value below half a step errs by its own size.
        fine = np.where(middle < step / 2, np.minimum(middle**2, step**2 / 12), step**2 / 12)
        error = np.where(inside, fine, (middle - candidate) ** 2)
        errors.append(float((statistics.counts * error).sum()))
    return float(candidates[int(np.argmin(errors))])


RULES: dict[str, Callable[[TensorStatistics], float]] = {
    "max": largest,
    "percentile": percentile,
    "mse": least_squares,
}
