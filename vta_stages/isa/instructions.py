"""The instructions as records, and the enumerations that their fields hold.

:mod:`vta_stages.isa.fields` places the fields in the 128 bits of an instruction.

Source: the HLS sources and ``hw_spec.h`` of apache/tvm-vta.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from vta_stages.accelerator import Accelerator, Extension

INSTRUCTION_BYTES = 16


class Opcode(IntEnum):
    """What an instruction does. Decides, with the memory type of a LOAD, which module runs it."""

    LOAD = 0
    STORE = 1
    GEMM = 2
    FINISH = 3
    ALU = 4


class MemoryType(IntEnum):
    """The on-chip buffer of a LOAD or STORE. Addresses and extents count its elements.

    TABLE and ACC8 need an extension. An element of TABLE is four entries of the table, which has
    256. ACC8 is the buffer of ACC: its elements have a byte for each lane in DRAM.
    """

    UOP = 0
    WGT = 1
    INP = 2
    ACC = 3
    OUT = 4
    TABLE = 5
    ACC8 = 6


class AluOp(IntEnum):
    """Lane-wise operations on accumulator entries. Those of :data:`EXTENSIONS` need an extension.

    The hardware of upstream has no multiplication.
    """

    MIN = 0
    MAX = 1
    ADD = 2
    SHR = 3
    REQUANTISE = 4
    MULTIPLY = 5
    TABLE = 6
    LEAKY = 7


EXTENSIONS: Mapping[AluOp, Extension] = MappingProxyType(
    {
        AluOp.REQUANTISE: Extension.REQUANTISE,
        AluOp.MULTIPLY: Extension.MULTIPLY,
        AluOp.TABLE: Extension.TABLE,
        AluOp.LEAKY: Extension.LEAKY,
    }
)
"""The extension that an operation needs."""

MEMORY_EXTENSIONS: Mapping[MemoryType, Extension] = MappingProxyType(
    {MemoryType.TABLE: Extension.TABLE, MemoryType.ACC8: Extension.WIDEN}
)
"""The extension that a LOAD to a buffer needs."""

SINGLE_ROW = (MemoryType.UOP, MemoryType.TABLE)
"""The buffers of which a LOAD is a single row."""

REQUANTISING = frozenset([AluOp.REQUANTISE, AluOp.TABLE])
"""The operations that requantise the accumulator, with the same operands."""

PAD_UNIT = 4
"""What pads hold for a ``pad_value`` of 1."""

TABLE_ENTRIES = 256
"""Entries of the table, one for each int8 value."""


def alu_operations(accelerator: Accelerator) -> tuple[AluOp, ...]:
    """Return the operations that an accelerator has."""
    return tuple(o for o in AluOp if o not in EXTENSIONS or accelerator.has(EXTENSIONS[o]))


def loaded_memories(accelerator: Accelerator) -> tuple[MemoryType, ...]:
    """Return the buffers that a LOAD may fill."""
    return tuple(
        memory
        for memory in MemoryType
        if memory is not MemoryType.OUT
        and (memory not in MEMORY_EXTENSIONS or accelerator.has(MEMORY_EXTENSIONS[memory]))
    )


class Module(IntEnum):
    """The three concurrent modules. Tokens name their neighbours in this order, prev and next."""

    LOAD = 0
    COMPUTE = 1
    STORE = 2


class Token(IntEnum):
    """Bits of a set of tokens, in the order of the flags in an instruction (bits 3 to 6)."""

    POP_PREV = 1
    POP_NEXT = 2
    PUSH_PREV = 4
    PUSH_NEXT = 8


TOKEN_FLAGS: Mapping[str, Token] = MappingProxyType({token.name.lower(): token for token in Token})
TOKEN_SHIFT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """The token flags, which all instructions have. The order is load, compute, store."""

    pop_prev: bool = False
    pop_next: bool = False
    push_prev: bool = False
    push_next: bool = False

    @property
    def tokens(self) -> int:
        """The token flags as a set of :class:`Token` bits."""
        return sum(bit for name, bit in TOKEN_FLAGS.items() if getattr(self, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryInstruction(Instruction):
    """What LOAD and STORE have in common: ``y_size`` rows of ``x_size`` elements.

    In DRAM the rows are ``x_stride`` elements apart.
    """

    sram_base: int
    dram_base: int
    x_size: int
    y_size: int = 1
    x_stride: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load(MemoryInstruction):
    """Copy rows from DRAM into a buffer.

    On chip, a row is ``x_pad_0 + x_size + x_pad_1`` elements wide, with ``y_pad_0`` rows of zeros
    before and ``y_pad_1`` after the rows. Loads of WGT, UOP and TABLE ignore the pads, loads of
    UOP and TABLE read a single row, and revision 0.0.1 ignores the pads of ACC.

    Loads of ACC8 extend the sign of each lane. All lanes of pads hold ``4 * pad_value``, -128 to
    124, which needs the extension PAD_VALUE if it is not 0.
    """

    memory_type: MemoryType
    y_pad_0: int = 0
    y_pad_1: int = 0
    x_pad_0: int = 0
    x_pad_1: int = 0
    pad_value: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Store(MemoryInstruction):
    """Copy rows of the out buffer to DRAM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopedInstruction(Instruction):
    """The two loops of GEMM and ALU.

    For each ``o < iter_out``, ``i < iter_in`` and uop in ``[uop_bgn, uop_end)``, an index is that
    of the uop plus ``o * factor_out + i * factor_in``.
    """

    uop_bgn: int
    uop_end: int
    reset: bool = False
    iter_out: int = 1
    iter_in: int = 1
    dst_factor_out: int = 0
    dst_factor_in: int = 0
    src_factor_out: int = 0
    src_factor_in: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemm(LoopedInstruction):
    """``acc[dst] += inp[src] @ wgt[wgt].T`` for every uop in both loops, or ``acc[dst] = 0``."""

    wgt_factor_out: int = 0
    wgt_factor_in: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Alu(LoopedInstruction):
    """``acc[dst] = op(acc[dst], imm or acc[src])`` lane by lane, for every uop in both loops.

    SHR uses the low 5 bits of its operand as a signed number: the longest right shift is 15, and a
    negative operand shifts left.

    REQUANTISE adds a constant to ``acc[dst]``, shifts right by 0 to 31 bits and clips to bounds, as
    :func:`requantise_operand` and :func:`requantise_bounds` encode them. With ``use_imm`` it adds
    nothing, and the immediate has distance and bounds. MULTIPLY takes the low 16 bits of both
    operands as signed numbers; their product has 32 bits.

    TABLE does what REQUANTISE does, but the out buffer gets the table's entry for each result, not
    the result itself, which ``acc[dst]`` gets.

    With ``reset``, which needs the extension CLEAR, each step leaves zeros in ``acc[dst]``. The out
    buffer gets the result, as always.

    LEAKY is a leaky ReLU in shifts: with ``v = acc[dst]`` and an offset ``acc[src]``, or 0 with
    ``use_imm``, ``t = (v + offset) >> first``; ``v += t`` if the immediate says so; and the result
    is ``max(v, t >> second)``. :func:`leaky_immediate` encodes both shifts. Sums wrap.
    """

    alu_opcode: AluOp
    use_imm: bool = False
    imm: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(Instruction):
    """Set the done flag. The last instruction of every program."""


RECORDS: Mapping[Opcode, type[Instruction]] = MappingProxyType(
    {
        Opcode.LOAD: Load,
        Opcode.STORE: Store,
        Opcode.GEMM: Gemm,
        Opcode.ALU: Alu,
        Opcode.FINISH: Finish,
    }
)

# Fields that hold something other than a plain integer.
FIELD_TYPES: Mapping[str, Callable[[int], object]] = MappingProxyType(
    {"memory_type": MemoryType, "alu_opcode": AluOp, "reset": bool, "use_imm": bool}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uop:
    """One micro-operation: the element indices of a GEMM or ALU step, before the loops are added.

    In an ALU step, ``src`` is an index of the accumulator and ``wgt`` is ignored.
    """

    dst: int
    src: int = 0
    wgt: int = 0


def table_content(table: NDArray[np.int8]) -> bytes:
    """Return a table int8[256], from the entry of -128 to that of 127, as a LOAD reads it.

    The hardware counts the entries by the bits of the int8, so that of 0 comes first.
    """
    return np.roll(table, TABLE_ENTRIES // 2).astype(np.int8).tobytes()


LONGEST_REQUANTISE_SHIFT = 31
"""The longest shift of a REQUANTISE, in bits. A distance has the bits of this number."""

REQUANTISE_CONSTANT_BITS = 27
"""Bits of the signed constant of a REQUANTISE."""

_DISTANCE_BITS = 5
_TABLE_ELEMENT_BYTES = 4


def requantise_operand(
    constant: NDArray[np.integer], shift: NDArray[np.integer]
) -> NDArray[np.int32]:
    """Return the lanes of a REQUANTISE's ``acc[src]``, int32[...]: constants above distances.

    Constants have ``REQUANTISE_CONSTANT_BITS``, distances are 0 to ``LONGEST_REQUANTISE_SHIFT``.
    """
    return (np.asarray(constant, np.int32) << _DISTANCE_BITS) | np.asarray(shift, np.int32)


def requantise_bounds(low: int, high: int) -> int:
    """Return the immediate of a REQUANTISE by ``acc[src]``: both bounds are int8.

    Where ``low`` is above ``high``, all results are ``high``.
    """
    word = (low & 0xFF) | (high & 0xFF) << 8
    return word - ((word >> 15) << 16)


def requantise_parts(imm: int, *, use_imm: bool) -> tuple[int, int, int]:
    """Return the distance, 0 without ``use_imm``, and both bounds of a REQUANTISE's immediate."""
    distance = imm & LONGEST_REQUANTISE_SHIFT if use_imm else 0
    low = ((imm - distance + 128) & 0xFF) - 128
    return distance, low, imm >> 8


def requantise_immediate(shift: int, low: int, high: int) -> int:
    """Return the immediate of a REQUANTISE without an ``acc[src]``.

    ``low`` is a multiple of 32, as -128 and 0 are: the distance is where its low bits would be.
    """
    return requantise_bounds(low | shift, high)


LONGEST_LEAKY_SHIFT = 7
"""The longest of each of the two shifts of a LEAKY, in bits."""

_LEAKY_SUM = 1 << 3
_SECOND_LEAKY_SHIFT = 4


def leaky_immediate(first: int, second: int, *, adds: bool) -> int:
    """Return the immediate of a LEAKY: bits 2:0 are the first shift, bit 3 says that the value
    gets what it shifts, and bits 6:4 are the second shift. The hardware ignores the others."""
    return first | _LEAKY_SUM * adds | second << _SECOND_LEAKY_SHIFT


def leaky_parts(imm: int) -> tuple[int, int, bool]:
    """Return the first shift, the second, and whether there is a sum, of a LEAKY's immediate."""
    second = (imm >> _SECOND_LEAKY_SHIFT) & LONGEST_LEAKY_SHIFT
    return imm & LONGEST_LEAKY_SHIFT, second, bool(imm & _LEAKY_SUM)


def element_bytes(accelerator: Accelerator, memory_type: MemoryType) -> int:
    """Return the bytes of one element of a memory type, in DRAM and in its buffer."""
    return {
        MemoryType.UOP: accelerator.uop_bytes,
        MemoryType.WGT: accelerator.wgt_bytes,
        MemoryType.INP: accelerator.inp_bytes,
        MemoryType.ACC: accelerator.acc_bytes,
        MemoryType.OUT: accelerator.out_bytes,
        MemoryType.TABLE: _TABLE_ELEMENT_BYTES,
        MemoryType.ACC8: accelerator.out_bytes,
    }[memory_type]


def buffer_depth(accelerator: Accelerator, memory_type: MemoryType) -> int:
    """Return the number of elements that the buffer of a memory type holds."""
    return {
        MemoryType.UOP: accelerator.uop_depth,
        MemoryType.WGT: accelerator.wgt_depth,
        MemoryType.INP: accelerator.inp_depth,
        MemoryType.ACC: accelerator.acc_depth,
        MemoryType.OUT: accelerator.out_depth,
        MemoryType.TABLE: TABLE_ENTRIES // _TABLE_ELEMENT_BYTES,
        MemoryType.ACC8: accelerator.acc_depth,
    }[memory_type]


def honours_pads(accelerator: Accelerator, memory_type: MemoryType) -> bool:
    """Return whether a LOAD of this memory type inserts its pads.

    Loads of ACC do so from encoding revision 0.0.2 on. One published 0.0.2 bitstream was built
    before the pads worked, so the verifier refuses programs that rely on them.
    """
    if memory_type is MemoryType.ACC:
        return accelerator.revision != "0.0.1"
    return memory_type in (MemoryType.INP, MemoryType.ACC8)
