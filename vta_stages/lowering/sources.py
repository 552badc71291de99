"""Make sources: weights in blocks of channels, with the products that use them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vta_stages.accelerator import Accelerator
from vta_stages.layers.records import Int8Array, TensorSpec
from vta_stages.lowering.kernel import AxisMap, IndexArray, Source


def dense_source(
    tensor: TensorSpec, rows: AxisMap, cols: AxisMap, weight: Int8Array, groups: int, block: int
) -> Source:
    """Return the source of ``weight`` int8[co, ci / groups, taps], diagonal if possible."""
    out_channels, group_channels, taps = weight.shape
    co = np.arange(out_channels)
    ci = (co // (out_channels // groups) * group_channels)[:, None] + np.arange(group_channels)
    co_block, ci_block = co // block, ci // block
    co_blocks = int(co_block[-1]) + 1
    starts = np.arange(co_blocks) * block
    first = np.minimum.reduceat(ci_block[:, 0], starts)
    count = int((np.maximum.reduceat(ci_block[:, -1], starts) - first).max()) + 1
    first = np.minimum(first, -(-tensor.channels // block) - count)
    blocks = np.zeros((co_blocks, count, taps, block, block), np.int8)
    local = ci_block - first[co_block][:, None]
    blocks[co_block[:, None], local, :, (co % block)[:, None], ci % block] = weight
    diagonal = count == 1 and np.array_equal(first, np.arange(co_blocks))
    if diagonal and (blocks == blocks[0]).all():
        blocks = blocks[:1]
    weight_of_tap = np.arange(taps)
    if taps > 1 and (blocks == blocks[:, :, :1]).all():  # a mean: one block serves every tap
        blocks, weight_of_tap = blocks[:, :, :1], np.zeros(taps, np.int64)
    return Source(
        tensor=tensor,
        rows=rows,
        cols=cols,
        weights=blocks,
        weight_of_tap=weight_of_tap,
        diagonal=bool(diagonal),
        ci_first=first,
    )


def bands(accelerator: Accelerator, rows: AxisMap, cols: AxisMap) -> list[AxisMap]:
    """Divide ``rows`` so that one output pixel's products with each part fit the buffers.

    A mean over a large picture needs more pixels, or more uops, than half of a buffer holds.
    """
    most = min(accelerator.inp_depth // 2 - 1, accelerator.uop_depth // 2 // accelerator.parts)
    across = max(cols.most_products, 1)
    if rows.most_products * across <= most or across > most:
        return [rows]
    height = most // across
    count = -(-rows.most_products // height)
    return [
        AxisMap.of(
            rows.out[chosen], rows.src[chosen], rows.tap[chosen], rows.taps, rows.part[chosen]
        )
        for chosen in (rows.rank // height == band for band in range(count))
    ]


def scaled_copy(
    tensor: TensorSpec,
    rows: AxisMap,
    cols: AxisMap,
    values: Sequence[int],
    block: int,
    weight_of_tap: IndexArray,
) -> Source:
    """Return a source with the weights ``values``, the same for every channel.

    ``weight_of_tap`` is int64[taps], the index in ``values`` for each tap.
    """
    blocks = np.array(values, np.int8)[:, None, None] * np.eye(block, dtype=np.int8)
    return Source(
        tensor=tensor,
        rows=rows,
        cols=cols,
        weights=blocks[None, None],
        weight_of_tap=weight_of_tap,
        diagonal=True,
        ci_first=np.zeros(1, np.int64),
    )


def product_bounds(weight: Int8Array) -> tuple[IndexArray, IndexArray]:
    """Return the smallest and the largest possible sum of products per output channel.

    ``weight`` is int8[co, ...]; both results are int64[co].
    """
    wide = weight.reshape(len(weight), -1).astype(np.int64)
    low: IndexArray = np.minimum(wide * -128, wide * 127).sum(axis=1)
    high: IndexArray = np.maximum(wide * -128, wide * 127).sum(axis=1)
    return low, high
