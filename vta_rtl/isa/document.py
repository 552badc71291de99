"""The encodings as a page: ``python -m vta_rtl.isa.document`` writes it from the codec's table."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path

from vta_stages.accelerator import REVISIONS, Accelerator, Extension
from vta_stages.isa.fields import Field, instruction_fields, uop_fields
from vta_stages.isa.instructions import (
    EXTENSIONS,
    MEMORY_EXTENSIONS,
    REQUANTISE_CONSTANT_BITS,
    TABLE_ENTRIES,
    TOKEN_FLAGS,
    TOKEN_SHIFT,
    AluOp,
    MemoryType,
    Opcode,
    alu_operations,
    loaded_memories,
)

PAGE = Path(__file__).parents[1] / "encodings.md"
_WORD_BITS = 64
_EXTENSIONS = tuple(extension.value for extension in Extension)

MEANINGS = {
    "memory_type": "the buffer that is loaded or stored, see below",
    "memory_type_high": "bit 2 of `memory_type`",
    "sram_base": "first element in the buffer",
    "dram_base": "first element in memory, counted in elements of the memory type from address 0",
    "pad_value": "a quarter of what all lanes of pads hold, which are zeros without this field",
    "y_size": "rows",
    "x_size": "elements in a row",
    "x_stride": "elements in memory from one row to the next",
    "y_pad_0": "rows of pads, which are zeros, before the first one",
    "y_pad_1": "rows of pads after the last one",
    "x_pad_0": "pads before each row",
    "x_pad_1": "pads after each row",
    "reset": "GEMM sets accumulators to zero instead of adding products; the ALU ignores it, but "
    "for the extension `clear`",
    "uop_bgn": "first uop",
    "uop_end": "the uop after the last one",
    "iter_out": "turns of the outer loop",
    "iter_in": "turns of the inner loop",
    "dst_factor_out": "added to `dst` of a uop for each turn of the outer loop",
    "dst_factor_in": "added to `dst` for each turn of the inner loop",
    "src_factor_out": "added to `src` for each turn of the outer loop",
    "src_factor_in": "added to `src` for each turn of the inner loop",
    "wgt_factor_out": "added to `wgt` for each turn of the outer loop",
    "wgt_factor_in": "added to `wgt` for each turn of the inner loop",
    "alu_opcode": "the operation, see below",
    "alu_opcode_high": "bit 2 of `alu_opcode`",
    "use_imm": "the second operand is `imm`, not the accumulators at `src`",
    "imm": "the immediate operand of all lanes",
    "dst": "accumulators that a step changes",
    "src": "inputs of GEMM, or accumulators that the ALU reads",
    "wgt": "weights of GEMM; the ALU ignores it",
}
"""What each field holds, by its name."""

OPERATIONS = {
    AluOp.REQUANTISE: (
        "adds a constant to the accumulator, shifts right by a distance, and clips to two int8 "
        "bounds, the lower one first. A lane of `src` has the distance in bits 4:0 and the "
        f"constant, signed, in the {REQUANTISE_CONSTANT_BITS} bits above; `imm` has the lower "
        "bound in bits 7:0 and the upper one in bits 15:8. With `use_imm` the constant is 0, the "
        "distance is in bits 4:0 of `imm`, and these bits of the lower bound are 0. The sum wraps"
    ),
    AluOp.MULTIPLY: "multiplies the low 16 bits of both operands, signed",
    AluOp.TABLE: (
        "a REQUANTISE of which the out buffer gets the table's entry for each result. The "
        "accumulators get the result itself"
    ),
    AluOp.LEAKY: (
        "makes `max(v, t >> second)` of an accumulator `v`: `t` is `(v + offset) >> first`, and is "
        "added to `v` if bit 3 of `imm` is set. `first` is in bits 2:0 of `imm`, `second` in bits "
        "6:4, and a lane of `src` is the offset, or 0 with `use_imm`. The sums wrap"
    ),
}
"""What the operations of extensions do."""

MEMORIES = {
    MemoryType.TABLE: (
        f"a table of {TABLE_ENTRIES} int8 values. An element has four of them; the first is that "
        "of 0, the last that of -1. `dram_base` counts from the base of uops. A LOAD is a single "
        "row and has no pads"
    ),
    MemoryType.ACC8: (
        "the buffer of ACC, of which each lane has one byte in memory, an int8. `dram_base` counts "
        "from the base of ACC. Its pads count in both revisions"
    ),
}
"""What the memory types of extensions are."""

_HEAD = f"""# Instructions and uops

Written by `python -m vta_rtl.isa.document` from `vta_stages/isa/fields.py`, the table from which
codec and hardware take all positions.

An instruction has 128 bits. Bit 0 is the lowest bit of its first byte; bits that no row lists are
zero. Widths follow the depths of the buffers: the columns are those of the stock accelerator,
{Accelerator().configuration}, in its two revisions. Sizes and counts are unsigned unless a row
says otherwise.

"""


def _bits(low: int, count: int) -> str:
    return f"{low}" if count == 1 else f"{low + count - 1}:{low}"


def _position(field: Field) -> str:
    bits = _bits(_WORD_BITS * field.word + field.low_bit, field.bits)
    return bits if field.constant is None else f"{bits}, always {field.constant}"


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(columns)
    lines = [names, ["---"] * len(names), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def _fields(versions: list[tuple[Field, ...]]) -> str:
    rows = []
    for same in zip(*versions, strict=True):
        name, signed = same[0].name, ", signed" if same[0].signed else ""
        rows.append([f"`{name}`", *(_position(field) for field in same), MEANINGS[name] + signed])
    return _table(["field", *REVISIONS, "meaning"], rows)


def _values(names: Iterable[IntEnum]) -> str:
    return ", ".join(f"{value.value} {value.name}" for value in names)


def _extensions() -> str:
    """Return what an accelerator has with all extensions, and only then."""
    versions: list[dict[tuple[Opcode, str, str], str]] = []
    for revision in REVISIONS:
        target = Accelerator(revision=revision, extensions=_EXTENSIONS)
        stock = instruction_fields(Accelerator(revision=revision))
        known = {opcode: {f.name for f in fields} for opcode, fields in stock.items()}
        versions.append(
            {
                (opcode, f.name, f.part_of): _position(f) + (", signed" if f.signed else "")
                for opcode, fields in instruction_fields(target).items()
                for f in fields
                if f.part_of or f.name not in known[opcode]
            }
        )
    fields = [
        [
            opcode.name,
            f"`{name}`",
            *(parts.get((opcode, name, whole), f"in `{whole}`") for parts in versions),
            MEANINGS[name],
        ]
        for opcode, name, whole in sorted(set().union(*versions))
    ]
    memories = [
        [f"{memory.value} {memory.name}", f"`{MEMORY_EXTENSIONS[memory]}`", text]
        for memory, text in MEMORIES.items()
    ]
    operations = [
        [f"{operation.value} {operation.name}", f"`{EXTENSIONS[operation]}`", text]
        for operation, text in OPERATIONS.items()
    ]
    return (
        "## Extensions\n\nAn accelerator with extensions says so in its register `capabilities`.\n"
        "Most add an operation of the ALU, and some a memory type. In revision 0.0.1 their third\n"
        "bit has a field of its own, if there is an extension that needs it. `pad_value` is there\n"
        "with the extension of its name:\n\n"
        + _table(["opcode", "field", *REVISIONS, "meaning"], fields)
        + _table(["operation", "extension", "meaning"], operations)
        + _table(["memory type", "extension", "meaning"], memories)
    ).removesuffix("\n")


def page() -> str:
    """Return the page, Markdown."""
    targets = [Accelerator(revision=revision) for revision in REVISIONS]
    head = [["`opcode`", _bits(0, TOKEN_SHIFT), _values(Opcode)]]
    for flag, token in TOKEN_FLAGS.items():
        verb, side = flag.split("_")
        queue = f"the queue of the {'previous' if side == 'prev' else 'next'} module"
        action = "waits for a token from" if verb == "pop" else "gives a token to"
        bits = _bits(TOKEN_SHIFT + token.bit_length() - 1, 1)
        head.append([f"`{flag}`", bits, f"{action} {queue}"])
    parts = [_HEAD, "## Every instruction\n\n", _table(["field", "bits", "meaning"], head)]
    for opcode in Opcode:
        versions = [instruction_fields(target)[opcode] for target in targets]
        if versions[0]:
            parts += [f"## {opcode.name}\n\n", _fields(versions)]
    parts += ["## A uop, 32 bits\n\n", _fields([uop_fields(target) for target in targets])]
    memories = [*loaded_memories(Accelerator()), MemoryType.OUT]
    parts.append(
        f"## Values\n\nMemory types: {_values(memories)}. A STORE is always from OUT,\n"
        "whose value is cut to the width of the field.\n\n"
        f"Operations of the ALU: {_values(alu_operations(Accelerator()))}.\n\n"
    )
    parts.append(_extensions())
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
