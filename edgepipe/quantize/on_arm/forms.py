"""How operators that only ARM cores compute look in Relax. TVM lowers them as they are."""

from __future__ import annotations

from edgepipe.quantize.on_arm.records import ArmOperation, DilatedPool, Joined
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
