"""Which of many partial placements can still be the best: those that no other one dominates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MOST_AT_ONCE = 1500  # of one group, compared with each other in one matrix


def undominated(keys: NDArray[np.int64], costs: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the indices of the rows of ``costs`` that no other row with the same key dominates.

    ``keys`` is int64[n] and ``costs`` float64[n, m]. A row dominates another if none of its costs
    is higher; of equal rows the first is kept. Of more than 1500 rows with one key, only
    neighbours in the order of costs are compared, so some dominated ones can be left.
    """
    if not len(keys):
        return np.zeros(0, np.intp)
    order = np.lexsort((*costs.T[::-1], keys))
    keys, costs = keys[order], costs[order]
    first = np.concatenate([[True], keys[1:] != keys[:-1]])
    kept: NDArray[np.bool_] = first.copy()
    if costs.shape[1] == 2:
        kept |= _falls(np.cumsum(first), costs[:, 1])
    elif costs.shape[1] > 2:
        _keep_undominated(kept, first, costs)
    found: NDArray[np.intp] = order[kept]
    return found


def _keep_undominated(
    kept: NDArray[np.bool_], first: NDArray[np.bool_], costs: NDArray[np.float64]
) -> None:
    """Mark what no earlier row of a group dominates; ``first`` is where groups begin."""
    starts = np.flatnonzero(first)
    for begin, end in zip(starts, [*starts[1:], len(first)], strict=True):
        for at in range(begin, end, _MOST_AT_ONCE):
            part = costs[at : min(at + _MOST_AT_ONCE, end)]
            no_higher = np.ones((len(part), len(part)), bool)
            for column in part.T:
                no_higher &= column[:, None] <= column
            kept[at : at + len(part)] = ~np.triu(no_higher, 1).any(0)


def _falls(groups: NDArray[np.int_], costs: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return where a cost is lower than all before it in its group; groups are in order."""
    step = costs.max() - costs.min() + 1
    falling = costs - groups * step
    lowest = np.minimum.accumulate(falling)
    found: NDArray[np.bool_] = np.concatenate([[True], falling[1:] < lowest[:-1]])
    return found
