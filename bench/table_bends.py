"""How few straight pieces a table of int8 values has: what it would cost on the accelerator.

The accelerator has no tables. It can add straight lines and bends, ``max(m (x - k), 0)``, in fixed
point, and shift the sum, so it computes a table exactly if a line with bends stays within one step
of the result at each of the 256 values.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vta_stages.timing.cost_model import CostModel

Floats = NDArray[np.float64]


def fewest_bends(table: NDArray[np.int8]) -> int:
    """Return a lower bound on the bends of ``table`` int8[256], whatever the slopes.

    A shift rounds downwards, so the sum must lie from ``table[x]`` to ``table[x] + 1``; where the
    result is clipped, one side is open. Pieces may be as long as one line stays inside, and need
    not even meet: a line stays inside from i to j if the steepest slope that two values there
    require is at most the gentlest that two values allow.
    """
    low = np.where(table == -128, -np.inf, table.astype(np.float64))
    high = np.where(table == 127, np.inf, table.astype(np.float64) + 1)
    bends = start = 0
    required, allowed = -np.inf, np.inf
    for x in range(1, len(table)):
        before = np.arange(start, x)
        required = max(required, float(((low[x] - high[before]) / (x - before)).max()))
        allowed = min(allowed, float(((high[x] - low[before]) / (x - before)).min()))
        if required > allowed + 1e-9:  # rounding of the quotients
            bends, start = bends + 1, x
            required, allowed = -np.inf, np.inf
    return bends


def least_cycles(bends: int, cost: CostModel) -> int:
    """Return a lower bound on the cycles for the accumulator entry of 16 values.

    Each bend is a reset and two products (slope and offset), a MAX or MIN, and an ADD to the sum.
    Then come a shift and a clip. Loops, transfers and hazards are left out.
    """
    bend = 3 * cost.gemm_step_cycles + cost.alu_step_cycles + cost.vector_step_cycles
    return bends * bend + 2 * cost.gemm_step_cycles + 2 * cost.alu_step_cycles
