"""Turn normalisations and lengths into integers: exact sums, and quotients of up to fourteen bits.

Sums over int8 values are exact, and so is the variance: count * sum(a * a) - sum(a)**2 is the
square of count times the standard deviation. Its leading bits index a table of 1 / root, and half
its exponent scales the deviations, so that both factors of the quotient are short enough for int32
whatever the values are. The result is within about 0.6 of a step of the float formula on the same
input: 0.5 for its own rounding, the rest for the table, the deviation and a channel's factor.

A length has at most 256 results, so its sum is compared with the least sum of each.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from edgepipe.quantize.graph import LengthNode, NormNode
from edgepipe.quantize.integers import Int8Form
from edgepipe.quantize.normalising.gather import MOST_VALUES
from edgepipe.quantize.normalising.records import LEAST_POWER, ROW, Length, Norm
from edgepipe.quantize.ranges import Target
from vta_stages.layers.records import TensorSpec

Float = NDArray[np.float64]

_WIDEST = 255  # the largest distance of an int8 value from its zero point
_DEVIATION_BITS = 28  # of the largest deviation times ``fold``; the variance has twice as many
_FRACTION_BITS = 12  # of a quotient
_MOST_ROOT_BITS = 14
_MOST_FACTOR_BITS = 15
_PRODUCT_BITS = 30  # of the largest product of a deviation and a root in int32
_RESULT_BITS = 29  # of the largest product of a quotient and a factor in int32, and of a constant
_MOST_WHOLE_BITS = 6  # of a quotient whose products fit int32
_MOST_EPSILON = 1 << 56
_BEYOND_SUMS = float(1 << 62)  # a threshold that no sum reaches
LEAST_STEP = 2.0**-10  # of the result, of a channel's factor; int8 then covers 1/8 of a deviation


def integer_norm(
    node: NormNode, source: Int8Form, output: TensorSpec, target: Target
) -> tuple[Norm, Float]:
    """Return a normalisation in integers, and the step of its result, float64[channels].

    ``source`` has one step for all channels. Raises ValueError for more than ``MOST_VALUES`` values
    that share a mean, which ``GatherNorms`` leaves float.
    """
    _, channels, height, width = source.shape
    count = channels if node.groups == 0 else channels * height * width // node.groups
    if count > MOST_VALUES:
        raise ValueError(f"{node.name}: normalises over {count} values, at most {MOST_VALUES}")
    # A deviation is at most root(count) times the standard one.
    whole_bits = math.ceil(math.log2(count) / 2)
    root_bits, factor_bits = _MOST_ROOT_BITS, _MOST_FACTOR_BITS
    is_wide = whole_bits > _MOST_WHOLE_BITS
    if not is_wide:
        root_bits = min(root_bits, _PRODUCT_BITS - _FRACTION_BITS - whole_bits)
        factor_bits = min(factor_bits, _RESULT_BITS - _FRACTION_BITS - whole_bits)
    widest = max(_WIDEST, math.sqrt(node.epsilon) / float(source.scale[0]))
    fold = 1 << max(0, int(math.log2((1 << _DEVIATION_BITS) / (widest * count))))
    real_epsilon = node.epsilon * (count * fold / float(source.scale[0])) ** 2
    epsilon = int(np.clip(np.rint(real_epsilon), 1 << LEAST_POWER, _MOST_EPSILON))
    # Beyond that, the values are so much smaller than epsilon that only this quotient matters.
    damped = min(1.0, math.sqrt(_MOST_EPSILON / max(real_epsilon, 1.0)))
    largest = (_WIDEST * count * fold) ** 2 + epsilon
    exponents = np.arange((largest.bit_length() - LEAST_POWER + 1) // 2)
    # Half the exponent of the variance brings a deviation to so many bits.
    by = _FRACTION_BITS - LEAST_POWER // 2 - 1 - exponents
    multiplier = fold * (1 << np.maximum(by, 0)) * (1 if node.is_centred else count)
    shift = np.maximum(-by, 0)
    factor = node.factor * damped
    step = target.step if target.is_fixed else np.maximum(target.step, LEAST_STEP * np.abs(factor))
    factors, bias, output_shift = _affine(
        factor / step / 2.0**_FRACTION_BITS, node.bias / step + target.zero, factor_bits
    )
    low = max(-128.0, target.zero + float(np.rint(node.activation.low / step).min()))
    high = min(127.0, target.zero + float(np.rint(node.activation.high / step).max()))
    roots = np.arange(1 << LEAST_POWER, 4 << LEAST_POWER) + 0.5
    norm = Norm(
        name=output.name,
        source=source.name,
        shape=(1, channels, height, width),
        zero=source.zero,
        groups=node.groups,
        count=count,
        dtype="int64" if is_wide else "int32",
        is_centred=node.is_centred,
        square=fold * fold,
        epsilon=epsilon,
        thresholds=(1 << LEAST_POWER) * 4 ** exponents[1:].astype(np.int64),
        multiplier=multiplier.astype(np.int32),
        half=_half(shift).astype(np.int32),
        shift=shift.astype(np.int32),
        roots=np.rint(2.0 ** (root_bits + LEAST_POWER // 2) / np.sqrt(roots)).astype(np.int16),
        quotient_shift=root_bits - 1,
        factor=factors.astype(np.int32),
        bias=bias.astype(np.int32),
        output_shift=output_shift.astype(np.int32),
        low=int(low),
        high=int(high),
    )
    return norm, step


def integer_length(
    node: LengthNode, source: Int8Form, output: TensorSpec, target: Target
) -> tuple[Length, Float]:
    """Return a sum over pixels in integers, and the step of its result, float64[channels].

    ``source`` has one step for all channels, and so has the result. Raises ValueError for more
    than ``MOST_VALUES`` values that are added, which ``GatherNorms`` leaves float.
    """
    _, channels, height, width = source.shape
    count = height * width
    if count > MOST_VALUES:
        raise ValueError(f"{node.name}: adds {count} values, at most {MOST_VALUES}")
    step = float(target.step.max())
    # The least value, then the least sum, from which on each result is nearer than the one before.
    least = (np.arange(128 - target.zero) - 0.5) * step
    if node.is_root:
        least = np.square(np.maximum(least, 0.0)) - node.epsilon
    sums = np.clip(np.ceil(least / float(source.scale[0]) ** node.power), 0, _BEYOND_SUMS)
    unused = -sums.size % ROW
    length = Length(
        name=output.name,
        source=source.name,
        shape=(1, channels, height, width),
        zero=source.zero,
        is_squared=node.power == 2,
        thresholds=np.pad(sums, (0, unused), constant_values=_BEYOND_SUMS).astype(np.int64),
        output_zero=target.zero,
    )
    return length, np.full(channels, step)


def _affine(
    factor: Float, bias: Float, factor_bits: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return factors, constants and shifts by channel for ``quotient * factor + bias``.

    Factors have at most ``factor_bits``; constants at most ``_RESULT_BITS``.
    """
    most, widest = (1 << factor_bits) - 1, 1 << _RESULT_BITS
    shift = np.floor(np.log2(most / np.maximum(np.abs(factor), 2.0**-40)))
    shift = np.minimum(shift, np.floor(_RESULT_BITS - np.log2(np.abs(bias) + 1)))
    shift = np.clip(shift, 0, _RESULT_BITS).astype(np.int64)
    unit = 2.0 ** shift.astype(np.float64)
    factors = np.clip(np.rint(factor * unit), -most, most)
    whole = np.clip(bias * unit, -widest, widest)
    return factors.astype(np.int64), np.rint(whole).astype(np.int64) + _half(shift), shift


def _half(shift: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return half of what is shifted out, for rounding."""
    return np.where(shift > 0, 1 << np.maximum(shift - 1, 0), 0)
