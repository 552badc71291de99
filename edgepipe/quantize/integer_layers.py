"""Turn a float node into a layer record: weights, shifts and constants in integers.

Every function takes the node, the int8 forms that it reads and the step that its output should
have, and returns the record with the scale of its output, float64[channels].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from edgepipe.quantize.graph import AveragePoolNode, ConvNode, PixelNode, ProductNode, SumNode
from edgepipe.quantize.integers import Int8Form
from edgepipe.quantize.leaky import gain_for, leaky, longest_leaky_shift
from edgepipe.quantize.options import QuantizeOptions
from edgepipe.quantize.ranges import Target
from edgepipe.quantize.rounding import reconstruct
from edgepipe.quantize.weights import (
    MAX_PRODUCT_SHIFT,
    MAX_SHIFT,
    as_weight,
    expected_error,
    input_rows,
    longest_shift,
    quantise_factors,
    quantise_rows,
    require_no_overflow,
    snap,
)
from vta_stages.layers.records import (
    Conv,
    Epilogue,
    Layer,
    Product,
    Projection,
    Sum,
    TensorSpec,
    Term,
    TransposedConv,
)

LEAST_STEP = 2.0**-23  # of a sum's or product's result, of what the accumulator can be
_MOST_BIAS = 2.0**60  # far beyond an accumulator, and within int64

Float = NDArray[np.float64]
Scaled = tuple[Layer, Float]
Mean = Callable[[str], Float | None]
"""The mean of every channel of a float tensor, float64[channels], if calibration measured it."""
Moments = Callable[[ConvNode], Sequence[Float]]
"""The second moments of a node's weighted inputs, float64[groups, n, n] each, or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvInputs:
    """The int8 forms that a ConvNode reads, in the node's order."""

    source: Int8Form
    projections: tuple[Int8Form, ...]
    residuals: tuple[Int8Form, ...]


@np.errstate(all="ignore")  # what is not finite is refused, as an accumulator that is too large
def integer_conv(
    node: ConvNode,
    inputs: ConvInputs,
    output: TensorSpec,
    target: Target,
    mean: Mean,
    moments: Moments,
    options: QuantizeOptions,
) -> Scaled:
    """Return a convolution or transposed convolution in integers.

    The output scale grows where weights would otherwise exceed int8, and is adjusted slightly where
    that makes the first residual's factor exact, unless it is fixed. Zero points of weighted inputs
    become part of the bias.
    """
    scale = target.step
    own = input_rows(node, inputs.source.scale)
    # Projections share the accumulator, and with it each channel's weight step.
    projected = [
        part.weight * form.scale
        for form, part in zip(inputs.projections, node.projections, strict=True)
    ]
    real = np.hstack([own, *projected])
    scale = np.maximum(scale, np.abs(real).max(axis=1) / 127)
    gain = gain_for(node.activation.slope, most=options.leaky_steps)
    factors = [factor for _, factor in node.residuals]
    largest = np.abs(real).sum(axis=1) * 128 + np.abs(node.bias)
    largest = largest + largest_terms(inputs.residuals, factors)
    largest = largest + abs(target.zero) * gain * scale
    longest = longest_shift_of(node, largest / (gain * scale), options)
    rows, shift = quantise_rows(real / (gain * scale[:, None]), longest)
    if node.residuals and not target.is_fixed:
        factor = node.residuals[0][1]
        scale = snap(scale, inputs.residuals[0].scale * factor / gain, shift)
        scale = np.minimum(scale, node.activation.high / target.most_steps)
        rows, shift = quantise_rows(real / (gain * scale[:, None]), longest)
    unit = gain * scale * 2.0**-shift
    terms = scaled_terms(inputs.residuals, factors, unit)
    borders = np.cumsum([own.shape[1], *(part.shape[1] for part in projected)])[:-1]
    scaled = real / unit[:, None]
    if options.rounding == "reconstruct":
        rows = _reconstructed(scaled, rows, _in_steps(inputs, moments(node)))
    bias = node.bias / unit
    if options.bias_correction:
        errors = np.split(scaled - rows, borders, axis=1)
        bias = bias + _expected_error(node, inputs, errors, mean)
    own_rows, *projected_rows = np.split(rows, borders, axis=1)
    weighted = zip((inputs.source, *inputs.projections), (own_rows, *projected_rows), strict=True)
    bias = bias - sum(form.zero * part.sum(axis=1) for form, part in weighted)
    weight_sums = np.abs(rows).sum(axis=1)
    epilogue = integer_epilogue(node, scale, shift, bias, weight_sums, terms, target.zero, options)
    weight = as_weight(node, own_rows)
    projections = tuple(
        Projection(tensor=form.spec, weight=w.astype(np.int8), stride=part.stride)
        for form, part, w in zip(inputs.projections, node.projections, projected_rows, strict=True)
    )
    make: Callable[..., Layer] = partial(Conv, dilation=node.dilation, projections=projections)
    conv = (TransposedConv if node.transposed else make)(
        name=output.name,
        input=inputs.source.spec,
        output=output,
        weight=weight,
        epilogue=epilogue,
        stride=node.stride,
        padding=node.padding,
        groups=node.groups,
        terms=terms,
    )
    return conv, scale


def integer_sum(
    node: SumNode,
    inputs: Sequence[Int8Form],
    output: TensorSpec,
    target: Target,
    options: QuantizeOptions,
) -> Scaled:
    """Return a sum of tensors times factors in integers."""
    gain = gain_for(node.activation.slope, most=options.leaky_steps)
    factors = [factor for _, factor in node.terms]
    reach = np.abs(node.bias) + largest_terms(inputs, factors)
    scale = not_too_fine(target, reach / gain)
    ratios = np.stack(
        [np.abs(form.scale * factor) for form, factor in zip(inputs, factors, strict=True)]
    ) / (gain * scale)
    # The smallest factor gets seven bits, the others as many bits times a power of two.
    smallest = np.where(ratios > 0, ratios, np.inf).min(axis=0)
    smallest = np.where(np.isfinite(smallest), smallest, 1.0)
    shift = np.clip(np.floor(np.log2(127 / smallest)), 0, MAX_SHIFT).astype(np.int32)
    reached = reach / (gain * scale) + abs(target.zero)
    shift = np.minimum(shift, longest_shift_of(node, reached, options))
    if not target.is_fixed:
        scale = snap(scale, inputs[0].scale * factors[0] / gain, shift)
        scale = np.minimum(scale, node.activation.high / target.most_steps)
    unit = gain * scale * 2.0**-shift
    terms = scaled_terms(inputs, factors, unit)
    nothing = np.zeros(output.channels, np.int64)
    epilogue = integer_epilogue(
        node, scale, shift, node.bias / unit, nothing, terms, target.zero, options
    )
    return Sum(name=output.name, output=output, terms=terms, epilogue=epilogue), scale


def integer_product(
    node: ProductNode,
    inputs: Sequence[Int8Form],
    output: TensorSpec,
    target: Target,
    options: QuantizeOptions,
) -> Scaled:
    """Return the product of two tensors, and what is added to it, in integers.

    ``inputs`` are the forms of the two factors and of the residuals. The output scale moves a
    little, unless it is fixed, so that the product's factor is exact: an int8 multiplier and a
    shift.
    """
    first, second, *residuals = inputs
    gain = gain_for(node.activation.slope, most=options.leaky_steps)
    step = first.scale * second.scale * node.factor  # of the product; a scale of one is broadcast
    factors = [factor for _, factor in node.residuals]
    largest = np.abs(node.bias) + 128 * 128 * np.abs(step) + largest_terms(residuals, factors)
    scale = not_too_fine(target, largest / gain)
    ratio = np.abs(step) / (gain * scale)
    ratio = np.where(ratio > 0, ratio, 1.0)
    shift = np.clip(np.floor(np.log2(127 / ratio)), 0, MAX_PRODUCT_SHIFT).astype(np.int32)
    reached = largest / (gain * scale) + abs(target.zero)
    shift = np.minimum(shift, longest_shift_of(node, reached, options))
    if not target.is_fixed:
        scale = snap(scale, step / gain, shift)
        scale = np.minimum(scale, node.activation.high / target.most_steps)
    unit = gain * scale * 2.0**-shift
    factor = quantise_factors(step / unit)
    terms = scaled_terms(residuals, factors, unit)
    reach = 128 * np.abs(factor.astype(np.int64))
    epilogue = integer_epilogue(
        node, scale, shift, node.bias / unit, reach, terms, target.zero, options
    )
    layer = Product(
        name=output.name,
        first=first.spec,
        second=second.spec,
        output=output,
        factor=factor,
        epilogue=epilogue,
        terms=terms,
    )
    return layer, scale


def integer_average_pool(
    node: AveragePoolNode, source: Int8Form, output: TensorSpec, target: Target
) -> Scaled:
    """Return an average pool as a depthwise convolution with one constant weight."""
    window = node.kernel[0] * node.kernel[1]
    wanted = float(target.step.max())
    ratio = float(source.scale.max()) / (window * wanted)
    # A constant weight and a shift make the mean exact at a scale near the wanted one.
    shift = int(np.clip(np.floor(np.log2(127.49 / ratio)), 0, MAX_SHIFT))
    weight = int(np.clip(np.floor(ratio * 2.0**shift), 1, 127))
    scale = source.scale * 2.0**shift / (weight * window)
    channels = node.channels
    epilogue = Epilogue(
        bias=np.full(channels, (1 << shift) >> 1, np.int32),
        shift=np.full(channels, shift, np.int32),
        low=-128,
        high=127,
    )
    layer = Conv(
        name=output.name,
        input=source.spec,
        output=output,
        weight=np.full((channels, 1, *node.kernel), weight, np.int8),
        epilogue=epilogue,
        stride=node.stride,
        padding=node.padding,
        groups=channels,
    )
    return layer, scale


def _in_steps(inputs: ConvInputs, moments: Sequence[Float]) -> Iterator[Float]:
    """Yield second moments, float64[groups, n, n], in steps of the int8 inputs."""
    forms = (inputs.source, *inputs.projections)
    for form, found in zip(forms, moments, strict=bool(moments)):
        groups, weights, _ = found.shape
        by_channel = np.broadcast_to(form.scale, form.shape[1:2])
        scale = np.repeat(by_channel, groups * weights // by_channel.size).reshape(groups, weights)
        yield found / (scale[:, :, None] * scale[:, None, :])


def _reconstructed(
    scaled: Float, nearest: NDArray[np.int64], moments: Iterable[Float]
) -> NDArray[np.int64]:
    """Return rows rounded by the second moments of each weighted input, each for itself.

    ``scaled: float64[out, n]`` are the weights in their steps, ``nearest`` int64 of the same shape.
    """
    result = nearest.copy()
    begin = 0
    for found in moments:
        groups, weights, _ = found.shape
        columns = slice(begin, begin + weights)
        for group, rows in enumerate(np.split(np.arange(len(scaled)), groups)):
            result[rows, columns] = reconstruct(
                scaled[rows, columns], nearest[rows, columns], found[group]
            )
        begin += weights
    return result


def largest_terms(forms: Sequence[Int8Form], factors: Sequence[Float]) -> Float | float:
    """Return the largest possible magnitude of the sum of residual terms, float64[channels]."""
    pairs = zip(forms, factors, strict=True)
    return sum((128 * np.abs(form.scale * factor) for form, factor in pairs), 0.0)


def not_too_fine(target: Target, reach: Float) -> Float:
    """Return the step of a sum or product whose accumulator can be ``reach``, float64[channels].

    Terms may cancel each other, a ReLU remove them, and a gate be closed: then the result was zero
    in calibration. What a step of this size misses is less than the rounding of what is added, and
    a finer step would not fit the accumulator.
    """
    return target.step if target.is_fixed else np.maximum(target.step, LEAST_STEP * reach)


def scaled_terms(
    forms: Sequence[Int8Form], factors: Sequence[Float], unit: Float
) -> tuple[Term, ...]:
    """Return residual terms with factors in accumulator units, float64[channels] all."""
    return tuple(
        Term(tensor=form.spec, factor=quantise_factors(form.scale * factor / unit))
        for form, factor in zip(forms, factors, strict=True)
    )


def _expected_error(
    node: ConvNode, inputs: ConvInputs, errors: Sequence[Float], mean: Mean
) -> Float:
    """Return how much rounding the weights reduces each channel's mean, where means are known.

    ``errors`` are those of the weights of every weighted input, as rows.
    """
    forms = (inputs.source, *inputs.projections)
    result = np.zeros(len(errors[0]))
    for index, (tensor, form) in enumerate(zip(node.weighted_inputs, forms, strict=True)):
        measured = mean(tensor)
        if measured is not None:
            steps = measured / form.scale
            error = errors[index]
            result += expected_error(node, error, steps) if index == 0 else error @ steps
    return result


def longest_shift_of(
    node: ConvNode | SumNode | ProductNode | PixelNode, largest: Float, options: QuantizeOptions
) -> NDArray[np.int32]:
    """Return the longest shift per channel that accumulator and activation allow, int32[channels].

    ``largest: float64[channels]`` is what the accumulator can reach, in output steps.
    """
    longest, slope = longest_shift(largest), node.activation.slope
    if slope == 1.0:
        return longest
    return np.minimum(longest, longest_leaky_shift(slope, most=options.leaky_steps))


def integer_epilogue(
    node: ConvNode | SumNode | ProductNode | PixelNode,
    scale: Float,
    shift: NDArray[np.int32],
    bias: Float,
    weight_sums: NDArray[np.int64],
    terms: tuple[Term, ...],
    zero: int,
    options: QuantizeOptions,
) -> Epilogue:
    """Return the constants that turn the accumulator into int8, including the activation.

    ``scale`` and ``bias`` are float64[channels], ``weight_sums`` int64[channels] and ``shift``
    int32[channels]. ``zero`` is the zero point of the result. Raises QuantizeError for an
    accumulator that could wrap.
    """
    branch = None
    constant = np.where(shift > 0, 1 << np.maximum(shift - 1, 0), 0)
    if node.activation.slope != 1.0:
        branch, constant = leaky(node.activation.slope, shift, most=options.leaky_steps)
    # What is infinite or no number, as in a damaged network, is refused as an overflow.
    whole = np.clip(np.nan_to_num(np.rint(bias), nan=_MOST_BIAS), -_MOST_BIAS, _MOST_BIAS)
    rounded = whole.astype(np.int64) + constant + (zero << shift.astype(np.int64))
    # Where scales differ, each covers `high` at most: int8 saturates there anyway.
    low = max(-128.0, zero + float(np.rint(node.activation.low / scale).min()))
    high = min(127.0, zero + float(np.rint(node.activation.high / scale).max()))
    if branch is None and np.isfinite(node.activation.low):
        # Batch normalisation can switch off a layer: it is `low` for every input. Its scale is then
        # tiny, and its bias beyond int32; the largest bias that does the same is as good.
        factors = sum((np.abs(t.factor.astype(np.int64)) for t in terms), weight_sums)
        rounded = np.maximum(rounded, (int(low) << shift.astype(np.int64)) - 128 * factors)
    require_no_overflow(node.name, weight_sums, [t.factor for t in terms], rounded)
    return Epilogue(
        bias=rounded.astype(np.int32),
        shift=shift,
        low=int(low),
        high=int(high),
        leaky=branch,
    )
