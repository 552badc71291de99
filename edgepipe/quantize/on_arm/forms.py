"""How operators that only ARM cores compute look in Relax. TVM lowers them as they are."""

from __future__ import annotations

from edgepipe.quantize.normal_forms import write_epilogue, write_table, write_terms
from edgepipe.quantize.on_arm.records import ArmOperation, Joined, PixelAffine, Quotient
from edgepipe.tvm_adapter import ModuleBuilder


def write(builder: ModuleBuilder, operation: ArmOperation) -> str:
    """Append one operator; its inputs must be bound already. Return its name."""
    match operation:
        case Quotient():
            return _write_quotient(builder, operation)
        case PixelAffine():
            return _write_affine(builder, operation)
        case Joined():
            return builder.emit(operation.name, "concat", list(operation.parts), axis=1)


def _write_quotient(builder: ModuleBuilder, quotient: Quotient) -> str:
    name = quotient.name
    first = builder.emit(f"{name}__first", "astype", quotient.first.name, dtype="int32")
    inverse = write_table(builder, f"{name}__inverse", quotient.second.name, quotient.table)
    acc = builder.emit(f"{name}__acc", "multiply", first, inverse)
    acc = write_terms(builder, name, acc, quotient.terms)
    return write_epilogue(builder, name, acc, quotient.epilogue)


def _write_affine(builder: ModuleBuilder, affine: PixelAffine) -> str:
    name = affine.name
    acc = builder.emit(f"{name}__wide", "astype", affine.input.name, dtype="int32")
    acc = builder.emit(f"{name}__scaled", "multiply", acc, affine.factor)
    acc = builder.emit(f"{name}__acc", "add", acc, affine.bias)
    return write_epilogue(builder, name, acc, affine.epilogue)
