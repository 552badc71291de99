"""Products of two tensors, on accelerators with the extension MULTIPLY.

MULTIPLY takes the low 16 bits of two accumulators. So one tensor is copied to MAIN and the other to
TEMP, with factors whose product is the layer's:

    acc = x * y * 1552      MAIN = x * 16;  TEMP = y * 97;  MAIN *= TEMP

A tensor that is broadcast is copied to each of the output's pixels or channels. One that has a
single pixel, as a gate for each channel has, is copied once for each tile: all its pixels are
multiplied with the same accumulators.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vta_stages.errors import LayerError
from vta_stages.isa.instructions import AluOp
from vta_stages.layers.records import Product, TensorSpec
from vta_stages.lowering.axis_maps import broadcast_axis
from vta_stages.lowering.epilogue import EpilogueBuilder
from vta_stages.lowering.kernel import (
    Accumulate,
    Accumulator,
    Combine,
    Immediate,
    Reset,
    Source,
    Step,
    Vector,
)
from vta_stages.lowering.sources import dense_source
from vta_stages.lowering.terms import add_terms

LONGEST_FACTOR_SHIFT = 6
"""Bits that a factor may have beside its int8 mantissa: an int8 weight holds powers up to 2**6."""

FactorArray = NDArray[np.int64]


def multiply(
    layer: Product, block: int, builder: EpilogueBuilder
) -> tuple[list[Source], list[Step]]:
    """Return the sources and steps that leave a product with its terms in a cleared accumulator.

    Raises LayerError for a factor that is not ``f * 2**k`` with f in int8 and k up to
    :data:`LONGEST_FACTOR_SHIFT`, and for terms that do not fit.
    """
    power, mantissa = _split_factors(layer)
    term_sources, term_steps = add_terms(layer.name, layer.terms, block, builder)
    largest = 128 * 128 * np.abs(power * mantissa)
    builder.widen(-largest, largest)
    main, temp = Accumulator.MAIN, Accumulator.TEMP
    first, second = layer.first, layer.second
    if _is_pixel(first):
        first, second = second, first
    other = Accumulator.CHANNELS if _is_pixel(second) else temp
    sources = [
        copied_operand(first, layer.output, power, block),
        copied_operand(second, layer.output, mantissa, block),
    ]
    steps: list[Step] = [
        Accumulate(0, main),
        Reset(other),
        Accumulate(1, other),
        Combine(AluOp.MULTIPLY, main, other),
    ]
    # Terms below a shift have an accumulator of their own, because it moves everything.
    has_shift = any(not isinstance(step, Accumulate) for step in term_steps)
    target = temp if has_shift else main
    steps += [Reset(temp)] if has_shift else []
    for step in term_steps:
        if isinstance(step, Accumulate):
            steps.append(replace(step, source=step.source + len(sources), target=target))
        else:
            assert isinstance(step, Immediate | Vector)
            steps.append(replace(step, target=target))
    steps += [Combine(AluOp.ADD, main, temp)] if has_shift else []
    return sources + term_sources, steps


def _split_factors(layer: Product) -> tuple[FactorArray, FactorArray]:
    """Return powers of two and int8 mantissas whose products are the layer's factors.

    Both are int64[channels]; the powers are the smallest ones.
    """
    factors = layer.factor.astype(np.int64)
    distances = np.arange(LONGEST_FACTOR_SHIFT + 1)[:, None]
    mantissa = factors >> distances
    possible = (mantissa << distances == factors) & (mantissa >= -128) & (mantissa <= 127)
    hopeless = np.flatnonzero(~possible.any(axis=0))
    if len(hopeless):
        channel = int(hopeless[0])
        raise LayerError(
            f"{layer.name}: has factor {int(factors[channel])} on channel {channel}, expected "
            f"f * 2**k with -128 <= f <= 127 and k <= {LONGEST_FACTOR_SHIFT}",
            hint="place it on arm",
            option="placement",
            value=f"{layer.name}=arm",
        )
    shift = possible.argmax(axis=0)
    return 1 << shift, factors >> shift


def _is_pixel(tensor: TensorSpec) -> bool:
    return tensor.height == tensor.width == 1


def copied_operand(
    tensor: TensorSpec, output: TensorSpec, factors: FactorArray, block: int
) -> Source:
    """Return the source that puts ``tensor`` times ``factors`` into an accumulator.

    ``factors`` is int64[channels] of the output, in int8. Extents of 1 are repeated.
    """
    weight = factors.astype(np.int8)
    rows = broadcast_axis(output.height, tensor.height)
    cols = broadcast_axis(output.width, tensor.width)
    if tensor.channels == 1:
        return dense_source(tensor, rows, cols, weight[:, None, None], 1, block)
    if (weight == weight[0]).all():
        # The lanes behind the last channel do not matter, so all blocks can share their weights.
        weight = np.full(block, weight[0], np.int8)
    lanes = np.zeros(-(-len(weight) // block) * block, np.int8)
    lanes[: len(weight)] = weight
    return Source(
        tensor=tensor,
        rows=rows,
        cols=cols,
        weights=lanes.reshape(-1, 1, 1, block, 1) * np.eye(block, dtype=np.int8),
        weight_of_tap=np.zeros(1, np.int64),
        diagonal=True,
        ci_first=np.arange(-(-tensor.channels // block)),
    )
