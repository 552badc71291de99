"""How operators that only ARM cores compute look in Relax. TVM lowers them as they are."""

from __future__ import annotations

import numpy as np

from edgepipe.quantize.normal_forms import per_channel
from edgepipe.quantize.on_arm.records import ArmOperation, DilatedPool, Joined, Softmax
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
