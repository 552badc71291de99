"""Turn the products of many channel blocks into few GEMM instructions without hazards.

The uops of an instruction cover the products of some pairs of blocks. Its two loops repeat them
for the other pairs: the outer loop along the reduction, the inner loop along the output blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vta_stages.lowering.kernel import IndexArray
from vta_stages.tiling.loop_split import loop_split
from vta_stages.tiling.patch import Products


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """``ci`` x ``co`` pairs of channel blocks, and the index steps from one block to the next.

    ``co_dst``, ``co_src`` and ``co_wgt`` are the steps to the next output block, ``ci_src`` and
    ``ci_wgt`` those to the next input block, in elements. The accumulator index does not depend
    on the input block.
    """

    co: int
    ci: int = 1
    co_dst: int
    co_src: int = 0
    ci_src: int = 0
    co_wgt: int = 0
    ci_wgt: int = 0

    def unroll(self, products: Products, co: int, ci: int) -> Products:
        """Return the products of ``ci`` x ``co`` pairs, input blocks outermost."""
        if co == ci == 1:
            return products
        i, o = (g.ravel()[:, None] for g in np.mgrid[:ci, :co])
        return Products(
            (products.dst + o * self.co_dst).ravel(),
            (products.src + o * self.co_src + i * self.ci_src).ravel(),
            (products.wgt + o * self.co_wgt + i * self.ci_wgt).ravel(),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GemmCall:
    """One GEMM instruction: its uops, and its loop counts and factors as (outer, inner)."""

    uops: Products
    loops: tuple[int, int]
    dst_factors: tuple[int, int]
    src_factors: tuple[int, int]
    wgt_factors: tuple[int, int]


def gemm_calls(
    products: Products, pairs: Pairs, *, hazard: int, longest: int, spare: int
) -> list[GemmCall]:
    """Return the instructions that compute ``products`` for all ``pairs``.

    Within an instruction, steps on the same accumulator entry are at least ``hazard`` steps apart.
    If a tile is too small for that, steps on the ``hazard`` entries from ``spare`` on fill the
    gaps. No instruction has more than ``longest`` uops.
    """
    co_u, ci_u = loop_split(len(products), pairs.co, pairs.ci)
    unrolled = pairs.unroll(products, co_u, ci_u)
    pieces = _split(unrolled, longest)
    loops = (pairs.ci // ci_u, pairs.co // co_u)
    if not all(_spread(piece.dst, hazard, loops) for piece in pieces):
        # Too few entries to keep the steps apart in plain order: interleave all output blocks.
        co_u, loops = pairs.co, (pairs.ci // ci_u, 1)
        unrolled, width = _in_rounds(pairs.unroll(products, co_u, ci_u), hazard, spare)
        # Whole rounds can be repeated safely, and so can parts that are multiples of the hazard.
        unit = width if width <= longest else hazard
        pieces = _split(unrolled, longest // unit * unit)
    outer, inner = int(loops[0] > 1) * ci_u, int(loops[1] > 1) * co_u
    return [
        GemmCall(
            uops=piece,
            loops=loops,
            dst_factors=(0, pairs.co_dst * inner),
            src_factors=(pairs.ci_src * outer, pairs.co_src * inner),
            wgt_factors=(pairs.ci_wgt * outer, pairs.co_wgt * inner),
        )
        for piece in pieces
    ]


def _split(products: Products, count: int) -> list[Products]:
    if len(products) <= count:
        return [products]
    return [
        Products(products.dst[at:end], products.src[at:end], products.wgt[at:end])
        for at, end in ((at, at + count) for at in range(0, len(products), count))
    ]


def _spread(dst: IndexArray, hazard: int, loops: tuple[int, int]) -> bool:
    """Return whether all steps on one accumulator entry are at least ``hazard`` steps apart."""
    order = np.argsort(dst, kind="stable")
    ordered = dst[order]
    same = ordered[1:] == ordered[:-1]
    if same.any() and int(np.diff(order)[same].min()) < hazard:
        return False
    if loops[0] == 1:
        return True
    starts = np.flatnonzero(np.concatenate([[True], ~same]))
    ends = np.append(starts[1:], len(dst)) - 1
    reach = order[ends] - order[starts]
    return int((len(dst) * loops[1] - reach).min()) >= hazard


def _in_rounds(products: Products, hazard: int, spare: int) -> tuple[Products, int]:
    """Return the products in rounds that use each entry once, and the length of a round in steps.

    A round has one place per accumulator entry, and its length is a multiple of ``hazard``. So
    steps on one entry stay far enough apart, however often the rounds are repeated. Places without
    a product become steps on the spare entries, which nothing reads.
    """
    entries, column = np.unique(products.dst, return_inverse=True)
    order = np.argsort(column, kind="stable")
    first = np.searchsorted(column[order], np.arange(len(entries)))
    turn = np.empty(len(order), np.int64)
    turn[order] = np.arange(len(order)) - first[column[order]]
    width = -(-len(entries) // hazard) * hazard
    dst = np.tile(spare + np.arange(width) % hazard, (int(turn.max()) + 1, 1))
    src = np.full(dst.shape, products.src[0])
    wgt = np.full(dst.shape, products.wgt[0])
    for table, values in ((dst, products.dst), (src, products.src), (wgt, products.wgt)):
        table[turn, column] = values
    return Products(dst.ravel(), src.ravel(), wgt.ravel()), width
