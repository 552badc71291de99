"""Biases, one value per channel, as products: a fixed input vector times weight blocks.

The input vector holds 127 in every lane except the last, which holds 1. One row of a weight block
can then produce any value up to 127 * 127 * (block - 1) + 63 in magnitude. That takes one GEMM
step per accumulator entry; the ALU takes two cycles to add a vector.
"""

from __future__ import annotations

import numpy as np

from vta_stages.accelerator import Accelerator
from vta_stages.layers.records import Int8Array, Int32Array

LANE = 127
"""What a lane of the input vector holds, and the largest weight."""


def largest_bias(block: int) -> int:
    """Return the largest magnitude that one row of a weight block can produce."""
    return LANE * LANE * (block - 1) + LANE // 2


def bias_input(accelerator: Accelerator) -> Int8Array:
    """Return the input vector, int8[batch, block_in], the same in every row of the batch."""
    lanes = np.full(accelerator.block_in, LANE, np.int8)
    lanes[-1] = 1
    return np.tile(lanes, (accelerator.batch, 1))


def bias_weights(values: Int32Array, block: int) -> Int8Array:
    """Return weight blocks int8[n, lanes / block, block, block] that produce ``values``.

    ``values`` is int32[n, lanes]; no magnitude may exceed :func:`largest_bias`.
    """
    flat = values.astype(np.int64).ravel()
    left = (flat + LANE // 2) // LANE
    blocks = np.zeros((len(flat), block), np.int8)
    blocks[:, -1] = flat - left * LANE
    for lane in range(block - 1):
        blocks[:, lane] = np.clip(left, -LANE, LANE)
        left = left - blocks[:, lane]
    return blocks.reshape(len(values), -1, block, block)
