"""The meaning of each layer: plain numpy, int32 with wrap-around, no layout and no tiling.

The compiler's tests compare every program with these functions. Tensors are
int8[channels, height, width]. Products are summed in float64, which is exact for sums of int8
products below 2**53, and wrapped to int32 once: the result of addition modulo 2**32 does not depend
on where the wrap happens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from vta_stages.layers.records import (
    Concat,
    Conv,
    Epilogue,
    Int8Array,
    Int32Array,
    Layer,
    LeakySum,
    MaxPool,
    Pick,
    PixelAffine,
    Product,
    Quotient,
    Resize,
    Sum,
    Table,
    Term,
    TransposedConv,
)

Tensors = Mapping[str, Int8Array]


def run_layers(layers: Sequence[Layer], inputs: Tensors) -> dict[str, Int8Array]:
    """Return all tensors of a network from its inputs, int8[channels, height, width] each."""
    tensors = dict(inputs)
    for layer in layers:
        tensors[layer.output.name] = run_layer(layer, tensors)
    return tensors


@singledispatch
def run_layer(layer: Layer, tensors: Tensors) -> Int8Array:
    """Return a layer's output int8[channels, height, width]; ``tensors`` holds its inputs."""
    raise TypeError(f"expected a layer, found {type(layer).__name__}")


def _wrap(values: NDArray[np.int64]) -> Int32Array:
    return values.astype(np.uint32).view(np.int32)


def _per_channel(values: Int32Array) -> Int32Array:
    return values.reshape(-1, 1, 1)


def apply_epilogue(epilogue: Epilogue, acc: Int32Array) -> Int8Array:
    """Return the int8 output of an accumulator int32[channels, height, width], the same shape."""
    v = leaky_values(epilogue, acc) >> _per_channel(epilogue.shift)
    clipped: Int32Array = np.clip(v, epilogue.low, epilogue.high)
    return clipped.astype(np.int8)


def leaky_values(epilogue: Epilogue, acc: Int32Array) -> Int32Array:
    """Return an accumulator int32[channels, height, width] after bias and leaky ReLU."""
    v = acc + _per_channel(epilogue.bias)
    if epilogue.leaky is None:
        return v
    t = v + _per_channel(epilogue.leaky.offset)
    for shift, sum_ in epilogue.leaky.steps:
        t = t >> np.int32(shift)
        if sum_ is LeakySum.TO_BRANCH:
            t = t + v
        elif sum_ is LeakySum.TO_VALUE:
            v = v + t
    larger: Int32Array = np.maximum(v, t)
    return larger


def _add_terms(acc: Int32Array, terms: Sequence[Term], tensors: Tensors) -> Int32Array:
    for term in terms:
        product = tensors[term.tensor.name].astype(np.int64) * _per_channel(term.factor)
        acc = acc + _wrap(product)
    return acc


def _products(weight: Int8Array, picture: NDArray[np.float64], groups: int) -> NDArray[np.int64]:
    """Multiply ``weight`` [co, ci / groups] by ``picture`` [ci, pixels], group by group."""
    split = weight.astype(np.float64).reshape(groups, -1, weight.shape[1])
    pixels = picture.reshape(groups, weight.shape[1], -1)
    return (split @ pixels).reshape(weight.shape[0], -1).astype(np.int64)


@run_layer.register
def _conv(layer: Conv, tensors: Tensors) -> Int8Array:
    top, left, bottom, right = layer.padding
    picture = np.pad(
        tensors[layer.input.name].astype(np.float64), ((0, 0), (top, bottom), (left, right))
    )
    height, width = layer.output.height, layer.output.width
    acc = np.zeros((layer.output.channels, height * width), np.int64)
    for ky in range(layer.weight.shape[2]):
        for kx in range(layer.weight.shape[3]):
            y, x = ky * layer.dilation[0], kx * layer.dilation[1]
            window = picture[:, y :: layer.stride[0], x :: layer.stride[1]][:, :height, :width]
            acc += _products(layer.weight[:, :, ky, kx], window, layer.groups)
    for projection in layer.projections:
        (sy, sx), whole = projection.stride, tensors[projection.tensor.name]
        acc += _products(projection.weight, whole[:, ::sy, ::sx].astype(np.float64), 1)
    summed = _wrap(acc.reshape(-1, height, width))
    return apply_epilogue(layer.epilogue, _add_terms(summed, layer.terms, tensors))


@run_layer.register
def _transposed(layer: TransposedConv, tensors: Tensors) -> Int8Array:
    picture = tensors[layer.input.name].astype(np.float64)
    height, width = picture.shape[1:]
    (sy, sx), (top, left, _, _) = layer.stride, layer.padding
    kernel_h, kernel_w = layer.weight.shape[2:]
    # Scatter into a canvas that holds the whole padded output, then crop the output.
    rows = max((height - 1) * sy + kernel_h, top + layer.output.height)
    cols = max((width - 1) * sx + kernel_w, left + layer.output.width)
    canvas = np.zeros((layer.output.channels, rows, cols), np.int64)
    for ky in range(kernel_h):
        for kx in range(kernel_w):
            grouped = layer.weight[:, :, ky, kx].reshape(layer.groups, -1, layer.weight.shape[1])
            weight = grouped.transpose(0, 2, 1).reshape(layer.output.channels, -1)
            product = _products(weight, picture, layer.groups).reshape(-1, height, width)
            rows_hit = slice(ky, ky + (height - 1) * sy + 1, sy)
            cols_hit = slice(kx, kx + (width - 1) * sx + 1, sx)
            canvas[:, rows_hit, cols_hit] += product
    cut = canvas[:, top : top + layer.output.height, left : left + layer.output.width]
    return apply_epilogue(layer.epilogue, _add_terms(_wrap(cut), layer.terms, tensors))


@run_layer.register
def _sum(layer: Sum, tensors: Tensors) -> Int8Array:
    shape = (layer.output.channels, layer.output.height, layer.output.width)
    acc = _add_terms(np.zeros(shape, np.int32), layer.terms, tensors)
    return apply_epilogue(layer.epilogue, acc)


@run_layer.register
def _max_pool(layer: MaxPool, tensors: Tensors) -> Int8Array:
    top, left, _, _ = layer.padding
    height, width = layer.output.height, layer.output.width
    # The last windows may extend beyond the padding (ceil mode).
    bottom = (height - 1) * layer.stride[0] + layer.kernel[0] - top - layer.input.height
    right = (width - 1) * layer.stride[1] + layer.kernel[1] - left - layer.input.width
    picture = np.pad(
        tensors[layer.input.name],
        ((0, 0), (top, max(bottom, 0)), (left, max(right, 0))),
        constant_values=np.int8(-128),
    )
    windows = [
        picture[:, ky :: layer.stride[0], kx :: layer.stride[1]][:, :height, :width]
        for ky in range(layer.kernel[0])
        for kx in range(layer.kernel[1])
    ]
    largest: Int8Array = np.maximum.reduce(windows)
    return largest


@run_layer.register
def _resize(layer: Resize, tensors: Tensors) -> Int8Array:
    picture = tensors[layer.input.name].astype(np.int64)
    acc = layer.rows.astype(np.int64) @ picture @ layer.cols.astype(np.int64).T
    if layer.shift:
        acc = (acc + (1 << (layer.shift - 1))) >> layer.shift
    clipped: NDArray[np.int64] = np.clip(acc, -128, 127)
    return clipped.astype(np.int8)


@run_layer.register
def _concat(layer: Concat, tensors: Tensors) -> Int8Array:
    return np.concatenate([tensors[part.name] for part in layer.inputs])


@run_layer.register
def _table(layer: Table, tensors: Tensors) -> Int8Array:
    picture = tensors[layer.input.name]
    rows = np.broadcast_to(layer.table, (picture.shape[0], 256))
    index = picture.reshape(picture.shape[0], -1).astype(np.intp) + 128
    looked_up: Int8Array = np.take_along_axis(rows, index, axis=1)
    return looked_up.reshape(picture.shape)


@run_layer.register
def _product(layer: Product, tensors: Tensors) -> Int8Array:
    first, second = (tensors[t.name].astype(np.int64) for t in (layer.first, layer.second))
    acc = _wrap(first * second * _per_channel(layer.factor))
    return apply_epilogue(layer.epilogue, _add_terms(acc, layer.terms, tensors))


@run_layer.register
def _quotient(layer: Quotient, tensors: Tensors) -> Int8Array:
    first, second = (tensors[t.name].astype(np.int64) for t in (layer.first, layer.second))
    rows = np.arange(layer.table.shape[0]).reshape(-1, 1, 1)
    acc = _wrap(first * layer.table.astype(np.int64)[rows, second + 128])
    return apply_epilogue(layer.epilogue, _add_terms(acc, layer.terms, tensors))


@run_layer.register
def _pixel_affine(layer: PixelAffine, tensors: Tensors) -> Int8Array:
    factor, bias = layer.factor[0].astype(np.int64), layer.bias[0]
    return apply_epilogue(layer.epilogue, _wrap(tensors[layer.input.name] * factor + bias))


@run_layer.register
def _pick(layer: Pick, tensors: Tensors) -> Int8Array:
    return tensors[layer.input.name][list(layer.channels)]
