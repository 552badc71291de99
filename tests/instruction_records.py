"""Random instructions, and the accelerators they are for, which tests share."""

from __future__ import annotations

from dataclasses import replace

from accelerators import ALL_EXTENSIONS, FOUR_BY_EIGHT, RECTANGULAR
from hypothesis import strategies as st

from vta_stages.accelerator import Accelerator
from vta_stages.isa import instructions as isa
from vta_stages.isa.fields import instruction_fields


def accelerator(configuration: str, revision: str) -> Accelerator:
    shapes = {
        "1x16": Accelerator(),
        "4x8": FOUR_BY_EIGHT,
        "1x32": Accelerator(block_in=32, block_out=32),
    }
    return replace(shapes[configuration], revision=revision)


STOCK = [accelerator(c, r) for c in ("1x16", "4x8", "1x32") for r in ("0.0.1", "0.0.2")]
EXTENDED = [replace(accelerator("1x16", r), extensions=ALL_EXTENSIONS) for r in ("0.0.1", "0.0.2")]
ACCELERATORS = [*STOCK, *EXTENDED, RECTANGULAR]


def name_of(target: Accelerator) -> str:
    """Return what a test's case is called."""
    extended = "-extended" if target.extensions else ""
    return f"{target.configuration}-{target.revision}{extended}"


def record_strategy(target: Accelerator, opcode: isa.Opcode) -> st.SearchStrategy[isa.Instruction]:
    """Draw an instruction of an opcode with all fields within their bounds."""
    values: dict[str, st.SearchStrategy[object]] = {flag: st.booleans() for flag in isa.TOKEN_FLAGS}
    for field in instruction_fields(target)[opcode]:
        if field.in_record:
            values[field.name] = st.integers(field.minimum, field.maximum)
    for name, kind in isa.FIELD_TYPES.items():
        if name in values and kind is bool:
            values[name] = st.booleans()
    if opcode is isa.Opcode.LOAD:
        values["memory_type"] = st.sampled_from(isa.loaded_memories(target))
    if opcode is isa.Opcode.ALU:
        values["alu_opcode"] = st.sampled_from(isa.alu_operations(target))
    return st.builds(isa.RECORDS[opcode], **values)
