"""Encode and decode instructions and uops.

There are three views of the same instructions: records (:mod:`vta_stages.isa.instructions`, one
object each, for tests and messages), an :class:`InstructionTable` (columns of numpy integers, for
analyses of whole programs), and words uint64[n, 2] (what the hardware fetches).
:mod:`vta_stages.isa.instruction_buffer` creates words without a record for each instruction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vta_stages.accelerator import Accelerator
from vta_stages.errors import EncodingError
from vta_stages.isa.fields import HEAD_BITS, Field, instruction_fields, uop_fields
from vta_stages.isa.instructions import (
    EXTENSIONS,
    FIELD_TYPES,
    MEMORY_EXTENSIONS,
    RECORDS,
    TOKEN_FLAGS,
    TOKEN_SHIFT,
    Instruction,
    MemoryType,
    Module,
    Opcode,
    Uop,
    alu_operations,
    loaded_memories,
)

Words = NDArray[np.uint64]
Column = NDArray[np.int64]

NO_REGION = 255
"""The relocation of an instruction that does not access DRAM."""


@dataclass(frozen=True)
class InstructionTable:
    """Decoded instructions as columns: row ``i`` of an opcode is instruction ``positions[i]``.

    ``opcode`` and ``tokens`` (bits of :class:`~vta_stages.isa.instructions.Token`) are uint8[n];
    ``positions[opcode]`` is int64[m], ascending; ``columns[opcode][field]`` is int64[m].
    """

    accelerator: Accelerator
    opcode: NDArray[np.uint8]
    tokens: NDArray[np.uint8]
    positions: Mapping[Opcode, Column]
    columns: Mapping[Opcode, Mapping[str, Column]]

    def __len__(self) -> int:
        return len(self.opcode)

    @cached_property
    def rows(self) -> Column:
        """int64[n]: each instruction's row in the columns of its opcode."""
        rows = np.zeros(len(self), np.int64)
        for positions in self.positions.values():
            rows[positions] = np.arange(len(positions))
        return rows

    @cached_property
    def modules(self) -> NDArray[np.uint8]:
        """uint8[n]: the module that runs each instruction."""
        modules = np.full(len(self), Module.COMPUTE, np.uint8)
        modules[self.positions[Opcode.STORE]] = Module.STORE
        memory = self.columns[Opcode.LOAD]["memory_type"]
        by_load_module = (memory == MemoryType.INP) | (memory == MemoryType.WGT)
        modules[self.positions[Opcode.LOAD][by_load_module]] = Module.LOAD
        return modules

    def record(self, index: int) -> Instruction:
        """Return instruction ``index`` as a record."""
        opcode = Opcode(int(self.opcode[index]))
        row = self.rows[index]
        values: dict[str, object] = {
            name: FIELD_TYPES.get(name, int)(int(column[row]))
            for name, column in self.columns[opcode].items()
        }
        tokens = int(self.tokens[index])
        values.update({name: bool(tokens & bit) for name, bit in TOKEN_FLAGS.items()})
        return RECORDS[opcode](**values)  # type: ignore[arg-type]


def _check_range(field: Field, values: Column, positions: Column, opcode: str) -> None:
    bad = np.flatnonzero((values < field.minimum) | (values > field.maximum))
    if len(bad):
        value = int(values[bad[0]])
        bound = f"at least {field.minimum}" if value < field.minimum else f"at most {field.maximum}"
        raise EncodingError(
            f"instruction {int(positions[bad[0]])} ({opcode}): {field.name} is {value}, "
            f"expected {bound} ({field.bits} bits)"
        )


def _mask(field: Field) -> np.uint64:
    return np.uint64(((1 << field.bits) - 1) << field.low_bit)


def _insert(field: Field, values: Column) -> Words:
    return (values.view(np.uint64) << np.uint64(field.low_bit)) & _mask(field)


def _extract(field: Field, words: Words) -> Column:
    raw = ((words & _mask(field)) >> np.uint64(field.low_bit)).view(np.int64)
    if field.signed:
        raw = raw - ((raw >> (field.bits - 1)) << field.bits)
    return raw


def encode_table(table: InstructionTable) -> Words:
    """Encode columns into words uint64[n, 2]; the inverse of :func:`decode_table`.

    Raises EncodingError, with the instruction, field, value and bound, if a value does not fit.
    """
    words = np.zeros((len(table), 2), np.uint64)
    words[:, 0] = table.opcode | (table.tokens.astype(np.uint64) << np.uint64(TOKEN_SHIFT))
    for opcode, fields in instruction_fields(table.accelerator).items():
        positions = table.positions[opcode]
        if not len(positions):
            continue
        encoded = words[positions]
        _check_extensions(table.accelerator, opcode, table.columns[opcode], positions)
        parts = {field.part_of: field.bits for field in fields if field.part_of}
        for field in fields:
            if field.constant is not None:
                values = np.full(len(positions), field.constant, np.int64)
            elif field.part_of:
                values = table.columns[opcode][field.part_of] >> field.part_low_bit
            else:
                values = np.ascontiguousarray(table.columns[opcode][field.name])
                whole = replace(field, bits=field.bits + parts.get(field.name, 0))
                _check_range(whole, values, positions, opcode.name)
            encoded[:, field.word] |= _insert(field, values)
        words[positions] = encoded
    return words


def decode_table(accelerator: Accelerator, words: Words) -> InstructionTable:
    """Decode words uint64[n, 2] into columns.

    Raises EncodingError, with the instruction, for unknown opcodes, memory types and ALU
    operations, for a store from a memory other than OUT, and for bits set outside all fields.
    """
    words = np.ascontiguousarray(words, np.uint64)
    if words.ndim != 2 or words.shape[1] != 2:
        raise EncodingError(f"instructions: shape is {list(words.shape)}, expected [n, 2]")
    opcode = (words[:, 0] & np.uint64(7)).astype(np.uint8)
    tokens = ((words[:, 0] >> np.uint64(TOKEN_SHIFT)) & np.uint64(15)).astype(np.uint8)
    unknown = np.flatnonzero(opcode > max(Opcode))
    if len(unknown):
        known = ", ".join(f"{o.name} {o.value}" for o in Opcode)
        raise EncodingError(
            f"instruction {unknown[0]}: opcode is {opcode[unknown[0]]}, expected one of {known}"
        )
    positions = {o: np.flatnonzero(opcode == o).astype(np.int64) for o in Opcode}
    columns: dict[Opcode, dict[str, Column]] = {}
    for kind, fields in instruction_fields(accelerator).items():
        where = positions[kind]
        encoded = words[where]
        defined = [np.uint64((1 << HEAD_BITS) - 1), np.uint64(0)]
        columns[kind] = {}
        parts: dict[str, Column] = {}
        for field in fields:
            values = _extract(field, encoded[:, field.word])
            defined[field.word] |= _mask(field)
            if field.part_of:
                parts[field.part_of] = values << field.part_low_bit
            elif field.constant is None:
                columns[kind][field.name] = values
            else:
                _check_known(kind, field.name, values, {field.constant}, where)
        for name, high_part in parts.items():
            columns[kind][name] = columns[kind][name] | high_part
        stray = np.flatnonzero(((encoded & ~np.array(defined, np.uint64)) != 0).any(axis=1))
        if len(stray):
            high, low = (int(w) for w in encoded[stray[0]][::-1])
            raise EncodingError(
                f"instruction {int(where[stray[0]])} ({kind.name}): bits outside all fields are "
                f"set in 0x{high:016x}_{low:016x}, expected 0",
                hint="check that the program was compiled for encoding revision "
                f"{accelerator.revision} and configuration {accelerator.configuration}",
            )
    memories = {int(memory) for memory in loaded_memories(accelerator)}
    operations = {int(operation) for operation in alu_operations(accelerator)}
    for checked, name, possible in (
        (Opcode.LOAD, "memory_type", memories),
        (Opcode.ALU, "alu_opcode", operations),
    ):
        _check_extensions(accelerator, checked, columns[checked], positions[checked])
        _check_known(checked, name, columns[checked][name], possible, positions[checked])
    return InstructionTable(accelerator, opcode, tokens, positions, columns)


_NEEDED = (
    *((Opcode.LOAD, "memory_type", code, e) for code, e in MEMORY_EXTENSIONS.items()),
    *((Opcode.ALU, "alu_opcode", code, e) for code, e in EXTENSIONS.items()),
)
"""Opcode, field and value of everything that needs an extension, and which one."""


def _check_extensions(
    accelerator: Accelerator, opcode: Opcode, columns: Mapping[str, Column], positions: Column
) -> None:
    for kind, name, code, extension in _NEEDED:
        if kind is not opcode or accelerator.has(extension):
            continue
        lacking = np.flatnonzero(columns[name] == code)
        if lacking.size:
            has = ", ".join(accelerator.extensions) or "none"
            raise EncodingError(
                f"instruction {int(positions[lacking[0]])} ({opcode.name}): {code.name} needs the "
                f"extension {extension.value}, the accelerator's extensions are: {has}",
                hint="compile the program for this accelerator",
            )


def _check_known(
    opcode: Opcode, name: str, values: Column, known: set[int], positions: Column
) -> None:
    bad = np.flatnonzero(~np.isin(values, list(known)))
    if len(bad):
        raise EncodingError(
            f"instruction {int(positions[bad[0]])} ({opcode.name}): {name} is "
            f"{int(values[bad[0]])}, expected one of {sorted(known)}"
        )


def decode(accelerator: Accelerator, words: Words) -> list[Instruction]:
    """Decode words uint64[n, 2] into records. Raises EncodingError like :func:`decode_table`."""
    table = decode_table(accelerator, words)
    return [table.record(index) for index in range(len(table))]


def encode_uops(
    accelerator: Accelerator, uops: NDArray[np.integer] | Sequence[Uop]
) -> NDArray[np.uint32]:
    """Encode uops, records or integers [n, 3] with columns dst, src, wgt, to uint32[n].

    Raises EncodingError, with the uop, field, value and bound, if an index does not fit.
    """
    if not isinstance(uops, np.ndarray):
        uops = np.array([(u.dst, u.src, u.wgt) for u in uops], np.int64).reshape(-1, 3)
    encoded = np.zeros(len(uops), np.uint32)
    for field, values in zip(uop_fields(accelerator), np.asarray(uops, np.int64).T, strict=True):
        bad = np.flatnonzero((values < 0) | (values > field.maximum))
        if len(bad):
            raise EncodingError(
                f"uop {bad[0]}: {field.name} is {values[bad[0]]}, expected 0 to {field.maximum} "
                f"({field.bits} bits)"
            )
        encoded |= values.astype(np.uint32) << np.uint32(field.low_bit)
    return encoded


def decode_uops(accelerator: Accelerator, encoded: NDArray[np.uint32]) -> Column:
    """Decode uint32[n] into int64[n, 3] with columns dst, src, wgt.

    Ignores the bits above the fields, as the hardware does.
    """
    words = np.asarray(encoded, np.uint32).astype(np.int64)
    return np.stack(
        [(words >> f.low_bit) & f.maximum for f in uop_fields(accelerator)], axis=-1
    ).reshape(-1, 3)
