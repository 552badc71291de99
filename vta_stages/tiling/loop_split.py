"""Divide the channel blocks of a product sequence between uops and loops."""

from __future__ import annotations

TARGET_UOPS = 512
"""Long enough to hide the cost of a loop iteration, and several sequences fit the uop buffer."""


def loop_split(products: int, co: int, ci: int) -> tuple[int, int]:
    """Return how many output and input blocks the uops cover; the loops cover the rest.

    ``products`` is their number for one pair of blocks. The results divide ``co`` and ``ci``.
    """
    co_unrolled = _largest_divisor(co, TARGET_UOPS // max(products, 1))
    ci_unrolled = 1
    if products * co_unrolled < TARGET_UOPS // 8:
        ci_unrolled = _largest_divisor(ci, TARGET_UOPS // max(products * co_unrolled, 1))
    return co_unrolled, ci_unrolled


def _largest_divisor(value: int, limit: int) -> int:
    return next(d for d in range(min(value, max(limit, 1)), 0, -1) if value % d == 0)
