"""How operators that only ARM cores compute look in Relax. TVM lowers them as they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edgepipe.quantize.normal_forms import per_channel
from edgepipe.quantize.on_arm.records import (
    ArmOperation,
    Attention,
    DilatedPool,
    Joined,
    LinearAttention,
    MatrixProduct,
    Softmax,
)
from edgepipe.tvm_adapter import ModuleBuilder


def write(builder: ModuleBuilder, operation: ArmOperation) -> str:
    """Append one operator; its inputs must be bound already. Return its name."""
    match operation:
        case Joined():
            return builder.emit(operation.name, "concat", list(operation.parts), axis=1)
        case DilatedPool():
            return builder.emit(
                operation.name,
                "nn.max_pool2d",
                operation.input.name,
                pool_size=operation.kernel,
                strides=operation.stride,
                padding=operation.padding,
                dilation=operation.dilation,
            )
        case Softmax():
            return _write_softmax(builder, operation)
        case Attention():
            return _write_attention(builder, operation)
        case LinearAttention():
            return _write_linear(builder, operation)
        case MatrixProduct():
            return _write_product(builder, operation)


def _write_softmax(builder: ModuleBuilder, softmax: Softmax) -> str:
    def emit(part: str, op: str, *args: object, **attributes: object) -> str:
        return builder.emit(f"{softmax.name}__{part}", op, *args, **attributes)

    values = emit("wide", "astype", softmax.input.name, dtype="int32")
    largest = emit("largest", "max", values, axis=[softmax.axis], keepdims=True)
    below = emit("below", "subtract", largest, values)
    e = emit("exponential", "take", softmax.table, below, axis=0, mode="clip")
    if softmax.dtype != "int32":
        e = emit("wide_exponential", "astype", e, dtype=softmax.dtype)
    total = emit("total", "sum", e, axis=[softmax.axis], keepdims=True)
    one, zero = (np.full((1, 1, 1, 1), n, softmax.dtype) for n in (1, softmax.zero))
    half = emit("half", "right_shift", total, one)
    t = emit("counted", "multiply", e, per_channel(softmax.count).astype(softmax.dtype))
    t = emit("rounded", "add", t, half)
    t = emit("share", "floor_divide", t, total)
    if softmax.zero:
        t = emit("moved", "add", t, zero)
    t = emit("clipped", "clip", t, -128, 127)
    return builder.emit(softmax.name, "astype", t, dtype="int8")


def _write_attention(builder: ModuleBuilder, attention: Attention) -> str:
    def emit(part: str, op: str, *args: object, **attributes: object) -> str:
        return builder.emit(f"{attention.name}__{part}", op, *args, **attributes)

    def one(value: int, dtype: str) -> NDArray[np.signedinteger]:
        return np.full((1,) * attention.rank, value, dtype)

    if attention.key is None:
        scores = emit("scores", "astype", attention.query, dtype="int32")
    else:
        scores = emit("scores", "matmul", attention.query, attention.key, out_dtype="int32")
    if attention.rounding:
        scores = emit("rough", "right_shift", scores, one(attention.rounding, "int32"))
    if attention.bias is not None:
        scores = emit("biased", "add", scores, attention.bias)
    largest = emit("largest", "max", scores, axis=[-1], keepdims=True)
    below = emit("below", "subtract", largest, scores)
    if attention.coarser:
        below = emit("coarse", "right_shift", below, one(attention.coarser, "int32"))
    e = emit("exponential", "take", attention.table, below, axis=0, mode="clip")
    axis, factors = -1, (e, attention.value)
    if attention.is_turned:
        axes = [*range(attention.rank - 2), attention.rank - 1, attention.rank - 2]
        e = emit("turned", "permute_dims", e, axes)
        axis, factors = -2, (attention.value, e)
    acc = emit("acc", "matmul", *factors, out_dtype="int32")
    total = emit("wide", "astype", e, dtype="int32")
    total = emit("total", "sum", total, axis=[axis], keepdims=True)
    total = emit("wide_total", "astype", total, dtype="int64")
    inverse = emit("inverse", "floor_divide", one(attention.inverse, "int64"), total)
    t = emit("wide_acc", "astype", acc, dtype="int64")
    t = emit("scaled", "multiply", t, inverse)
    t = emit("rounded", "add", t, one(1 << (attention.shift - 1), "int64"))
    t = emit("shifted", "right_shift", t, one(attention.shift, "int64"))
    t = emit("clipped", "clip", t, -128, 127)
    return builder.emit(attention.name, "astype", t, dtype="int8")


def _write_linear(builder: ModuleBuilder, attention: LinearAttention) -> str:
    def emit(part: str, op: str, *args: object, **attributes: object) -> str:
        return builder.emit(f"{attention.name}__{part}", op, *args, **attributes)

    def one(value: int) -> NDArray[np.int64]:
        return np.full((1,) * attention.rank, value, np.int64)

    wide = "int32" if attention.is_narrow else "int64"

    def product(part: str, tensor: str) -> str:
        """Return the product of the queries and an int32 matrix, as int64."""
        if not attention.is_narrow:
            tensor = emit(f"wide_{part}", "astype", tensor, dtype=wide)
            return emit(part, "matmul", query, tensor, out_dtype=wide)
        narrow = emit(f"narrow_{part}", "matmul", query, tensor, out_dtype=wide)
        return emit(part, "astype", narrow, dtype="int64")

    query = emit("queries", "astype", attention.query, dtype=wide)
    context = emit("context", "matmul", attention.key, attention.value, out_dtype="int32")
    sums = product("sums", context)
    keys = emit("keys", "astype", attention.key, dtype="int32")
    keys = emit("all_keys", "sum", keys, axis=[-1], keepdims=True)
    total = product("products", keys)
    total = emit("scaled_products", "multiply", total, one(1 << attention.shift))
    total = emit("total", "add", total, one(attention.epsilon))
    sign = emit("twice", "multiply", total, one(2))
    sign = emit("odd", "add", sign, one(1))
    sign = emit("sign", "clip", sign, -1, 1)
    size = emit("magnitude", "multiply", total, sign)
    size = emit("size", "maximum", size, one(1))
    half = emit("half", "right_shift", size, one(1))
    factor = emit("factor", "multiply", sign, one(attention.factor))
    t = emit("scaled", "multiply", sums, factor)
    t = emit("rounded", "add", t, half)
    t = emit("mean", "floor_divide", t, size)
    t = emit("clipped", "clip", t, -128, 127)
    return builder.emit(attention.name, "astype", t, dtype="int8")


def _write_product(builder: ModuleBuilder, product: MatrixProduct) -> str:
    def emit(part: str, op: str, *args: object, **attributes: object) -> str:
        return builder.emit(f"{product.name}__{part}", op, *args, **attributes)

    def one(value: int) -> NDArray[np.int64]:
        return np.full((1,) * product.rank, value, np.int64)

    t = emit("acc", "matmul", product.first, product.second, out_dtype="int32")
    t = emit("wide", "astype", t, dtype="int64")
    t = emit("scaled", "multiply", t, one(product.factor))
    t = emit("rounded", "add", t, one(1 << (product.shift - 1)))
    t = emit("shifted", "right_shift", t, one(product.shift))
    t = emit("clipped", "clip", t, -128, 127)
    return builder.emit(product.name, "astype", t, dtype="int8")
