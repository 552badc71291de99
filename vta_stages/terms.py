"""Residual terms: per-channel factors ``f * 2**k`` as diagonal int8 tiles and shifts in place.

The terms are added level by level, the largest power of two first. After each level the
accumulator is shifted left by the distance to the next, so what was added at level ``k`` ends up
times ``2**k``:

    factors 96 (= 96 * 2**0) and 4096 (= 64 * 2**6, or 1 * 2**12)   levels 12, 0
    acc = 1 * b;  acc <<= 12;  acc += 96 * a

A factor can sit on any level of a range, so as few levels are used as can serve every channel.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vta_stages.epilogue import EpilogueBuilder
from vta_stages.errors import LayerError
from vta_stages.isa import AluOp
from vta_stages.kernel import Accumulate, Immediate, Region, Source, Step, identity_axis
from vta_stages.layers import Term

HIGHEST_LEVEL = 16
"""The longest left shift: SHR by the 5-bit operand -16."""

LevelArray = NDArray[np.int64]


def add_terms(
    name: str, terms: Sequence[Term], block: int, builder: EpilogueBuilder
) -> tuple[list[Source], list[Step]]:
    """Return the sources and steps that add the terms to a zero accumulator.

    Raises LayerError for a factor that is not ``f * 2**k`` with f in int8 and k <= 16.
    """
    factors = [term.factor.astype(np.int64) for term in terms]
    ranges = [_level_range(name, term) for term in terms]
    levels = choose_levels(
        np.concatenate([low[factor != 0] for factor, (low, _) in zip(factors, ranges, strict=True)])
        if terms
        else np.zeros(0, np.int64),
        np.concatenate(
            [high[factor != 0] for factor, (_, high) in zip(factors, ranges, strict=True)]
        )
        if terms
        else np.zeros(0, np.int64),
    )
    sources: list[Source] = []
    steps: list[Step] = []
    for index, level in enumerate(levels):
        for term, factor, (low, high) in zip(terms, factors, ranges, strict=True):
            # Each channel of a term is added once, at the highest level that it can sit on.
            higher = [other for other in levels if other > level]
            taken = np.zeros(len(factor), bool)
            for other in higher:
                taken |= (low <= other) & (other <= high)
            here = (low <= level) & (level <= high) & ~taken & (factor != 0)
            mantissa = np.where(here, factor >> level, 0)
            if not mantissa.any():
                continue
            steps.append(Accumulate(len(sources)))
            sources.append(_term_source(term, mantissa.astype(np.int8), block))
            builder.widen(
                np.minimum(mantissa * -128, mantissa * 127),
                np.maximum(mantissa * -128, mantissa * 127),
            )
        below = levels[index + 1] if index + 1 < len(levels) else 0
        if level > below:
            steps.append(Immediate(AluOp.SHR, Region.MAIN, below - level))
            builder.scale(level - below)
    return sources, steps


def choose_levels(low: LevelArray, high: LevelArray) -> list[int]:
    """Return the fewest levels, descending, that hit every range ``low[i] .. high[i]``.

    Level 0 is where convolutions accumulate, so it serves a range that starts at 0 for nothing.
    """
    levels = [0] if (low == 0).any() else []
    left = low > 0
    while left.any():
        lowest_end = int(high[left].min())
        levels.append(lowest_end)
        left &= low > lowest_end
    return sorted(levels, reverse=True)


def _level_range(name: str, term: Term) -> tuple[LevelArray, LevelArray]:
    """Return per channel the lowest and the highest level at which the mantissa is an int8."""
    factor = term.factor.astype(np.int64)
    levels = np.arange(HIGHEST_LEVEL + 1)[:, None]
    mantissa = factor >> levels
    possible = (mantissa << levels == factor) & (mantissa >= -128) & (mantissa <= 127)
    hopeless = np.flatnonzero(~possible.any(axis=0))
    if len(hopeless):
        channel = int(hopeless[0])
        raise LayerError(
            f"{name}: term {term.tensor.name} has factor {int(factor[channel])} on channel "
            f"{channel}, expected f * 2**k with -128 <= f <= 127 and k <= {HIGHEST_LEVEL}",
            hint="choose the scale of the term's tensor so that the factor has at most 8 bits",
        )
    return possible.argmax(axis=0), HIGHEST_LEVEL - possible[::-1].argmax(axis=0)


def _term_source(term: Term, mantissa: NDArray[np.int8], block: int) -> Source:
    blocks = -(-len(mantissa) // block)
    lanes = np.zeros(blocks * block, np.int8)
    lanes[: len(mantissa)] = mantissa
    if (mantissa == mantissa[0]).all():
        lanes = np.full(block, mantissa[0])
    tiles = lanes.reshape(-1, 1, 1, block, 1) * np.eye(block, dtype=np.int8)
    return Source(
        tensor=term.tensor,
        rows=identity_axis(term.tensor.height),
        cols=identity_axis(term.tensor.width),
        tiles=tiles,
        tile_of_tap=np.zeros(1, np.int64),
        diagonal=True,
        ci_first=np.arange(blocks),
    )
