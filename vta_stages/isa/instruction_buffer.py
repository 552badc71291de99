"""Collect the instructions of a program one by one, then encode them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from vta_stages.accelerator import Accelerator, Extension
from vta_stages.errors import EncodingError
from vta_stages.isa.codec import NO_REGION, Column, InstructionTable, Words, encode_table
from vta_stages.isa.fields import instruction_fields
from vta_stages.isa.instructions import RECORDS, AluOp, Instruction, Load, MemoryType, Opcode

_OPCODES = {record: opcode for opcode, record in RECORDS.items()}


class InstructionBuffer:
    """The instructions of a program so far. Methods that append return the instruction's index.

    Values are checked by :meth:`encode`, not by each call. ``region`` is the DRAM region that the
    ``dram_base`` of a transfer is relative to; :attr:`relocations` collects the regions. Not
    thread-safe: one owner fills the buffer and encodes it.

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
        self._has_pad_value = accelerator.has(Extension.PAD_VALUE)
        self._names = {
            opcode: tuple(field.name for field in fields if field.in_record)
            for opcode, fields in instruction_fields(accelerator).items()
        }

    def __len__(self) -> int:
        return len(self._opcodes)

    @property
    def relocations(self) -> NDArray[np.uint8]:
        """uint8[n]: the region of each instruction, ``NO_REGION`` if it does not access DRAM."""
        return np.frombuffer(bytes(self._regions), np.uint8)

    def _append(self, opcode: Opcode, values: tuple[int, ...], tokens: int, region: int) -> int:
        self._values[opcode].extend(values)
        self._opcodes.append(opcode)
        self._tokens.append(tokens)
        self._regions.append(region)
        return len(self._opcodes) - 1

    def append(self, instruction: Instruction, *, region: int = NO_REGION) -> int:
        """Append an instruction given as a record.

        Raises EncodingError for a value of pads that the accelerator cannot have.
        """
        opcode = _OPCODES[type(instruction)]
        if isinstance(instruction, Load) and instruction.pad_value and not self._has_pad_value:
            has = ", ".join(self.accelerator.extensions) or "none"
            raise EncodingError(
                f"instruction {len(self)} (LOAD): pad_value is {instruction.pad_value}, which "
                f"needs the extension {Extension.PAD_VALUE.value}, the accelerator's extensions "
                f"are: {has}",
                hint="compile the program for this accelerator",
            )
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
        pad_value: int = 0,
        tokens: int = 0,
        region: int = NO_REGION,
    ) -> int:
        """Append a Load; ``tokens`` is a set of ``Token`` bits.

        Sizes are in tiles of the buffer.
        """
        pads = (y_pad_0, y_pad_1, x_pad_0, x_pad_1)
        value = (pad_value,) if self._has_pad_value else ()
        values = (memory_type, sram_base, dram_base, *value, y_size, x_size, x_stride, *pads)
        if memory_type not in (MemoryType.INP, MemoryType.WGT):
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
        """Append a Store; ``tokens`` is a set of ``Token`` bits.

        Sizes are in tiles of the buffer.
        """
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
        vector_imm: int = 0,
        reset: bool = False,
        iter_out: int = 1,
        iter_in: int = 1,
        dst_factors: tuple[int, int] = (0, 0),
        src_factors: tuple[int, int] = (0, 0),
        tokens: int = 0,
    ) -> int:
        """Append an Alu; without ``imm`` the operand is ``acc[src]``.

        ``vector_imm`` is the immediate that a REQUANTISE, TABLE or LEAKY has beside ``acc[src]``.
        """
        loops = (reset, uop_bgn, uop_end, iter_out, iter_in)
        operand = (alu_opcode, imm is not None, vector_imm if imm is None else imm)
        values = (*loops, *dst_factors, *src_factors, *operand)
        return self._append(Opcode.ALU, values, tokens, NO_REGION)

    def finish(self, *, tokens: int = 0) -> int:
        """Append the Finish that ends a program."""
        return self._append(Opcode.FINISH, (), tokens, NO_REGION)

    def add_tokens(self, index: int, tokens: int) -> None:
        """Add a set of ``Token`` bits to instruction ``index``; -1 is the last one."""
        self._tokens[index] |= tokens

    def tokens(self, index: int) -> int:
        """Return the tokens of instruction ``index`` as a set of ``Token`` bits."""
        return self._tokens[index]

    def is_load_of_compute(self, index: int) -> bool:
        """Return whether instruction ``index`` is a LOAD of what only compute uses."""
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
        """Return the words uint64[n, 2]. Raises EncodingError if a value does not fit its field."""
        return encode_table(self.table())


def encode(accelerator: Accelerator, instructions: Iterable[Instruction]) -> Words:
    """Encode records into words uint64[n, 2]. Raises EncodingError if a value does not fit."""
    buffer = InstructionBuffer(accelerator)
    for instruction in instructions:
        buffer.append(instruction)
    return buffer.encode()
