"""Lower layers to kernels: one function per kind of layer.

Lowering is exact: a kernel computes the same bits as :mod:`vta_stages.layers.reference`, or the
layer is refused with a LayerError that gives the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch

import numpy as np

from vta_stages.accelerator import Accelerator, Extension
from vta_stages.errors import LayerError
from vta_stages.isa.instructions import AluOp
from vta_stages.isa.layout import channel_blocks
from vta_stages.layers.pooled_conv import PooledConv
from vta_stages.layers.records import (
    Concat,
    Conv,
    Int8Array,
    Int32Array,
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
from vta_stages.layers.tabled_layer import PlannedLayer, TabledLayer
from vta_stages.lowering.axis_maps import (
    conv_axes,
    conv_axis,
    identity_axis,
    pool_axes,
    pooled_axis,
    transposed_axis,
)
from vta_stages.lowering.epilogue import EpilogueBuilder
from vta_stages.lowering.kernel import (
    Accumulate,
    Accumulator,
    AxisMap,
    Combine,
    FoldWindows,
    Immediate,
    IndexArray,
    Kernel,
    Reset,
    Source,
    Step,
)
from vta_stages.lowering.sources import bands, dense_source, product_bounds, scaled_copy
from vta_stages.lowering.table_pass import look_up, shared_table
from vta_stages.lowering.tensor_product import multiply
from vta_stages.lowering.terms import add_terms
from vta_stages.lowering.window_centres import can_fold


@singledispatch
def lower(layer: PlannedLayer, accelerator: Accelerator) -> Kernel:
    """Return the kernel of a consistent layer (see :mod:`vta_stages.layers.check`).

    Raises LayerError for factors and weights that do not fit int8 weights.
    """
    raise TypeError(f"expected a layer, found {type(layer).__name__}")


@lower.register
def _conv(layer: Conv, accelerator: Accelerator) -> Kernel:
    rows, cols = conv_axes(layer)
    weight = layer.weight.reshape(*layer.weight.shape[:2], -1)
    projections = [
        dense_source(
            projection.tensor,
            conv_axis(layer.output.height, projection.tensor.height, 1, projection.stride[0], 0, 1),
            conv_axis(layer.output.width, projection.tensor.width, 1, projection.stride[1], 0, 1),
            projection.weight[:, :, None],
            1,
            accelerator.block_in,
        )
        for projection in layer.projections
    ]
    return _convolution(layer, accelerator, rows, cols, weight, projections)


@lower.register
def _transposed(layer: TransposedConv, accelerator: Accelerator) -> Kernel:
    top, left, _, _ = layer.padding
    channels_in, group_out, kernel_h, kernel_w = layer.weight.shape
    sy, sx = layer.stride
    rows = transposed_axis(layer.output.height, layer.input.height, kernel_h, sy, top)
    cols = transposed_axis(layer.output.width, layer.input.width, kernel_w, sx, left)
    grouped = layer.weight.reshape(layer.groups, channels_in // layer.groups, group_out, -1)
    weight = grouped.transpose(0, 2, 1, 3).reshape(
        layer.output.channels, channels_in // layer.groups, -1
    )
    return _convolution(layer, accelerator, rows, cols, weight)


def _convolution(
    layer: Conv | TransposedConv,
    accelerator: Accelerator,
    rows: AxisMap,
    cols: AxisMap,
    weight: Int8Array,
    projections: Sequence[Source] = (),
) -> Kernel:
    block = accelerator.block_in
    builder = EpilogueBuilder(accelerator, layer.output.channels)
    sources, steps = add_terms(layer.name, layer.terms, block, builder)
    for band in bands(accelerator, rows, cols):
        steps.append(Accumulate(len(sources)))
        sources.append(dense_source(layer.input, band, cols, weight, layer.groups, block))
    builder.widen(*product_bounds(weight))
    for source in projections:
        steps.append(Accumulate(len(sources)))
        sources.append(source)
    for added in layer.projections if isinstance(layer, Conv) else ():
        builder.widen(*product_bounds(added.weight))
    steps += builder.epilogue(layer.epilogue)
    return _finish(layer, accelerator, sources, steps, builder)


@lower.register
def _sum(layer: Sum, accelerator: Accelerator) -> Kernel:
    builder = EpilogueBuilder(accelerator, layer.output.channels)
    sources, steps = add_terms(layer.name, layer.terms, accelerator.block_in, builder)
    steps += builder.epilogue(layer.epilogue)
    return _finish(layer, accelerator, sources, steps, builder)


@lower.register
def _max_pool(layer: MaxPool, accelerator: Accelerator) -> Kernel:
    kernel_h, kernel_w = layer.kernel
    rows, cols = pool_axes(layer)
    same_weight = np.zeros(kernel_h * kernel_w, np.int64)
    source = scaled_copy(layer.input, rows, cols, [1], accelerator.block_in, same_weight)
    steps = [FoldWindows(0)] if can_fold(source) else _largest_part(0, kernel_h, kernel_w)
    builder = EpilogueBuilder(accelerator, layer.output.channels)
    return _finish(layer, accelerator, [source], steps, builder)


def _largest_part(source: int, rows: int, cols: int) -> list[Step]:
    """Return the steps that leave the largest of a source's ``rows`` x ``cols`` sums in MAIN."""
    steps: list[Step] = [Accumulate(source, Accumulator.MAIN, (0, 0))]
    for part in range(1, rows * cols):
        steps += [
            Reset(Accumulator.TEMP),
            Accumulate(source, Accumulator.TEMP, divmod(part, cols)),
            Combine(AluOp.MAX, Accumulator.MAIN, Accumulator.TEMP),
        ]
    return steps


@lower.register
def _pooled_conv(layer: PooledConv, accelerator: Accelerator) -> Kernel:
    """Take the maximum before bias, activation, shift and clip, which are all monotonic."""
    conv, pool = layer.conv, layer.pool
    rows, cols = (
        pooled_axis(window, products)
        for window, products in zip(pool_axes(pool), conv_axes(conv), strict=True)
    )
    weight = conv.weight.reshape(*conv.weight.shape[:2], -1)
    builder = EpilogueBuilder(accelerator, layer.output.channels)
    builder.widen(*product_bounds(weight))
    source = dense_source(conv.input, rows, cols, weight, conv.groups, accelerator.block_in)
    steps = [*_largest_part(0, *pool.kernel), *builder.epilogue(conv.epilogue)]
    return _finish(layer, accelerator, [source], steps, builder)


@lower.register
def _resize(layer: Resize, accelerator: Accelerator) -> Kernel:
    (row_values, rows), (col_values, cols) = _weighted(layer.rows), _weighted(layer.cols)
    products = np.outer(row_values, col_values).ravel()
    if len(products) and (products.min() < -128 or products.max() > 127):
        raise LayerError(
            f"{layer.name}: a product of a row and a column weight is "
            f"{products[np.abs(products).argmax()]}, expected -128 to 127",
            hint="use a smaller shift for the resize",
        )
    values, weight_of_tap = np.unique(products, return_inverse=True)
    source = scaled_copy(
        layer.input, rows, cols, values.tolist(), accelerator.block_in, weight_of_tap.ravel()
    )
    builder = EpilogueBuilder(accelerator, layer.output.channels)
    negative, positive = _weight_sums(layer.rows, layer.cols)
    builder.widen(
        np.array(-128 * positive - 127 * negative), np.array(127 * positive + 128 * negative)
    )
    rounding = 1 << (layer.shift - 1) if layer.shift else 0
    steps = [Accumulate(0), *builder.requantise(rounding, layer.shift, -128, 127)]
    return _finish(layer, accelerator, [source], steps, builder)


def _weighted(matrix: Int32Array) -> tuple[IndexArray, AxisMap]:
    """Split a resampling matrix into its distinct weights and a map whose taps index them."""
    out, src = np.nonzero(matrix)
    values, tap = np.unique(matrix[out, src], return_inverse=True)
    return values.astype(np.int64), AxisMap.of(out, src, tap.ravel(), len(values))


def _weight_sums(rows: Int32Array, cols: Int32Array) -> tuple[int, int]:
    """Bound the sums of the negative and of the positive weights of an output pixel.

    Both results are magnitudes.
    """
    row_plus, row_minus = _largest(np.maximum(rows, 0)), _largest(np.maximum(-rows, 0))
    col_plus, col_minus = _largest(np.maximum(cols, 0)), _largest(np.maximum(-cols, 0))
    negative = row_plus * col_minus + row_minus * col_plus
    return negative, row_plus * col_plus + row_minus * col_minus


def _largest(matrix: Int32Array) -> int:
    return int(matrix.astype(np.int64).sum(axis=1).max(initial=0))


@lower.register
def _concat(layer: Concat, accelerator: Accelerator) -> Kernel:
    """Move lanes with shifted identity weights.

    :mod:`vta_stages.memory_plan` removes concatenations that start at whole blocks beforehand.
    """
    block = accelerator.block_in
    builder = EpilogueBuilder(accelerator, layer.output.channels)
    co_blocks = channel_blocks(accelerator, layer.output.channels)
    sources: list[Source] = []
    offset = 0
    for part in layer.inputs:
        blocks = channel_blocks(accelerator, part.channels)
        count = min(blocks, 2)
        # Output block c takes channels c*block - offset onwards, which lie in at most two blocks.
        first = np.clip((np.arange(co_blocks) * block - offset) // block, 0, blocks - count)
        weights = np.zeros((co_blocks, count, 1, block, block), np.int8)
        ci = np.arange(part.channels)
        co = ci + offset
        weights[co // block, ci // block - first[co // block], 0, co % block, ci % block] = 1
        sources.append(_moved_lanes(part, weights, first))
        offset += part.channels
    steps: list[Step] = [Accumulate(index) for index in range(len(sources))]
    return _finish(layer, accelerator, sources, steps, builder)


@lower.register
def _pick(layer: Pick, accelerator: Accelerator) -> Kernel:
    """Move lanes with weights of 0 and 1: each output block reads the blocks of its channels."""
    block = accelerator.block_in
    ci = np.array(layer.channels)
    co = np.arange(len(ci))
    read = [np.unique(ci[co // block == c] // block) for c in range(int(co[-1]) // block + 1)]
    sources: list[Source] = []
    for turn in range(max(map(len, read))):
        # An output block that reads fewer blocks than others adds zeros of its last one.
        first = np.array([blocks[min(turn, len(blocks) - 1)] for blocks in read])
        own = np.array([turn < len(blocks) for blocks in read])
        taken = own[co // block] & (ci // block == first[co // block])
        weights = np.zeros((len(read), 1, 1, block, block), np.int8)
        weights[co[taken] // block, 0, 0, co[taken] % block, ci[taken] % block] = 1
        sources.append(_moved_lanes(layer.input, weights, first))
    builder = EpilogueBuilder(accelerator, layer.output.channels)
    steps: list[Step] = [Accumulate(index) for index in range(len(sources))]
    return _finish(layer, accelerator, sources, steps, builder)


def _moved_lanes(tensor: TensorSpec, weights: Int8Array, first: IndexArray) -> Source:
    """Return every pixel of ``tensor``, its blocks from ``first`` on times ``weights``."""
    return Source(
        tensor=tensor,
        rows=identity_axis(tensor.height),
        cols=identity_axis(tensor.width),
        weights=weights,
        weight_of_tap=np.zeros(1, np.int64),
        diagonal=False,
        ci_first=first,
    )


@lower.register
def _table(layer: Table, accelerator: Accelerator) -> Kernel:
    table = _table_of(layer, accelerator)
    builder = EpilogueBuilder(accelerator, layer.output.channels)
    same = Term(tensor=layer.input, factor=np.ones(layer.input.channels, np.int32))
    sources, steps = add_terms(layer.name, (same,), accelerator.block_in, builder)
    return look_up(_finish(layer, accelerator, sources, steps, builder), table)


@lower.register
def _tabled_layer(layer: TabledLayer, accelerator: Accelerator) -> Kernel:
    table = _table_of(layer.table, accelerator)
    made = lower(layer.maker, accelerator)
    return look_up(replace(made, name=layer.name, output=layer.output), table)


def _table_of(layer: Table, accelerator: Accelerator) -> Int8Array:
    """Return the table int8[256] of all channels, or refuse the layer."""
    if not accelerator.has(Extension.TABLE):
        what = "values are looked up in a table, which the accelerator does not have"
        raise _refusal(layer, what)
    table = shared_table(layer.table)
    if table is None:
        raise _refusal(layer, "has a table for each channel; the accelerator's is one for all")
    return table


@lower.register
def _product(layer: Product, accelerator: Accelerator) -> Kernel:
    if not accelerator.has(Extension.MULTIPLY):
        what = "multiplies two tensors; the accelerator multiplies only by constants"
        raise _refusal(layer, what)
    builder = EpilogueBuilder(accelerator, layer.output.channels)
    sources, steps = multiply(layer, accelerator.block_in, builder)
    steps += builder.epilogue(layer.epilogue)
    return _finish(layer, accelerator, sources, steps, builder)


@lower.register
def _quotient(layer: Quotient, accelerator: Accelerator) -> Kernel:
    raise _refusal(layer, "divides two tensors; the accelerator multiplies only by constants")


@lower.register
def _pixel_affine(layer: PixelAffine, accelerator: Accelerator) -> Kernel:
    raise _refusal(layer, "has constants for each pixel; the accelerator's are for each channel")


def _refusal(layer: PlannedLayer, reason: str) -> LayerError:
    return LayerError(
        f"{layer.name}: {reason}",
        hint="place it on arm",
        option="placement",
        value=f"{layer.name}=arm",
    )


def _finish(
    layer: PlannedLayer,
    accelerator: Accelerator,
    sources: Sequence[Source],
    steps: Sequence[Step],
    builder: EpilogueBuilder,
) -> Kernel:
    ending: list[Step] = []
    if not _writes_everything(layer.output, sources, steps):
        ending.append(Immediate(AluOp.ADD, Accumulator.MAIN, 0))
    return Kernel(
        name=layer.name,
        output=layer.output,
        co_blocks=channel_blocks(accelerator, layer.output.channels),
        sources=tuple(sources),
        steps=(Reset(Accumulator.MAIN), *steps, *ending),
        vectors=builder.vectors(),
        biases=builder.biases(),
    )


def _writes_everything(
    output: TensorSpec, sources: Sequence[Source], steps: Sequence[Step]
) -> bool:
    """Return whether a step writes every entry. A reset does not count: it skips the out buffer."""
    for step in steps:
        if step.target is not Accumulator.MAIN:
            continue
        if isinstance(step, Reset):
            continue
        if not isinstance(step, Accumulate):
            return True
        source = sources[step.source]
        rows, cols = source.rows.only(step.part[0]), source.cols.only(step.part[1])
        covered = len(np.unique(rows.out)) * len(np.unique(cols.out))
        if source.diagonal and covered == output.height * output.width:
            return True
    return False
