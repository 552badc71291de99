"""How int16 operators look in Relax. Nothing reads them back: TVM lowers them as they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgepipe.quantize.int16.records import (
    SLOPE_BITS,
    Operand,
    ToInt16,
    Weighted,
    WideConcat,
    WideLayer,
    WideMaxPool,
    WideOperation,
    WideResize,
    WideTable,
)
from edgepipe.quantize.normal_forms import write_quantize
from edgepipe.tvm_adapter import ModuleBuilder

TABLE_BITS = 15


def write(builder: ModuleBuilder, operation: WideOperation) -> str:
    """Append one operator; its inputs must be bound already. Return its name."""
    match operation:
        case WideLayer():
            return _write_layer(builder, operation)
        case WideMaxPool():
            return _write_max_pool(builder, operation)
        case WideResize():
            return _write_resize(builder, operation)
        case WideTable():
            return _write_table(builder, operation)
        case WideConcat():
            return _write_concat(builder, operation)
        case ToInt16():
            return write_quantize(
                builder,
                operation.name,
                operation.tensor,
                operation.step,
                reshape=operation.shape,
                dtype="int16",
            )


def _write_layer(builder: ModuleBuilder, layer: WideLayer) -> str:
    name = layer.name
    parts = [
        _write_weighted(builder, f"{name}__part{index}", part)
        for index, part in enumerate(layer.weighted)
    ]
    for index, term in enumerate(layer.scaled):
        part = f"{name}__term{index}"
        wide = [
            builder.emit(f"{part}_wide{place}", "astype", tensor.name, dtype="int64")
            for place, tensor in enumerate(term.tensors)
        ]
        found = wide[0]
        if len(wide) > 1:
            found = builder.emit(f"{part}_product", "multiply", *wide)
        parts.append(builder.emit(part, "multiply", found, _per_channel(term.factor)))
    total = parts[0]
    for index, part in enumerate(parts[1:]):
        total = builder.emit(f"{name}__sum{index}", "add", total, part)
    half = np.where(layer.shift > 0, 1 << np.maximum(layer.shift - 1, 0), 0)
    if layer.slope is None:
        total = builder.emit(f"{name}__biased", "add", total, _per_channel(layer.bias + half))
    else:
        total = builder.emit(f"{name}__biased", "add", total, _per_channel(layer.bias))
        leak = builder.emit(f"{name}__leak", "multiply", total, _single(layer.slope))
        leak = builder.emit(f"{name}__leaked", "right_shift", leak, _single(SLOPE_BITS))
        total = builder.emit(f"{name}__leaky", "maximum", total, leak)
        total = builder.emit(f"{name}__rounded", "add", total, _per_channel(half))
    total = builder.emit(f"{name}__shifted", "right_shift", total, _per_channel(layer.shift))
    total = builder.emit(f"{name}__clipped", "clip", total, layer.low, layer.high)
    return builder.emit(name, "astype", total, dtype=layer.dtype)


def _write_weighted(builder: ModuleBuilder, name: str, part: Weighted) -> str:
    tensor = _as_int16(builder, f"{name}_wide", part.tensor)
    if part.transposed:
        return builder.emit(
            name,
            "nn.conv2d_transpose",
            tensor,
            part.weight,
            strides=part.stride,
            padding=part.padding,
            output_padding=part.output_padding,
            groups=part.groups,
            out_dtype="int64",
        )
    return builder.emit(
        name,
        "nn.conv2d",
        tensor,
        part.weight,
        strides=part.stride,
        padding=part.padding,
        dilation=part.dilation,
        groups=part.groups,
        out_dtype="int64",
    )


def _write_max_pool(builder: ModuleBuilder, pool: WideMaxPool) -> str:
    return builder.emit(
        pool.name,
        "nn.max_pool2d",
        pool.source.name,
        pool_size=pool.kernel,
        strides=pool.stride,
        padding=pool.padding,
        dilation=pool.dilation,
    )


def _write_resize(builder: ModuleBuilder, resize: WideResize) -> str:
    name = resize.name
    v = builder.emit(f"{name}__wide", "astype", resize.source.name, dtype="int64")
    v = builder.emit(f"{name}__rows", "matmul", resize.rows, v)
    v = builder.emit(f"{name}__cols", "matmul", v, np.ascontiguousarray(resize.cols.T))
    if resize.shift > 0:
        v = builder.emit(f"{name}__rounded", "add", v, _single(1 << (resize.shift - 1)))
        v = builder.emit(f"{name}__shifted", "right_shift", v, _single(resize.shift))
    elif resize.shift < 0:
        v = builder.emit(f"{name}__shifted", "multiply", v, _single(1 << -resize.shift))
    v = builder.emit(f"{name}__clipped", "clip", v, -(1 << 15), (1 << 15) - 1)
    return builder.emit(name, "astype", v, dtype="int16")


def _write_table(builder: ModuleBuilder, table: WideTable) -> str:
    name = table.name
    rows, entries = table.table.shape
    index = builder.emit(f"{name}__wide", "astype", table.source.name, dtype="int32")
    if table.factor is not None:
        factor = np.asarray(table.factor, np.int32).reshape(1, -1, 1, 1)
        index = builder.emit(f"{name}__scaled", "multiply", index, factor)
        half, by = (_single(value, np.int32) for value in (1 << (TABLE_BITS - 1), TABLE_BITS))
        index = builder.emit(f"{name}__rounded", "add", index, half)
        index = builder.emit(f"{name}__shifted", "right_shift", index, by)
    first = entries // 2 + entries * np.arange(rows, dtype=np.int32)
    index = builder.emit(f"{name}__index", "add", index, first.reshape(1, -1, 1, 1))
    flat = np.ascontiguousarray(table.table.reshape(-1))
    return builder.emit(name, "take", flat, index, axis=0, mode="clip")


def _write_concat(builder: ModuleBuilder, concat: WideConcat) -> str:
    parts = []
    for index, part in enumerate(concat.parts):
        name = _as_int16(builder, f"{concat.name}__wide{index}", part)
        if part.dtype == "int8":
            step = np.full((1, 1, 1, 1), 256, np.int16)
            name = builder.emit(f"{concat.name}__part{index}", "multiply", name, step)
        parts.append(name)
    return builder.emit(concat.name, "concat", parts, axis=1)


def _as_int16(builder: ModuleBuilder, name: str, tensor: Operand) -> str:
    if tensor.dtype == "int16":
        return tensor.name
    return builder.emit(name, "astype", tensor.name, dtype="int16")


def _per_channel(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.ascontiguousarray(values, dtype=np.int64).reshape(1, -1, 1, 1)


def _single(value: int, dtype: type[np.signedinteger] = np.int64) -> NDArray[np.signedinteger]:
    return np.full((1, 1, 1, 1), value, dtype)
