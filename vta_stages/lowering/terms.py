"""Residual terms: per-channel factors ``f * 2**k`` as diagonal int8 weights and one shift.

A factor outside int8 is added in one of two ways, whichever takes fewer cycles for all terms:

    in pieces        366 = 127 + 127 + 112              acc += 127 a;  acc += 127 a;  acc += 112 a
    below a shift    1552 = 97 << 4                     acc += 97 a;   acc <<= 4

The shift moves everything in the accumulator, so it comes before all other products. Its operand is
a vector, so each channel has its own distance, which all terms before the shift share. Where they
cannot share a distance, factors are split: ``1555 = (97 << 4) + 3``. If the accelerator's vectors
may not shift left, all channels share the distance, too, which an immediate can hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from vta_stages.errors import LayerError
from vta_stages.layers.records import Term
from vta_stages.lowering.axis_maps import identity_axis
from vta_stages.lowering.epilogue import EpilogueBuilder
from vta_stages.lowering.kernel import Accumulate, Source, Step

LONGEST_LEFT_SHIFT = 16
"""In bits; SHR with the 5-bit operand -16."""

SHIFT_STEPS = 2
"""The cost of the vector operation, in GEMM steps."""

MOST_TERMS = 6
"""From this term on, either all or none are added before the shift."""

LARGEST_IN_PIECES = 64 * 127
"""Enough for every factor before a shift of 13 and for the remainder that the shift cuts off."""

FactorArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class TermPlan:
    """Products (term, mantissa) before and after a left shift; all arrays are int64[channels]."""

    shifted: tuple[tuple[int, FactorArray], ...]
    shift: FactorArray
    plain: tuple[tuple[int, FactorArray], ...]

    @property
    def steps(self) -> int:
        """The cost per accumulator entry, in GEMM steps."""
        count = len(self.shifted) + len(self.plain)
        return count + (SHIFT_STEPS if self.shift.any() else 0)


def add_terms(
    name: str, terms: Sequence[Term], block: int, builder: EpilogueBuilder
) -> tuple[list[Source], list[Step]]:
    """Return the sources and steps that add the terms to a cleared accumulator.

    Raises LayerError for a factor that is not ``f * 2**k`` with f in int8 and k <= 16.
    """
    if not terms:
        return [], []
    for term in terms:
        _check_factors(name, term)
    factors = [term.factor.astype(np.int64) for term in terms]
    plan = plan_terms(factors, one_distance=not builder.shifts_left)
    sources: list[Source] = []
    steps: list[Step] = []

    def add(products: Sequence[tuple[int, FactorArray]]) -> None:
        for index, mantissa in products:
            steps.append(Accumulate(len(sources)))
            sources.append(_term_source(terms[index], mantissa.astype(np.int8), block))
            builder.widen(
                np.minimum(mantissa * -128, mantissa * 127),
                np.maximum(mantissa * -128, mantissa * 127),
            )

    add(plan.shifted)
    if plan.shift.any():
        steps += builder.shift_left(plan.shift)
    add(plan.plain)
    return sources, steps


def plan_terms(factors: Sequence[FactorArray], *, one_distance: bool = False) -> TermPlan:
    """Return the cheapest plan to multiply by ``factors``, one int64[channels] per term.

    With ``one_distance``, all channels are shifted by the same distance, without a vector.
    """
    plans = _plans(factors)
    if one_distance:
        plans = (plan for plan in plans if (plan.shift == plan.shift[0]).all())
    return min(plans, key=lambda plan: plan.steps)


def _plans(factors: Sequence[FactorArray]) -> Iterator[TermPlan]:
    none = np.zeros_like(factors[0])
    everywhere = range(len(factors))
    if max(int(np.abs(factor).max()) for factor in factors) <= LARGEST_IN_PIECES:
        yield TermPlan((), none, tuple(_pieces(factors, everywhere)))
    for choice in product((False, True), repeat=min(len(factors), MOST_TERMS)):
        low = [t for t in everywhere if choice[min(t, MOST_TERMS - 1)]]
        high = [t for t in everywhere if t not in low]
        if (
            not low
            or max((int(np.abs(factors[t]).max()) for t in high), default=0) > LARGEST_IN_PIECES
        ):
            continue
        shift = common_shift([factors[t] for t in low])
        if shift is not None:
            below = tuple((t, factors[t] >> shift) for t in low if factors[t].any())
            yield TermPlan(below, shift, tuple(_pieces(factors, high)))
    # One distance for all channels always works: the remainders are added after the shift.
    for distance in range(1, LONGEST_LEFT_SHIFT + 1):
        shift = np.full_like(none, distance)
        rounded = [(factor + (1 << (distance - 1))) >> distance for factor in factors]
        rest = [factor - (part << distance) for factor, part in zip(factors, rounded, strict=True)]
        if max(int(np.abs(part).max()) for part in rounded + rest) <= LARGEST_IN_PIECES:
            yield TermPlan(
                tuple(_pieces(rounded, everywhere)), shift, tuple(_pieces(rest, everywhere))
            )


def common_shift(factors: Sequence[FactorArray]) -> FactorArray | None:
    """Return the shortest shift per channel, int64[channels], that makes all factors fit int8.

    Returns None if there is none. Prefers one distance for all channels, which needs no vector.
    """
    distances = np.arange(LONGEST_LEFT_SHIFT + 1)[:, None]
    possible = np.ones((len(distances), len(factors[0])), bool)
    for factor in factors:
        mantissa = factor >> distances
        possible &= (mantissa << distances == factor) & (np.abs(mantissa) <= 127)
    if not possible.any(axis=0).all():
        return None
    uniform = np.flatnonzero(possible.all(axis=1))
    shortest: FactorArray = possible.argmax(axis=0).astype(np.int64)
    return np.full_like(shortest, uniform[0]) if len(uniform) else shortest


def _pieces(
    factors: Sequence[FactorArray], chosen: Sequence[int]
) -> Iterator[tuple[int, FactorArray]]:
    """Yield (term, mantissa) with int8 mantissas that add up to the chosen factors."""
    for index in chosen:
        left = factors[index]
        while left.any():
            piece = np.clip(left, -127, 127)
            yield index, piece
            left = left - piece


def _check_factors(name: str, term: Term) -> None:
    factor = term.factor.astype(np.int64)
    distances = np.arange(LONGEST_LEFT_SHIFT + 1)[:, None]
    mantissa = factor >> distances
    possible = (mantissa << distances == factor) & (mantissa >= -128) & (mantissa <= 127)
    hopeless = np.flatnonzero(~possible.any(axis=0))
    if len(hopeless):
        channel = int(hopeless[0])
        raise LayerError(
            f"{name}: term {term.tensor.name} has factor {int(factor[channel])} on channel "
            f"{channel}, expected f * 2**k with -128 <= f <= 127 and k <= {LONGEST_LEFT_SHIFT}",
            hint="choose the scale of the term's tensor so that the factor has at most 8 bits",
        )


def _term_source(term: Term, mantissa: NDArray[np.int8], block: int) -> Source:
    blocks = -(-len(mantissa) // block)
    lanes = np.zeros(blocks * block, np.int8)
    lanes[: len(mantissa)] = mantissa
    if (mantissa == mantissa[0]).all():
        lanes = np.full(block, mantissa[0])
    weights = lanes.reshape(-1, 1, 1, block, 1) * np.eye(block, dtype=np.int8)
    return Source(
        tensor=term.tensor,
        rows=identity_axis(term.tensor.height),
        cols=identity_axis(term.tensor.width),
        weights=weights,
        weight_of_tap=np.zeros(1, np.int64),
        diagonal=True,
        ci_first=np.arange(blocks),
    )
