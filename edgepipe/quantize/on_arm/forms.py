"""How operators that only ARM cores compute look in Relax. TVM lowers them as they are."""

from __future__ import annotations

from edgepipe.quantize.normal_forms import write_epilogue, write_table, write_terms
from edgepipe.quantize.on_arm.records import ArmOperation
from edgepipe.tvm_adapter import ModuleBuilder


def write(builder: ModuleBuilder, operation: ArmOperation) -> str:
    """Append one operator; its inputs must be bound already. Return its name."""
    name = operation.name
    first = builder.emit(f"{name}__first", "astype", operation.first.name, dtype="int32")
    inverse = write_table(builder, f"{name}__inverse", operation.second.name, operation.table)
    acc = builder.emit(f"{name}__acc", "multiply", first, inverse)
    acc = write_terms(builder, name, acc, operation.terms)
    return write_epilogue(builder, name, acc, operation.epilogue)
