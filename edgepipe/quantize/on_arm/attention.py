"""Products of computed matrices in integers.

In attention, scores are not rounded, exponentials come from a table, and a row has one quotient.
In linear attention, nothing is rounded but the quotient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgepipe.quantize.graph import AttentionNode, LinearAttentionNode, MatrixNode
from edgepipe.quantize.integers import Int8Form, Matrix, operand
from edgepipe.quantize.on_arm.records import Attention, LinearAttention, MatrixProduct
from edgepipe.quantize.ranges import Target

_FINEST = 1 / 128  # of exponents; e differs by 0.4 % at most from that of the middle of a step
_MOST_EXPONENTIAL = (1 << 15) - 1
_INVERSE_BITS = 48  # of 1 in the inverse of a sum; 17 of them are left for the largest sum
_MOST_COARSER = 30
_BELOW_ALL = 32.0  # an exponent that is less than another by this has no weight beside it
_BIAS_BITS = 29  # of _BELOW_ALL in steps of a score: differences of scores fit int32
_FACTOR_BITS = 30  # of the factor of a sum of products, which has at most 31 bits itself
_MOST_FINER = 2.0**16  # steps of the result in one of the values
_MOST_FINER_MEAN = 2.0**12  # the same of linear attention, whose sums have more bits
_WORD_BITS = 61  # of what is doubled, or added to as much, and then still fits int64
_MOST_SHIFT = 40  # of totals; more would add nothing to 28 bits of the factor


def integer_attention(
    node: AttentionNode,
    forms: Sequence[Matrix],
    name: str,
    target: Target,
) -> tuple[Attention, float]:
    """Return attention in integers, and the one step of its result.

    ``forms`` are queries, keys if there are any, and values, each with one step.
    """
    query, *keys, value = forms
    assert isinstance(value, Int8Form)
    key = keys[0] if keys else None
    depth = query.shape[-1] if key else 1
    added = value.shape[-1 if node.is_turned else -2]
    unit = node.factor * float(query.scale[0]) * (float(key.scale[0]) if key else 1.0)
    bias, rounding = None, 0
    if node.bias is not None:
        rounding = max(0, math.ceil(math.log2(_BELOW_ALL / unit)) - _BIAS_BITS)
        unit *= 2.0**rounding
        # What a row has in common changes no share; what is far below the rest has none.
        below = node.bias - node.bias.max(axis=-1, keepdims=True)
        least = -((depth << 15) + _BELOW_ALL / unit)
        bias = np.rint(np.maximum(below / unit, least)).astype(np.int32)
        bias = bias.reshape((1,) * (len(value.shape) - bias.ndim) + bias.shape)
    coarser = min(max(0, math.floor(math.log2(_FINEST / unit))), _MOST_COARSER)
    most = min(_MOST_EXPONENTIAL, ((1 << 31) - 1) // (128 * added))
    step = float(target.step.max())
    if not target.is_fixed:
        step = max(step, float(value.scale[0]) / _MOST_FINER)
    ratio = float(value.scale[0]) / step
    shift = min(max(_INVERSE_BITS - math.ceil(math.log2(ratio)), 1), 62)
    attention = Attention(
        name=name,
        query=operand(query),
        key=operand(key) if key else None,
        value=value.name,
        rank=len(value.shape),
        is_turned=node.is_turned,
        rounding=min(rounding, 31),
        bias=bias,
        coarser=coarser,
        table=_exponentials(unit * 2.0**coarser, most, 1 << (31 - coarser)),
        inverse=round(ratio * 2**shift),
        shift=shift,
    )
    return attention, step


def integer_linear_attention(
    node: LinearAttentionNode,
    forms: tuple[Int8Form, Int8Form, Int8Form],
    name: str,
    target: Target,
) -> tuple[LinearAttention, float]:
    """Return linear attention in integers, and the one step of its result.

    ``forms`` are queries, keys and values, each with one step. Sums and totals are exact. A total
    has as many bits behind the point as fit, and with them ``epsilon``, in which the step of the
    queries' products with the keys counts as 1. A total of 0 is then as good as the least that is
    positive, so a result there is the largest or the least, or 0 if the sum is 0, too.
    """
    query, key, value = forms
    terms = key.shape[-2] * key.shape[-1]
    most_sum, most_total = terms << 21, terms << 14  # of products of three and of two int8
    unit = float(query.scale[0]) * float(key.scale[0])
    step = float(target.step.max())
    if not target.is_fixed:
        step = max(step, abs(node.factor) * float(value.scale[0]) / _MOST_FINER_MEAN)
    ratio = node.factor * float(value.scale[0]) / step
    epsilon = node.epsilon / unit
    most_factor = (1 << _WORD_BITS) // most_sum
    bits = min(
        math.log2(most_factor / abs(ratio)),
        _WORD_BITS - math.log2(most_total + abs(epsilon)),
    )
    shift = min(max(math.floor(bits), 0), _MOST_SHIFT)
    most_epsilon = (1 << _WORD_BITS) - (most_total << shift)
    attention = LinearAttention(
        name=name,
        query=query.name,
        key=key.name,
        value=value.name,
        rank=len(query.shape),
        is_narrow=most_sum < 1 << 31,
        shift=shift,
        epsilon=_bounded(epsilon * 2.0**shift, most_epsilon),
        factor=_bounded(ratio * 2.0**shift, most_factor),
    )
    return attention, step


def _bounded(value: float, most: int) -> int:
    """Return a number rounded to an integer whose magnitude is at most ``most``."""
    return max(-most, min(most, round(max(-(2.0**63), min(2.0**63, value)))))


def integer_product_of_matrices(
    node: MatrixNode, forms: tuple[Matrix, Matrix], name: str, target: Target
) -> tuple[MatrixProduct, float]:
    """Return the product of two tensors in integers, and the one step of its result.

    ``forms`` are the tensors, each with one step.
    """
    first, second = forms
    unit = node.factor * float(first.scale[0]) * float(second.scale[0])
    step = float(target.step.max())
    if not target.is_fixed:
        step = max(step, abs(unit) / _MOST_FINER)
    ratio = unit / step
    shift = min(max(_FACTOR_BITS - math.ceil(math.log2(abs(ratio))), 1), 62)
    product = MatrixProduct(
        name=name,
        first=operand(first),
        second=operand(second),
        rank=len(first.shape),
        factor=round(ratio * 2**shift),
        shift=shift,
    )
    return product, step


def _exponentials(step: float, most: int, count: int) -> NDArray[np.int16]:
    """Return ``most * exp(-step * index)`` to the first that rounds to 0, but at most ``count``."""
    count = min(count, math.ceil(math.log(2 * most) / step) + 1)
    table: NDArray[np.int16] = np.rint(most * np.exp(-step * np.arange(count))).astype(np.int16)
    return table
