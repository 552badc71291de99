"""Find a centre in the windows of a max pooling: a pixel that belongs to no other window.

:mod:`vta_stages.emission.window_fold` folds windows that have centres.
"""

from __future__ import annotations

import numpy as np

from vta_stages.lowering.kernel import AxisMap, IndexArray, Source


def window_table(axis: AxisMap) -> IndexArray:
    """Return the input coordinates of every window, int64[outputs, taps]."""
    return axis.src.reshape(-1, axis.taps)


def centre_tap(axis: AxisMap) -> int | None:
    """Return the tap whose pixels belong to one window each, None if no tap has this property."""
    table = window_table(axis)
    for tap in range(axis.taps):
        others = np.delete(table, tap, axis=1)
        # A tap outside the picture repeats a pixel of the same window, perhaps the centre.
        foreign = others[others != table[:, tap, None]]
        if (
            len(np.unique(table[:, tap])) == len(table)
            and not np.isin(table[:, tap], foreign).any()
        ):
            return tap
    return None


def can_fold(source: Source) -> bool:
    """Return whether the windows of a pooling have centres along both axes."""
    return centre_tap(source.rows) is not None and centre_tap(source.cols) is not None
