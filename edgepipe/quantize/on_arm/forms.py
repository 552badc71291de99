"""How operators that only ARM cores compute look in Relax. TVM lowers them as they are."""

from __future__ import annotations

from edgepipe.quantize.on_arm.records import ArmOperation
from edgepipe.tvm_adapter import ModuleBuilder


def write(builder: ModuleBuilder, operation: ArmOperation) -> str:
    """Append one operator; its inputs must be bound already. Return its name."""
    return builder.emit(operation.name, "concat", list(operation.parts), axis=1)
