"""Turn a float node into an int16 operator: weights, factors and shifts in integers.

Every function takes the node, the forms that it reads and the step that its result should have,
and returns the operator with the step of its result, one for all channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgepipe.quantize.graph import (
    IDENTITY,
    Activation,
    AveragePoolNode,
    ConvNode,
    ProductNode,
    SumNode,
)
from edgepipe.quantize.int16.records import SLOPE_BITS, Operand, Scaled, Weighted, WideLayer
from edgepipe.quantize.ranges import Target
from edgepipe.quantize.weights import input_rows

Float = NDArray[np.float64]
Made = tuple[WideLayer, float]

REACH = 1 << 15
"""The largest magnitude of an int16 value."""

# No sum exceeds this, and rounding its factors adds less again. So a slope's 16 bits fit int64.
_MOST = 1 << 45
_MOST_SHIFT = 30
_MOST_WEIGHT = REACH - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The integers of a tensor as an int16 operator reads them: int8 or int16.

    The real value of ``q`` is ``(q - zero) * scale``, with ``scale`` float64[channels]. ``shape``
    is that of a picture, and ``target`` has the steps that the tensor's int8 form has, or would
    have.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    scale: Float
    target: Target
    zero: int = 0

    @property
    def operand(self) -> Operand:
        """The form as operators name it."""
        return Operand(name=self.name, dtype=self.dtype)

    @property
    def is_uniform(self) -> bool:
        """Return whether all channels have one scale."""
        return bool(np.all(self.scale == self.scale[0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvForms:
    """The forms that a ConvNode reads, in the node's order; ``output`` is its result's picture."""

    source: Form
    projections: tuple[Form, ...]
    residuals: tuple[Form, ...]
    output: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Terms:
    """What is added beside weighted inputs: operands, and float64[channels] by which each counts.

    ``steps`` are the real values of one step of each, already multiplied by its factor.
    """

    operands: tuple[tuple[Operand, ...], ...]
    steps: tuple[Float, ...]

    def reach(self) -> Float | float:
        """Return the largest magnitude of the terms' sum, float64[channels]."""
        found = zip(self.operands, self.steps, strict=True)
        return sum((float(REACH) ** len(tensors) * np.abs(step) for tensors, step in found), 0.0)

    def in_units(self, unit: Float) -> tuple[Scaled, ...]:
        """Return the terms with factors in units of the sum, float64[channels]."""
        return tuple(
            Scaled(tensors=tensors, factor=np.rint(step / unit).astype(np.int64))
            for tensors, step in zip(self.operands, self.steps, strict=True)
        )


def wide_conv(name: str, node: ConvNode, forms: ConvForms, step: float) -> Made:
    """Return a convolution or transposed convolution; zero points become part of its bias."""
    parts = [input_rows(node, forms.source.scale)]
    projected = zip(forms.projections, node.projections, strict=True)
    parts += [part.weight * form.scale for form, part in projected]
    real = np.hstack(parts)
    residuals = zip(forms.residuals, node.residuals, strict=True)
    terms = _Terms(
        operands=tuple((form.operand,) for form in forms.residuals),
        steps=tuple(form.scale * factor for form, (_, factor) in residuals),
    )
    step = max(step, float(np.abs(real).max()) / _MOST_WEIGHT)
    most = np.abs(real).sum(axis=1) * REACH + np.abs(node.bias) + terms.reach()
    step, shift = _shifts(step, most, np.abs(real).max(axis=1))
    unit = step * 2.0 ** -shift.astype(np.float64)
    rows = np.clip(np.rint(real / unit[:, None]), -_MOST_WEIGHT, _MOST_WEIGHT)
    borders = np.cumsum([part.shape[1] for part in parts])[:-1]
    own, *others = np.split(rows, borders, axis=1)
    bias = node.bias / unit - forms.source.zero * own.sum(axis=1)
    weighted = [_own(node, forms, own)]
    for form, part, found in zip(forms.projections, node.projections, others, strict=True):
        bias = bias - form.zero * found.sum(axis=1)
        weight = found.astype(np.int16)[:, :, None, None]
        weighted.append(Weighted(tensor=form.operand, weight=weight, stride=part.stride))
    made = _layer(name, tuple(weighted), terms, unit, bias, shift, step, node.activation)
    return made, step


def wide_average_pool(name: str, node: AveragePoolNode, source: Form, step: float) -> Made:
    """Return the mean over windows as a depthwise convolution."""
    height, width = node.kernel
    conv = ConvNode(
        name=node.name,
        input=node.input,
        weight=np.full((node.channels, 1, height, width), 1 / (height * width)),
        bias=np.zeros(node.channels),
        stride=node.stride,
        padding=node.padding,
        groups=node.channels,
    )
    forms = ConvForms(source=source, projections=(), residuals=(), output=())
    return wide_conv(name, conv, forms, step)


def wide_sum(name: str, node: SumNode, forms: Sequence[Form], step: float) -> Made:
    """Return a sum of tensors times factors."""
    terms = _Terms(
        operands=tuple((form.operand,) for form in forms),
        steps=tuple(
            form.scale * factor for form, (_, factor) in zip(forms, node.terms, strict=True)
        ),
    )
    return _of_terms(name, terms, node.bias, step, node.activation)


def wide_product(name: str, node: ProductNode, forms: Sequence[Form], step: float) -> Made:
    """Return the product of two tensors, and what is added to it."""
    first, second, *others = forms
    residuals = zip(others, node.residuals, strict=True)
    terms = _Terms(
        operands=((first.operand, second.operand), *((form.operand,) for form in others)),
        steps=(
            first.scale * second.scale * node.factor,
            *(form.scale * factor for form, (_, factor) in residuals),
        ),
    )
    return _of_terms(name, terms, node.bias, step, node.activation)


def narrow(name: str, form: Form) -> WideLayer:
    """Return the operator that rounds an int16 form to its int8 form, by one shift."""
    target = form.target
    # A step so small that even one step of int16 is beyond int8 needs no more than that.
    scale = np.minimum(form.scale, target.step * (_MOST // REACH))
    shift = np.floor(np.log2(_MOST * target.step / (REACH * scale)))
    shift = np.clip(shift, 0, _MOST_SHIFT).astype(np.int64)
    terms = _Terms(operands=((form.operand,),), steps=(scale,))
    unit = target.step * 2.0 ** -shift.astype(np.float64)
    bias = target.zero * 2.0 ** shift.astype(np.float64)
    return _layer(name, (), terms, unit, bias, shift, 1.0, IDENTITY, dtype="int8")


def _own(node: ConvNode, forms: ConvForms, rows: Float) -> Weighted:
    """Return a convolution's own weighted input; ``rows`` float64[out, n] are its weights."""
    first, second, *kernel = node.weight.shape
    extra = (0, 0)
    if node.transposed:
        rows = rows.reshape(node.groups, second, first // node.groups, *kernel).swapaxes(1, 2)
        height, width = (
            forms.output[2 + axis]
            - (forms.source.shape[2 + axis] - 1) * node.stride[axis]
            - kernel[axis]
            + node.padding[axis]
            + node.padding[axis + 2]
            for axis in (0, 1)
        )
        extra = (height, width)
    return Weighted(
        tensor=forms.source.operand,
        weight=rows.reshape(node.weight.shape).astype(np.int16),
        stride=node.stride,
        padding=node.padding,
        dilation=node.dilation,
        groups=node.groups,
        transposed=node.transposed,
        output_padding=extra,
    )


def _of_terms(name: str, terms: _Terms, bias: Float, step: float, activation: Activation) -> Made:
    step, shift = _shifts(step, np.abs(bias) + terms.reach(), None)
    unit = step * 2.0 ** -shift.astype(np.float64)
    return _layer(name, (), terms, unit, bias / unit, shift, step, activation), step


def _shifts(step: float, most: Float, weights: Float | None) -> tuple[float, NDArray[np.int64]]:
    """Return a step of at least ``step``, and the longest shifts at which no sum exceeds ``_MOST``.

    ``most: float64[channels]`` is the largest magnitude that a sum can have, as a real value, and
    ``weights`` that of the weights, which must fit int16.
    """
    step = max(step, float(most.max()) / _MOST)
    shift = np.floor(np.log2(_MOST * step / np.maximum(most, step)))
    if weights is not None:
        smallest = step * 2.0**-_MOST_SHIFT
        shift = np.minimum(
            shift, np.floor(np.log2(_MOST_WEIGHT * step / np.maximum(weights, smallest)))
        )
    return step, np.clip(shift, 0, _MOST_SHIFT).astype(np.int64)


def _layer(
    name: str,
    weighted: tuple[Weighted, ...],
    terms: _Terms,
    unit: Float,
    bias: Float,
    shift: NDArray[np.int64],
    step: float,
    activation: Activation,
    dtype: str = "int16",
) -> WideLayer:
    limits = np.iinfo(dtype)
    slope = None
    if activation.slope != 1.0:
        slope = round(activation.slope * 2**SLOPE_BITS)
    return WideLayer(
        name=name,
        weighted=weighted,
        scaled=terms.in_units(unit),
        bias=np.rint(bias).astype(np.int64),
        shift=shift,
        low=int(max(limits.min, np.rint(activation.low / step))),
        high=int(min(limits.max, np.rint(activation.high / step))),
        slope=slope,
        dtype=dtype,
    )
