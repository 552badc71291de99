"""Max pooling that copies every input pixel to the accumulator only once.

If the windows of a pooling share pixels only at their rims, each window has a centre that belongs
to no other. The centres go to MAIN and all other pixels of the patch to TEMP. Then columns are
folded into the centre column of every row, and rows into the centre row:

    window 3x3, stride 2      a b a        b max= a, a     on the rim's rows, in TEMP
    (C in MAIN, rest in       b C b        C max= b, b     on the centre row
    TEMP)                     a b a        C max= b, b     down the centre column

Folds of shared rim pixels serve two windows, so 3x3 at stride 2 takes 20 cycles per output entry.
Comparing nine copies would take 34.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vta_stages.lowering.kernel import AxisMap, IndexArray, Source
from vta_stages.lowering.window_centres import centre_tap, window_table
from vta_stages.tiling.patch import AxisRange, OutputArea, Patch


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """Steps from pixel ``src[i]`` to pixel ``dst[i]``, int64[n] each."""

    dst: IndexArray
    src: IndexArray


@dataclass(frozen=True, slots=True, eq=False)
class WindowFold:
    """The work of one tile: copies to MAIN and TEMP, then folds within TEMP and into MAIN."""

    to_main: Moves
    to_temp: Moves
    in_temp: tuple[Moves, ...]
    into_main: tuple[Moves, ...]

    @property
    def folds(self) -> int:
        """How many steps of the vector unit the folds take."""
        return sum(len(moves.dst) for moves in (*self.in_temp, *self.into_main))


def window_fold(source: Source, area: OutputArea, patch: Patch) -> WindowFold:
    """Return the moves of one output area.

    The source's windows must have centres (:func:`~vta_stages.lowering.window_centres.can_fold`).
    """
    centre_y, centre_x = centre_tap(source.rows) or 0, centre_tap(source.cols) or 0
    rows = _local(source.rows, area.rows, patch.rows)
    cols = _local(source.cols, area.cols, patch.cols)
    width = patch.cols.count
    pixel = np.arange(area.pixels).reshape(area.height, area.width)
    row_centres, col_centres = rows[:, centre_y], cols[:, centre_x]
    all_rows, all_cols = np.unique(rows), np.unique(cols)
    rim_rows = np.setdiff1d(all_rows, row_centres)
    y, x = (grid.ravel() for grid in np.meshgrid(all_rows, all_cols, indexing="ij"))
    temp = ~(np.isin(y, row_centres) & np.isin(x, col_centres))
    copied = (y * width + x)[temp]

    in_temp, into_main = [], []
    for tap in np.delete(np.arange(source.cols.taps), centre_x):
        moved = cols[:, tap] != col_centres
        ends, starts = col_centres[moved], cols[moved, tap]
        in_temp.append(Moves(_grid(rim_rows, ends, width), _grid(rim_rows, starts, width)))
        into_main.append(Moves(pixel[:, moved].ravel(), _grid(row_centres, starts, width)))
    for tap in np.delete(np.arange(source.rows.taps), centre_y):
        moved = rows[:, tap] != row_centres
        starts = rows[moved, tap]
        into_main.append(Moves(pixel[moved].ravel(), _grid(starts, col_centres, width)))
    return WindowFold(
        to_main=Moves(pixel.ravel(), _grid(row_centres, col_centres, width)),
        to_temp=Moves(copied, copied),
        in_temp=tuple(moves for moves in in_temp if len(moves.dst)),
        into_main=tuple(moves for moves in into_main if len(moves.dst)),
    )


def _local(axis: AxisMap, outputs: tuple[int, int], span: AxisRange) -> IndexArray:
    local: IndexArray = (window_table(axis)[slice(*outputs)] - span.first) // span.step
    return local


def _grid(rows: IndexArray, cols: IndexArray, width: int) -> IndexArray:
    return (rows[:, None] * width + cols).ravel()
