"""Weights and factors in int8 with a power-of-two step per output channel.

An accumulator of output channel ``c`` counts in units of ``s_out[c] * 2**-shift[c]``. So the weight
step is ``s_out[c] * 2**-shift[c] / s_in``, the requantisation is a plain shift, which is exact for
any scales of the activations; the weights are at most one bit coarser than they could be.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgepipe.errors import QuantizeError
from edgepipe.quantize.graph import ConvNode

Float = NDArray[np.float64]
Int32Array = NDArray[np.int32]
Int8Array = NDArray[np.int8]

MAX_SHIFT = 15  # the longest right shift in one VTA instruction
FAR_SHIFT = 22  # two instructions, for channels whose weights would otherwise vanish
MAX_PRODUCT_SHIFT = 20  # products run on ARM, where a shift of any length is one instruction
_HUGE = 1e300  # in place of what is not finite
WHOLE = 1e-3  # steps: weights this close to integers were integers before
COARSE = 16  # a channel whose largest weight is below this counts as vanishing
MANTISSA = 127
MAX_FACTOR_SHIFT = 16
ACCUMULATOR_LIMIT = 1 << 30


def quantise_rows(
    rows: Float, longest: Int32Array | None = None
) -> tuple[NDArray[np.int64], Int32Array]:
    """Round ``rows: float64[channels, n]``, in units of the output step, to int8 with a shift.

    Each row gets the one of two shifts around full use of int8 that has the smaller squared error,
    so ``rows ~ quantised / 2**shift``, but no shift above ``longest: int32[channels]``. Returns
    int64[channels, n] and the shifts. The integers are within [-127, 127], except that rows which
    are int8 already keep their -128.
    """
    largest = np.abs(rows).max(axis=1)
    safe = np.where(largest > 0, largest, 1.0)
    # The largest shift at which nothing is clipped; one more halves the step and clips the largest.
    fitting = np.floor(np.log2(127.5 / safe)).astype(np.int64)
    limit = np.where(safe * 2.0**MAX_SHIFT < COARSE, FAR_SHIFT, MAX_SHIFT)
    if longest is not None:
        limit = np.minimum(limit, longest)
    best: tuple[Float, NDArray[np.int64], NDArray[np.int64]] | None = None
    for extra in (0, 1):
        shift = np.clip(fitting + extra, 0, limit)
        scaled = rows * 2.0 ** shift[:, None]
        whole = np.abs(scaled - np.rint(scaled)).max(axis=1, keepdims=True) < WHOLE
        rounded = np.clip(np.rint(scaled), np.where(whole, -128, -127), 127).astype(np.int64)
        error = (((rounded - scaled) * 2.0 ** -shift[:, None]) ** 2).sum(axis=1)
        if best is None:
            best = (error, rounded, shift)
        else:
            exact = (np.abs(rounded - scaled) < WHOLE).all(axis=1)  # and finer for the bias
            better = (error < best[0]) | exact
            best = (
                np.where(better, error, best[0]),
                np.where(better[:, None], rounded, best[1]),
                np.where(better, shift, best[2]),
            )
    assert best is not None
    shift = np.where(largest > 0, best[2], 0)
    return best[1], shift.astype(np.int32)


def longest_shift(largest: Float) -> Int32Array:
    """Return the longest shift per channel at which no accumulator can exceed its limit.

    ``largest: float64[channels]`` is what the accumulator can reach, in output steps. The shift
    matters for channels that batch normalisation has switched off: their weights of 1e-8 would fill
    int8 at a shift that carries an ordinary bias beyond int32. At this shift they vanish. A margin
    of an eighth covers rounding, and the output scales that :func:`snap` moves.
    """
    # In a damaged network it can be infinite or no number: the shift is then the shortest.
    finite = np.clip(np.nan_to_num(largest, nan=_HUGE, posinf=_HUGE), 1e-9, _HUGE)
    fitting = np.floor(np.log2(ACCUMULATOR_LIMIT * 7 / 8 / finite))
    return np.clip(fitting, 0, FAR_SHIFT).astype(np.int32)


def quantise_factors(factors: Float) -> Int32Array:
    """Round residual factors to the form ``f * 2**k``, |f| <= 127, 0 <= k <= 16.

    ``factors`` is float64[channels], the result int32[channels].
    """
    magnitude = np.abs(factors)
    k = np.ceil(np.log2(np.maximum(magnitude, 1.0) / (MANTISSA + 0.5)))
    k = np.clip(k, 0, MAX_FACTOR_SHIFT)
    f = np.clip(np.rint(factors / 2.0**k), -MANTISSA, MANTISSA)
    return (f * 2.0**k).astype(np.int32)


def require_no_overflow(
    name: str, weight_sums: NDArray[np.int64], factors: list[Int32Array], bias: NDArray[np.int64]
) -> None:
    """Prove that no int32 accumulator of operator ``name`` can wrap around for any int8 input.

    ``weight_sums`` is the sum of weight magnitudes per channel. The bound leaves one bit spare,
    because a leaky branch can add the accumulator once more. The sums and ``bias`` are
    int64[channels], each of ``factors`` is int32[channels]. Raises QuantizeError for an accumulator
    that could wrap.
    """
    bound = 128 * weight_sums + np.abs(bias)
    for factor in factors:
        bound = bound + 128 * np.abs(factor.astype(np.int64))
    worst = int(bound.max())
    if worst >= ACCUMULATOR_LIMIT:
        raise QuantizeError(
            f"{name}: an accumulator could reach {worst}, beyond the 2**30 that int32 allows",
            hint="the ranges seen in calibration are implausible; check the frames",
        )


def snap(scale: Float, residual_step: Float, shift: NDArray[np.int32]) -> Float:
    """Adjust each output scale slightly so that a residual's factor becomes exact.

    ``residual_step`` is the residual's scale times its factor, so the integer factor is
    ``residual_step / scale * 2**shift``; if that rounds to zero, the scale stays. ``scale``
    and the result are float64[channels], ``shift`` is int32[channels].
    """
    factor = np.abs(quantise_factors(residual_step / scale * 2.0**shift)).astype(np.float64)
    exact = np.abs(residual_step) * 2.0**shift / np.maximum(factor, 1.0)
    return np.where((factor > 0) & (exact < 1.1 * scale) & (exact > 0.9 * scale), exact, scale)


def input_rows(node: ConvNode, source_scale: Float) -> Float:
    """Return the weights as float64[out, n], each times the scale of its input."""
    grouped = node.weight.reshape(node.groups, -1, *node.weight.shape[1:])
    if node.transposed:
        grouped = grouped.swapaxes(1, 2)
    scaled = grouped * source_scale.reshape(node.groups, 1, grouped.shape[2], 1, 1)
    return scaled.reshape(grouped.shape[0] * grouped.shape[1], -1)


def as_weight(node: ConvNode, rows: NDArray[np.int64]) -> NDArray[np.int8]:
    """Undo the row form of :func:`input_rows` for quantised weights.

    ``rows`` is int64[out, n], the result int8 of the weight's own shape.
    """
    first, second, *kernel = node.weight.shape
    weight = rows
    if node.transposed:
        weight = rows.reshape(node.groups, second, first // node.groups, *kernel).swapaxes(1, 2)
    return weight.reshape(node.weight.shape).astype(np.int8)


def expected_error(node: ConvNode, difference: Float, mean: Float) -> Float:
    """Return how much rounding the weights reduces each channel's mean, in accumulator units.

    ``difference`` float64[out, n] is by how much the rounded weights are too small; ``mean`` is the
    input's mean per channel in integer steps. (Zero padding is neglected.)
    """
    means = mean.reshape(node.groups, -1)
    groups, per_group = means.shape
    taps = difference.reshape(groups, len(difference) // groups, per_group, -1).sum(axis=3)
    # Every output of a transposed convolution uses one of stride x stride sets of taps.
    hit = 1 / (node.stride[0] * node.stride[1]) if node.transposed else 1.0
    error: Float = hit * np.einsum("goi,gi->go", taps, means)
    return error.reshape(-1)
