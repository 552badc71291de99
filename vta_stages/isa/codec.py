"""Instructions and uops to bits and back.

Three views of the same instructions: records (:mod:`vta_stages.isa.instructions`, one object each,
for tests and messages), :class:`InstructionTable` (columns of numpy integers, for analyses over
whole programs) and words ``uint64[n, 2]`` (what the hardware fetches). :class:`InstructionBuffer`
is how a compiler emits many instructions without making a record for each.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from vta_stages.accelerator import Accelerator
from vta_stages.errors import EncodingError
from vta_stages.isa.instructions import (
    FIELD_TYPES,
    HEAD_BITS,
    RECORDS,
    TOKEN_FLAGS,
    TOKEN_SHIFT,
    AluOp,
    Field,
    Instruction,
    MemoryType,
    Module,
    Opcode,
    Uop,
    instruction_fields,
    uop_fields,
)

Words = NDArray[np.uint64]
Column = NDArray[np.int64]

NO_REGION = 255
"""The relocation of an instruction that names no DRAM region."""

_OPCODES = {record: opcode for opcode, record in RECORDS.items()}
_KNOWN_MEMORY = {int(memory) for memory in MemoryType if memory is not MemoryType.OUT}
_KNOWN_ALU = {int(operation) for operation in AluOp}


def _record_fields(accelerator: Accelerator, opcode: Opcode) -> tuple[Field, ...]:
    return tuple(f for f in instruction_fields(accelerator)[opcode] if f.constant is None)


@dataclass(frozen=True)
class InstructionTable:
    """Decoded instructions as columns. Row ``i`` of an opcode's columns is ``positions[i]``.

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
        """uint8[n]: the Module whose queue each instruction enters."""
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
    """Encode decoded columns; the inverse of :func:`decode_table`.

    Raises EncodingError naming the instruction, field, value and bound when a value does not fit.
    """
    words = np.zeros((len(table), 2), np.uint64)
    words[:, 0] = table.opcode | (table.tokens.astype(np.uint64) << np.uint64(TOKEN_SHIFT))
    for opcode, fields in instruction_fields(table.accelerator).items():
        positions = table.positions[opcode]
        if not len(positions):
            continue
        encoded = words[positions]
        for field in fields:
            if field.constant is not None:
                values = np.full(len(positions), field.constant, np.int64)
            else:
                values = np.ascontiguousarray(table.columns[opcode][field.name])
                _check_range(field, values, positions, opcode.name)
            encoded[:, field.word] |= _insert(field, values)
        words[positions] = encoded
    return words


def decode_table(accelerator: Accelerator, words: Words) -> InstructionTable:
    """Decode instruction words ``uint64[n, 2]`` into columns.

    Raises EncodingError, naming the instruction, for unknown opcodes, memory types and ALU
    operations, for a store that names another memory than OUT, and for set bits outside any field.
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
        for field in fields:
            values = _extract(field, encoded[:, field.word])
            defined[field.word] |= _mask(field)
            if field.constant is None:
                columns[kind][field.name] = values
            else:
                _check_known(kind, field.name, values, {field.constant}, where)
        stray = np.flatnonzero(((encoded & ~np.array(defined, np.uint64)) != 0).any(axis=1))
        if len(stray):
            high, low = (int(w) for w in encoded[stray[0]][::-1])
            raise EncodingError(
                f"instruction {int(where[stray[0]])} ({kind.name}): bits outside every field are "
                f"set in 0x{high:016x}_{low:016x}, expected 0",
                hint=f"the target reads encoding revision {accelerator.revision}; "
                "was the program made for another revision or configuration?",
            )
    load, alu = Opcode.LOAD, Opcode.ALU
    _check_known(load, "memory_type", columns[load]["memory_type"], _KNOWN_MEMORY, positions[load])
    _check_known(alu, "alu_opcode", columns[alu]["alu_opcode"], _KNOWN_ALU, positions[alu])
    return InstructionTable(accelerator, opcode, tokens, positions, columns)


def _check_known(
    opcode: Opcode, name: str, values: Column, known: set[int], positions: Column
) -> None:
    bad = np.flatnonzero(~np.isin(values, list(known)))
    if len(bad):
        raise EncodingError(
            f"instruction {int(positions[bad[0]])} ({opcode.name}): {name} is "
            f"{int(values[bad[0]])}, expected one of {sorted(known)}"
        )


def encode(accelerator: Accelerator, instructions: Iterable[Instruction]) -> Words:
    """Encode records into ``uint64[n, 2]``. Raises EncodingError when a value does not fit."""
    buffer = InstructionBuffer(accelerator)
    for instruction in instructions:
        buffer.append(instruction)
    return buffer.encode()


def decode(accelerator: Accelerator, words: Words) -> list[Instruction]:
    """Decode ``uint64[n, 2]`` into records. Raises EncodingError like :func:`decode_table`."""
    table = decode_table(accelerator, words)
    return [table.record(index) for index in range(len(table))]


def encode_uops(
    accelerator: Accelerator, uops: NDArray[np.integer] | Sequence[Uop]
) -> NDArray[np.uint32]:
    """Encode uops, given as records or as integers ``[n, 3]`` of (dst, src, wgt), to uint32[n].

    Raises EncodingError naming the uop, field, value and bound when an index does not fit.
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
    """Decode uint32[n] into int64[n, 3], columns dst, src, wgt. Bits above the fields are ignored,
    as the hardware does."""
    words = np.asarray(encoded, np.uint32).astype(np.int64)
    return np.stack(
        [(words >> f.low_bit) & f.maximum for f in uop_fields(accelerator)], axis=-1
    ).reshape(-1, 3)


class InstructionBuffer:
    """Append-only program text. Every method returns the index of the instruction it appended.

    Values are checked when :meth:`encode` runs, not per call. ``region`` is the DRAM region that a
    transfer's ``dram_base`` is relative to; :attr:`relocations` collects them.
    Not thread-safe; one owner fills it and encodes it.

        buffer = InstructionBuffer(accelerator)
        last = buffer.load(MemoryType.INP, sram_base=0, dram_base=0, x_size=16)
        buffer.add_tokens(last, Token.PUSH_NEXT)
        words = buffer.encode()
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self._opcodes = bytearray()
        self._tokens = bytearray()
        self._regions = bytearray()
        self._values = {opcode: array("q") for opcode in Opcode}
        self._compute_loads: set[int] = set()
        self._names = {o: tuple(f.name for f in _record_fields(accelerator, o)) for o in Opcode}

    def __len__(self) -> int:
        return len(self._opcodes)

    @property
    def relocations(self) -> NDArray[np.uint8]:
        """uint8[n]: the region index of each instruction, :data:`NO_REGION` where there is none."""
        return np.frombuffer(bytes(self._regions), np.uint8)

    def _append(self, opcode: Opcode, values: tuple[int, ...], tokens: int, region: int) -> int:
        self._values[opcode].extend(values)
        self._opcodes.append(opcode)
        self._tokens.append(tokens)
        self._regions.append(region)
        return len(self._opcodes) - 1

    def append(self, instruction: Instruction, *, region: int = NO_REGION) -> int:
        """Append a record."""
        opcode = _OPCODES[type(instruction)]
        values = tuple(int(getattr(instruction, name)) for name in self._names[opcode])
        return self._append(opcode, values, instruction.tokens, region)

    def load(
        self,
        memory_type: MemoryType,
        *,
        sram_base: int,
        dram_base: int,
        x_size: int,
        y_size: int = 1,
        x_stride: int = 0,
        y_pad_0: int = 0,
        y_pad_1: int = 0,
        x_pad_0: int = 0,
        x_pad_1: int = 0,
        tokens: int = 0,
        region: int = NO_REGION,
    ) -> int:
        """Append a :class:`~vta_stages.isa.instructions.Load`; ``tokens`` are bits of isa.Token."""
        pads = (y_pad_0, y_pad_1, x_pad_0, x_pad_1)
        values = (memory_type, sram_base, dram_base, y_size, x_size, x_stride, *pads)
        if memory_type in (MemoryType.UOP, MemoryType.ACC):
            self._compute_loads.add(len(self))
        return self._append(Opcode.LOAD, values, tokens, region)

    def store(
        self,
        *,
        sram_base: int,
        dram_base: int,
        x_size: int,
        y_size: int = 1,
        x_stride: int = 0,
        tokens: int = 0,
        region: int = NO_REGION,
    ) -> int:
        """Append a :class:`~vta_stages.isa.instructions.Store`."""
        values = (sram_base, dram_base, y_size, x_size, x_stride)
        return self._append(Opcode.STORE, values, tokens, region)

    def gemm(
        self,
        uop_bgn: int,
        uop_end: int,
        *,
        reset: bool = False,
        iter_out: int = 1,
        iter_in: int = 1,
        dst_factors: tuple[int, int] = (0, 0),
        src_factors: tuple[int, int] = (0, 0),
        wgt_factors: tuple[int, int] = (0, 0),
        tokens: int = 0,
    ) -> int:
        """Append a Gemm; factors are (outer loop, inner loop)."""
        loops = (reset, uop_bgn, uop_end, iter_out, iter_in)
        values = (*loops, *dst_factors, *src_factors, *wgt_factors)
        return self._append(Opcode.GEMM, values, tokens, NO_REGION)

    def alu(
        self,
        alu_opcode: AluOp,
        uop_bgn: int,
        uop_end: int,
        *,
        imm: int | None = None,
        iter_out: int = 1,
        iter_in: int = 1,
        dst_factors: tuple[int, int] = (0, 0),
        src_factors: tuple[int, int] = (0, 0),
        tokens: int = 0,
    ) -> int:
        """Append an Alu; without ``imm`` the operand is ``acc[src]``."""
        loops = (0, uop_bgn, uop_end, iter_out, iter_in)
        operand = (alu_opcode, imm is not None, imm or 0)
        values = (*loops, *dst_factors, *src_factors, *operand)
        return self._append(Opcode.ALU, values, tokens, NO_REGION)

    def finish(self, *, tokens: int = 0) -> int:
        """Append the :class:`~vta_stages.isa.instructions.Finish` that ends a program."""
        return self._append(Opcode.FINISH, (), tokens, NO_REGION)

    def add_tokens(self, index: int, tokens: int) -> None:
        """Add token flags (bits of isa.Token) to instruction ``index``; -1 is the last one."""
        self._tokens[index] |= tokens

    def tokens(self, index: int) -> int:
        """Return the token flags of instruction ``index`` as bits of isa.Token."""
        return self._tokens[index]

    def is_load_of_compute(self, index: int) -> bool:
        """Tell whether instruction ``index`` loads what compute alone has: uops, accumulators."""
        return index in self._compute_loads

    def table(self) -> InstructionTable:
        """Return the instructions so far as columns (copies)."""
        opcode = np.frombuffer(bytes(self._opcodes), np.uint8)
        columns: dict[Opcode, dict[str, Column]] = {}
        for kind, names in self._names.items():
            flat = np.frombuffer(self._values[kind].tobytes(), np.int64)
            matrix = flat.reshape(-1, len(names)).T if names else np.zeros((0, 0), np.int64)
            columns[kind] = dict(zip(names, matrix, strict=True))
        return InstructionTable(
            self.accelerator,
            opcode,
            np.frombuffer(bytes(self._tokens), np.uint8),
            {kind: np.flatnonzero(opcode == kind).astype(np.int64) for kind in Opcode},
            columns,
        )

    def encode(self) -> Words:
        """Return ``uint64[n, 2]``. Raises EncodingError when a value does not fit its field."""
        return encode_table(self.table())
