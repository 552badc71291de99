"""Constants per channel through the matrix unit: a fixed input vector times a tile.

The input vector is 127 in every lane but the last, which is 1. A tile row then makes any value up
to 127 * 127 * (block - 1) + 63 in one GEMM step, where adding a vector takes the ALU two cycles.
"""

from __future__ import annotations

import numpy as np

from vta_stages.accelerator import Accelerator
from vta_stages.layers.records import Int8Array, Int32Array

STEP = 127


def largest_constant(block: int) -> int:
    """Return the largest magnitude that one tile row can make."""
    return STEP * STEP * (block - 1) + STEP // 2


def constant_element(accelerator: Accelerator) -> Int8Array:
    """Return the input vector, ``int8[batch, block]``."""
    lanes = np.full(accelerator.block_in, STEP, np.int8)
    lanes[-1] = 1
    return np.tile(lanes, (accelerator.batch, 1))


def constant_tiles(values: Int32Array, block: int) -> Int8Array:
    """Return ``int8[n, lanes / block, block, block]`` tiles that make ``values`` int32[n, lanes].

    Values must not exceed :func:`largest_constant`.
    """
    flat = values.astype(np.int64).ravel()
    left = (flat + STEP // 2) // STEP
    tiles = np.zeros((len(flat), block), np.int8)
    tiles[:, -1] = flat - left * STEP
    for lane in range(block - 1):
        tiles[:, lane] = np.clip(left, -STEP, STEP)
        left = left - tiles[:, lane]
    return tiles.reshape(len(values), -1, block, block)
