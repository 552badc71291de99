"""Turn a float node into an operator that only ARM cores compute: tables and constants in integers.

Every function returns the operator with the scale of its output, float64[channels].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from edgepipe.quantize.functions import evaluate
from edgepipe.quantize.graph import JoinNode, PixelNode, ProductNode, SoftmaxNode
from edgepipe.quantize.integer_layers import (
    integer_epilogue,
    largest_terms,
    longest_shift_of,
    not_too_fine,
    scaled_terms,
)
from edgepipe.quantize.integers import Int8Form
from edgepipe.quantize.leaky import gain_for
from edgepipe.quantize.on_arm.records import Joined, Softmax
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.ranges import TINY, Target
from edgepipe.quantize.weights import MAX_PRODUCT_SHIFT
from vta_stages.layers.records import PixelAffine, Quotient, TensorSpec

QUOTIENT_SHIFT = 14  # bits of a quotient behind those of its result, where they fit
_BEYOND_INT8, _MOST_INVERSE = 2.0**8, 2.0**15
_MOST_COUNT = 1 << 23  # steps of a softmax's result in 1
_WIDE_BITS = 30  # of the largest exponential in a sum of int64
_MARGIN_BITS = 3  # of what rounding exponentials may add to a share, in steps: less than 1/16

Float = NDArray[np.float64]


def integer_quotient(
    node: ProductNode,
    inputs: Sequence[Int8Form],
    output: TensorSpec,
    target: Target,
    options: QuantizeOptions,
) -> tuple[Quotient, Float]:
    """Return the quotient of two tensors, and what is added to it, in integers.

    ``inputs`` are as for ``integer_product``. The inverse of each divisor has as many bits as fit
    the accumulator, so a result errs by what int8 misses of the two tensors. A divisor of 0 gives
    the largest result where ``first`` is positive, and the least where it is negative. The result
    is the operator and its output's scale, float64[channels].
    """
    first, second, *residuals = inputs
    gain = gain_for(node.activation.slope, most=options.leaky_steps)
    factors = [factor for _, factor in node.residuals]
    added = np.abs(node.bias) + largest_terms(residuals, factors)
    scale = not_too_fine(target, added / gain)
    # The largest inverse, in steps of the result: what is beyond int8, even after a leaky ReLU.
    most = min(_BEYOND_INT8 / node.activation.slope, _MOST_INVERSE)
    reached = added / (gain * scale) + 128 * most + abs(target.zero)
    shift = np.minimum(longest_shift_of(node, reached, options), QUOTIENT_SHIFT)
    unit = gain * scale * 2.0**-shift
    limit = most * 2.0 ** shift[:, None]
    divisors = np.arange(-128, 128) * second.scale[:, None]
    if node.divisor:
        divisors = evaluate(node.divisor, node.second, divisors)
    divisors = np.where(divisors == 0, 2.0**-64, divisors)  # as good as 0
    inverses = np.rint((first.scale * node.factor / unit)[:, None] / divisors)
    entries = np.clip(inverses, -limit, limit).astype(np.int32)
    terms = scaled_terms(residuals, factors, unit)
    reach = np.abs(entries.astype(np.int64)).max(axis=1)
    epilogue = integer_epilogue(
        node, scale, shift, node.bias / unit, reach, terms, target.zero, options
    )
    layer = Quotient(
        name=output.name,
        first=first.spec,
        second=second.spec,
        output=output,
        table=entries[:1] if (entries == entries[0]).all() else entries,
        epilogue=epilogue,
        terms=terms,
    )
    return layer, scale


def integer_affine(
    node: PixelNode, source: Int8Form, output: TensorSpec, target: Target, options: QuantizeOptions
) -> tuple[PixelAffine, Float]:
    """Return a factor and a constant for each pixel in integers.

    The constants have as many bits as fit the accumulator. The result is the operator and its
    output's scale, float64[channels].
    """
    gain = gain_for(node.activation.slope, most=options.leaky_steps)
    factor = node.factor * source.scale[None, :, None, None]
    parts = (128 * np.abs(factor), np.abs(node.bias))
    by_channel = [part.max(axis=(0, 2, 3)) for part in parts]
    largest: Float = np.broadcast_to(by_channel[0] + by_channel[1], output.channels)
    scale = not_too_fine(target, largest / gain)
    reached = largest / (gain * scale) + abs(target.zero)
    shift = np.minimum(longest_shift_of(node, reached, options), MAX_PRODUCT_SHIFT)
    unit = (gain * scale * 2.0**-shift)[None, :, None, None]
    if (unit == unit.flat[0]).all():
        unit = unit[:, :1]
    factors, bias = (np.rint(values / unit).astype(np.int32) for values in (factor, node.bias))
    reach = np.ceil(largest / unit.reshape(-1) / 128).astype(np.int64) + 1
    nothing = np.zeros(output.channels)
    epilogue = integer_epilogue(node, scale, shift, nothing, reach, (), target.zero, options)
    layer = PixelAffine(
        name=output.name,
        input=source.spec,
        output=output,
        factor=factors,
        bias=bias,
        epilogue=epilogue,
    )
    return layer, scale


def joined(
    node: JoinNode, forms: Mapping[str, Int8Form], output: TensorSpec
) -> tuple[Joined, Float]:
    """Return pictures and constants in int8, each constant channel with the step that it needs.

    ``forms`` are those of the pictures. The second result is the output's scale, float64[channels].
    """
    parts: list[str | NDArray[np.int8]] = []
    scales = []
    for part in node.parts:
        if isinstance(part, str):
            parts.append(forms[part].name)
            scales.append(forms[part].scale)
            continue
        scale = np.maximum(np.abs(part).max(axis=(0, 2, 3)), TINY) / 127
        parts.append(np.rint(part / scale[:, None, None]).astype(np.int8))
        scales.append(scale)
    joined = Joined(name=output.name, parts=tuple(parts), output=output)
    return joined, np.concatenate(scales)


def integer_softmax(
    node: SoftmaxNode, source: Int8Form, output: TensorSpec, target: Target
) -> tuple[Softmax, Float]:
    """Return a softmax in integers: exponentials from a table, and an exact quotient.

    ``source`` has one step for all channels. A step of the output is 1 divided by a whole number.
    Sums and quotients are int32 if the exponentials then have bits enough, which depends on how
    many are added, and else int64. The result is the operator and its output's scale,
    float64[channels].
    """
    count = np.clip(np.rint(1 / target.step), 1, _MOST_COUNT).astype(np.int32)
    added, most = source.shape[node.axis], int(count.max())
    largest = max(most + (added + 1) // 2, added)
    bits = ((1 << 31) - 1).bit_length() - largest.bit_length()
    # The result is at most 255 steps above its zero point.
    is_wide = (1 << bits) < (most + 255 * added) << _MARGIN_BITS if bits > 0 else True
    bits = _WIDE_BITS if is_wide else bits
    table = np.rint(2.0**bits * np.exp(-float(source.scale[0]) * np.arange(256)))
    layer = Softmax(
        name=output.name,
        input=source.spec,
        output=output,
        axis=node.axis,
        table=table.astype(np.int32),
        count=count,
        zero=target.zero,
        dtype="int64" if is_wide else "int32",
    )
    return layer, 1 / count.astype(np.float64)
