"""Check that the parts of a layer fit together, before it is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

import numpy as np

from vta_stages.errors import LayerError
from vta_stages.layers.records import (
    Concat,
    Conv,
    Convolution,
    Epilogue,
    Layer,
    MaxPool,
    Pick,
    PixelAffine,
    Product,
    Quotient,
    Resize,
    Sum,
    Table,
    TensorSpec,
    Term,
    TransposedConv,
)

LONGEST_SHIFT = 30
"""The longest right shift in an epilogue, in bits."""


@singledispatch
def check_consistent(layer: Layer) -> None:
    """Raise LayerError if the parts of a layer contradict each other."""
    raise TypeError(f"expected a layer, found {type(layer).__name__}")


def _expect(layer: Layer, what: str, found: object, expected: object) -> None:
    if found != expected:
        raise LayerError(f"{layer.name}: {what} is {found}, expected {expected}")


def _expect_range(layer: Layer, what: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise LayerError(f"{layer.name}: {what} is {value}, expected {low} to {high}")


def _shape(spec: TensorSpec) -> tuple[int, int, int]:
    return spec.channels, spec.height, spec.width


def _check_tensor(layer: Layer, spec: TensorSpec) -> None:
    if min(_shape(spec)) < 1:
        raise LayerError(f"{layer.name}: tensor {spec.name} is {_shape(spec)}, expected >= 1 each")


def _check_epilogue(layer: Layer, epilogue: Epilogue) -> None:
    channels = (layer.output.channels,)
    _expect(layer, "shape of the bias", epilogue.bias.shape, channels)
    _expect(layer, "shape of the shift", epilogue.shift.shape, channels)
    for shift in (int(epilogue.shift.min()), int(epilogue.shift.max())):
        _expect_range(layer, "shift", shift, 0, LONGEST_SHIFT)
    _expect_range(layer, "upper clip", epilogue.high, -128, 127)
    _expect_range(layer, "lower clip", epilogue.low, -128, epilogue.high)
    if epilogue.leaky is not None:
        _expect(layer, "shape of the leaky offset", epilogue.leaky.offset.shape, channels)
        for shift, _ in epilogue.leaky.steps:
            _expect_range(layer, "leaky shift", shift, 0, LONGEST_SHIFT)


def _check_terms(layer: Layer, terms: Sequence[Term]) -> None:
    for term in terms:
        _expect(layer, f"shape of {term.tensor.name}", _shape(term.tensor), _shape(layer.output))
        _expect(layer, "shape of a factor", term.factor.shape, (layer.output.channels,))


def _check_groups(layer: Convolution, out_channels: int, in_channels: int) -> None:
    if layer.groups < 1 or out_channels % layer.groups or in_channels % layer.groups:
        raise LayerError(
            f"{layer.name}: {in_channels} input and {out_channels} output channels in "
            f"{layer.groups} groups, expected multiples of the number of groups"
        )


def _check_geometry(
    layer: Convolution | MaxPool, kernel: tuple[int, int], least_padding: int
) -> None:
    if min(*kernel, *layer.stride) < 1 or min(layer.padding) < least_padding:
        raise LayerError(
            f"{layer.name}: kernel {kernel}, stride {layer.stride}, padding {layer.padding}, "
            f"expected kernel and stride >= 1 and padding >= {least_padding}"
        )


def conv_extent(extent: int, kernel: int, stride: int, dilation: int, pads: int) -> int:
    """Return the output extent of a convolution or pooling along one axis, in pixels.

    ``pads`` is the padding on both sides together.
    """
    return (extent + pads - (kernel - 1) * dilation - 1) // stride + 1


def pool_padding(
    padding: tuple[int, int, int, int],
    extents: Sequence[tuple[int, int]],
    kernel: tuple[int, int],
    stride: tuple[int, int],
) -> tuple[int, int, int, int]:
    """Return (top, left, bottom, right) of a max pooling, enough for outputs that are rounded up.

    ``extents`` are the pixels of input and output, of the rows and of the columns. Rounding up is
    the same as more padding at the end, and padding is never the maximum.
    """
    top, left, *ends = padding
    for axis, (had, made) in enumerate(extents):
        needed = (made - 1) * stride[axis] + kernel[axis] - had - padding[axis]
        ends[axis] = max(ends[axis], needed)
    return top, left, ends[0], ends[1]


def _check_projections(layer: Conv) -> None:
    for projection in layer.projections:
        tensor, (sy, sx) = projection.tensor, projection.stride
        _check_tensor(layer, tensor)
        if min(sy, sx) < 1:
            raise LayerError(f"{layer.name}: stride is {projection.stride}, expected >= 1")
        shape = (layer.output.channels, tensor.channels)
        _expect(layer, f"shape of the weight of {tensor.name}", projection.weight.shape, shape)
        extents = (conv_extent(tensor.height, 1, sy, 1, 0), conv_extent(tensor.width, 1, sx, 1, 0))
        picture = (layer.output.height, layer.output.width)
        _expect(layer, f"output picture of {tensor.name}", extents, picture)


@check_consistent.register
def _conv(layer: Conv) -> None:
    _check_tensor(layer, layer.input)
    _check_tensor(layer, layer.output)
    out_channels, group_in, kernel_h, kernel_w = layer.weight.shape
    _check_geometry(layer, (kernel_h, kernel_w), 0)
    _expect(layer, "output channels of the weight", out_channels, layer.output.channels)
    _check_groups(layer, out_channels, layer.input.channels)
    _expect(layer, "input channels of the weight", group_in, layer.input.channels // layer.groups)
    if min(layer.dilation) < 1:
        raise LayerError(f"{layer.name}: dilation is {layer.dilation}, expected >= 1")
    top, left, bottom, right = layer.padding
    (sy, sx), (dy, dx) = layer.stride, layer.dilation
    extents = (
        conv_extent(layer.input.height, kernel_h, sy, dy, top + bottom),
        conv_extent(layer.input.width, kernel_w, sx, dx, left + right),
    )
    _expect(layer, "output picture", (layer.output.height, layer.output.width), extents)
    _check_terms(layer, layer.terms)
    _check_projections(layer)
    _check_epilogue(layer, layer.epilogue)


@check_consistent.register
def _transposed(layer: TransposedConv) -> None:
    _check_tensor(layer, layer.input)
    _check_tensor(layer, layer.output)
    in_channels, group_out, kernel_h, kernel_w = layer.weight.shape
    _check_geometry(layer, (kernel_h, kernel_w), 0)
    _expect(layer, "input channels of the weight", in_channels, layer.input.channels)
    _check_groups(layer, layer.output.channels, in_channels)
    _expect(
        layer, "output channels of the weight", group_out, layer.output.channels // layer.groups
    )
    # Output padding of less than the stride adds rows at the bottom and columns at the right.
    top, left, bottom, right = layer.padding
    for axis, extent_in, extent_out, kernel, stride, pads in (
        (
            "height",
            layer.input.height,
            layer.output.height,
            kernel_h,
            layer.stride[0],
            top + bottom,
        ),
        ("width", layer.input.width, layer.output.width, kernel_w, layer.stride[1], left + right),
    ):
        least = (extent_in - 1) * stride + kernel - pads
        _expect_range(layer, f"output {axis}", extent_out, least, least + stride - 1)
    _check_terms(layer, layer.terms)
    _check_epilogue(layer, layer.epilogue)


@check_consistent.register
def _sum(layer: Sum) -> None:
    _check_tensor(layer, layer.output)
    if not layer.terms:
        raise LayerError(f"{layer.name}: no terms, expected at least one")
    _check_terms(layer, layer.terms)
    _check_epilogue(layer, layer.epilogue)


@check_consistent.register
def _max_pool(layer: MaxPool) -> None:
    _check_tensor(layer, layer.input)
    _check_tensor(layer, layer.output)
    _check_geometry(layer, layer.kernel, 0)
    _expect(layer, "output channels", layer.output.channels, layer.input.channels)
    top, left, bottom, right = layer.padding
    for axis, extent_in, extent_out, kernel, stride, before, after in (
        ("height", layer.input.height, layer.output.height, layer.kernel[0], layer.stride[0],
         top, bottom),
        ("width", layer.input.width, layer.output.width, layer.kernel[1], layer.stride[1],
         left, right),
    ):  # fmt: skip
        extent = conv_extent(extent_in, kernel, stride, 1, before + after)
        # The last window may extend beyond the padding (ceil mode) if it touches the picture.
        _expect_range(layer, f"output {axis}", extent_out, extent, extent + 1)
        start = (extent_out - 1) * stride - before
        if before >= kernel or start >= extent_in:
            raise LayerError(
                f"{layer.name}: a window of {kernel} along the {axis} lies at "
                f"{-before if before >= kernel else start}, outside the picture of {extent_in}",
                hint="reduce the padding so that every window contains a pixel",
            )


@check_consistent.register
def _resize(layer: Resize) -> None:
    _check_tensor(layer, layer.input)
    _check_tensor(layer, layer.output)
    _expect(layer, "output channels", layer.output.channels, layer.input.channels)
    _expect(layer, "shape of the rows", layer.rows.shape, (layer.output.height, layer.input.height))
    _expect(layer, "shape of the cols", layer.cols.shape, (layer.output.width, layer.input.width))
    _expect_range(layer, "shift", layer.shift, 0, LONGEST_SHIFT)
    if not (np.any(layer.rows) and np.any(layer.cols)):
        raise LayerError(f"{layer.name}: all weights are zero, expected at least one other weight")


@check_consistent.register
def _concat(layer: Concat) -> None:
    if not layer.inputs:
        raise LayerError(f"{layer.name}: no inputs, expected at least one")
    picture = (layer.output.height, layer.output.width)
    for part in layer.inputs:
        _check_tensor(layer, part)
        _expect(layer, f"picture of {part.name}", (part.height, part.width), picture)
    total = sum(part.channels for part in layer.inputs)
    _expect(layer, "output channels", layer.output.channels, total)


@check_consistent.register
def _table(layer: Table) -> None:
    _check_tensor(layer, layer.input)
    _expect(layer, "shape of the output", _shape(layer.output), _shape(layer.input))
    rows = 1 if layer.table.shape[0] == 1 else layer.output.channels
    _expect(layer, "shape of the table", layer.table.shape, (rows, 256))


def _check_broadcast(layer: Layer, what: str, shape: tuple[int, ...]) -> None:
    """Raise LayerError if a (channels, height, width) has another extent than the output or 1."""
    extents = zip(shape, _shape(layer.output), strict=True)
    _expect(
        layer, f"shape of {what}", shape, tuple(made if had != 1 else 1 for had, made in extents)
    )


@check_consistent.register
def _product(layer: Product) -> None:
    _check_tensor(layer, layer.output)
    for tensor in (layer.first, layer.second):
        _check_broadcast(layer, tensor.name, _shape(tensor))
    _expect(layer, "shape of the factor", layer.factor.shape, (layer.output.channels,))
    _check_terms(layer, layer.terms)
    _check_epilogue(layer, layer.epilogue)


@check_consistent.register
def _quotient(layer: Quotient) -> None:
    _check_tensor(layer, layer.output)
    for tensor in (layer.first, layer.second):
        _check_broadcast(layer, tensor.name, _shape(tensor))
    rows = 1 if layer.table.shape[0] == 1 else layer.output.channels
    _expect(layer, "shape of the table", layer.table.shape, (rows, 256))
    _check_terms(layer, layer.terms)
    _check_epilogue(layer, layer.epilogue)


@check_consistent.register
def _pixel_affine(layer: PixelAffine) -> None:
    _check_tensor(layer, layer.output)
    _check_broadcast(layer, layer.input.name, _shape(layer.input))
    _check_broadcast(layer, "the factor", layer.factor.shape[1:])
    _check_broadcast(layer, "the bias", layer.bias.shape[1:])
    _check_epilogue(layer, layer.epilogue)


@check_consistent.register
def _pick(layer: Pick) -> None:
    _check_tensor(layer, layer.input)
    _check_tensor(layer, layer.output)
    picture = (layer.input.height, layer.input.width)
    _expect(layer, "output picture", (layer.output.height, layer.output.width), picture)
    _expect(layer, "number of channels", len(layer.channels), layer.output.channels)
    for channel in (min(layer.channels), max(layer.channels)):
        _expect_range(layer, "channel", channel, 0, layer.input.channels - 1)
