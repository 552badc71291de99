"""The instruction set in one table: opcodes, memory types, field layouts and instruction records.

An instruction is 128 bits, held as two little-endian 64-bit words; fields are packed from bit 0 of
each word upwards and never straddle a word. Field widths follow the buffer depths and the encoding
revision of the :class:`~vta_stages.accelerator.Accelerator`. Everything that reads or writes
instruction bits (codec, disassembler, verifier, the check of the C++ decoder) takes positions from
:func:`instruction_fields`.

Source: the HLS sources and ``hw_spec.h`` of apache/tvm-vta.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from types import MappingProxyType

from vta_stages.accelerator import Accelerator
from vta_stages.errors import EncodingError

INSTRUCTION_BYTES = 16
HEAD_BITS = 7


class Opcode(IntEnum):
    """What an instruction does; also decides which module's queue it enters."""

    LOAD = 0
    STORE = 1
    GEMM = 2
    FINISH = 3
    ALU = 4


class MemoryType(IntEnum):
    """The on-chip buffer of a LOAD or STORE. Addresses and extents count its elements."""

    UOP = 0
    WGT = 1
    INP = 2
    ACC = 3
    OUT = 4


class AluOp(IntEnum):
    """Lane-wise operations on acc vectors. There is no multiplication in the HLS hardware."""

    MIN = 0
    MAX = 1
    ADD = 2
    SHR = 3


class Module(IntEnum):
    """The three concurrent modules, in the order in which tokens call them prev and next."""

    LOAD = 0
    COMPUTE = 1
    STORE = 2


class Token(IntEnum):
    """Bits of a token set, in the order of the head's flags (instruction bits 3 to 6)."""

    POP_PREV = 1
    POP_NEXT = 2
    PUSH_PREV = 4
    PUSH_NEXT = 8


TOKEN_FLAGS: Mapping[str, Token] = MappingProxyType({token.name.lower(): token for token in Token})
TOKEN_SHIFT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """Token flags, common to all instructions. prev and next are along load, compute, store."""

    pop_prev: bool = False
    pop_next: bool = False
    push_prev: bool = False
    push_next: bool = False

    @property
    def tokens(self) -> int:
        """The flags as a set of :class:`Token` bits."""
        return sum(bit for name, bit in TOKEN_FLAGS.items() if getattr(self, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Load(Instruction):
    """Copy ``y_size`` rows of ``x_size`` elements, ``x_stride`` apart, from DRAM into a buffer.

    A row is ``x_pad_0 + x_size + x_pad_1`` elements wide on chip, with ``y_pad_0`` and ``y_pad_1``
    such rows of zeros around. WGT and UOP ignore the pads, UOP reads ``x_size`` elements once, and
    revision 0.0.1 ignores the pads of ACC.
    """

    memory_type: MemoryType
    sram_base: int
    dram_base: int
    x_size: int
    y_size: int = 1
    x_stride: int = 0
    y_pad_0: int = 0
    y_pad_1: int = 0
    x_pad_0: int = 0
    x_pad_1: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Store(Instruction):
    """Copy ``y_size`` rows of ``x_size`` elements of the out buffer to DRAM, ``x_stride`` apart."""

    sram_base: int
    dram_base: int
    x_size: int
    y_size: int = 1
    x_stride: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemm(Instruction):
    """``acc[dst] += inp[src] @ wgt[wgt].T`` for every uop in both loops, or ``acc[dst] = 0``.

    For ``o < iter_out``, ``i < iter_in`` and every uop in ``[uop_bgn, uop_end)``, an index is the
    uop's plus ``o * factor_out + i * factor_in``.
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
    wgt_factor_out: int = 0
    wgt_factor_in: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Alu(Instruction):
    """``acc[dst] = op(acc[dst], imm or acc[src])`` lane by lane, in the loops of :class:`Gemm`.

    SHR takes the low 5 bits of its operand as a signed number: 15 is the longest right shift, and a
    negative operand shifts left.
    """

    alu_opcode: AluOp
    uop_bgn: int
    uop_end: int
    use_imm: bool = False
    imm: int = 0
    reset: bool = False
    iter_out: int = 1
    iter_in: int = 1
    dst_factor_out: int = 0
    dst_factor_in: int = 0
    src_factor_out: int = 0
    src_factor_in: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(Instruction):
    """Raise the done flag; the last instruction of every program."""


RECORDS: Mapping[Opcode, type[Instruction]] = MappingProxyType(
    {
        Opcode.LOAD: Load,
        Opcode.STORE: Store,
        Opcode.GEMM: Gemm,
        Opcode.ALU: Alu,
        Opcode.FINISH: Finish,
    }
)

# Columns that hold something other than a plain integer.
FIELD_TYPES: Mapping[str, Callable[[int], object]] = MappingProxyType(
    {"memory_type": MemoryType, "alu_opcode": AluOp, "reset": bool, "use_imm": bool}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uop:
    """One micro-operation: the element indices that a GEMM or ALU step starts from.

    An ALU step reads ``src`` as an acc index and ignores ``wgt``.
    """

    dst: int
    src: int = 0
    wgt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field's place: ``bits`` bits from bit ``low_bit`` of 64-bit word ``word``.

    ``constant`` is set where the hardware knows only one value, which is then no part of the record
    but must be present in the bits.
    """

    name: str
    word: int
    low_bit: int
    bits: int
    signed: bool = False
    constant: int | None = None

    @property
    def minimum(self) -> int:
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def maximum(self) -> int:
        return (1 << (self.bits - self.signed)) - 1


@dataclass(frozen=True, slots=True)
class _Rule:
    """One row of the table: a field whose width and constant are functions of the accelerator."""

    name: str
    word: int
    bits: Callable[[Accelerator], int]
    signed: bool = False
    constant: Callable[[Accelerator], int] | None = None


def _bits(count: int) -> Callable[[Accelerator], int]:
    return lambda accelerator: count


def _log2(depth: int) -> int:
    return depth.bit_length() - 1


def _uop_bits(accelerator: Accelerator) -> int:
    return _log2(accelerator.uop_depth)


def _uop_end_bits(accelerator: Accelerator) -> int:
    return _uop_bits(accelerator) + 1


def _inp_bits(accelerator: Accelerator) -> int:
    return _log2(accelerator.inp_depth)


def _wgt_bits(accelerator: Accelerator) -> int:
    return _log2(accelerator.wgt_depth)


def _acc_bits(accelerator: Accelerator) -> int:
    return _log2(accelerator.acc_depth)


def _code_bits(accelerator: Accelerator) -> int:
    """Width of memory_type and alu_opcode, which revision 0.0.2 widened."""
    return {"0.0.1": 2, "0.0.2": 3}[accelerator.revision]


def _store_memory(accelerator: Accelerator) -> int:
    """OUT as a store carries it: cut to the field, so 0 in revision 0.0.1."""
    return MemoryType.OUT & ((1 << _code_bits(accelerator)) - 1)


def _zero(accelerator: Accelerator) -> int:
    return 0


_PADS = ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")
_TRANSFER = (
    _Rule("sram_base", 0, _bits(16)),
    _Rule("dram_base", 0, _bits(32)),
    _Rule("y_size", 1, _bits(16)),
    _Rule("x_size", 1, _bits(16)),
    _Rule("x_stride", 1, _bits(16)),
)
_LOOPS = (
    _Rule("reset", 0, _bits(1)),
    _Rule("uop_bgn", 0, _uop_bits),
    _Rule("uop_end", 0, _uop_end_bits),
    _Rule("iter_out", 0, _bits(14)),
    _Rule("iter_in", 0, _bits(14)),
    _Rule("dst_factor_out", 1, _acc_bits),
    _Rule("dst_factor_in", 1, _acc_bits),
    _Rule("src_factor_out", 1, _inp_bits),
    _Rule("src_factor_in", 1, _inp_bits),
)
_TABLE: Mapping[Opcode, tuple[_Rule, ...]] = MappingProxyType(
    {
        Opcode.LOAD: (
            _Rule("memory_type", 0, _code_bits),
            *_TRANSFER,
            *(_Rule(pad, 1, _bits(4)) for pad in _PADS),
        ),
        Opcode.STORE: (
            _Rule("memory_type", 0, _code_bits, constant=_store_memory),
            *_TRANSFER,
            *(_Rule(pad, 1, _bits(4), constant=_zero) for pad in _PADS),
        ),
        Opcode.GEMM: (
            *_LOOPS,
            _Rule("wgt_factor_out", 1, _wgt_bits),
            _Rule("wgt_factor_in", 1, _wgt_bits),
        ),
        Opcode.ALU: (
            *_LOOPS,
            _Rule("alu_opcode", 1, _code_bits),
            _Rule("use_imm", 1, _bits(1)),
            _Rule("imm", 1, _bits(16), signed=True),
        ),
        Opcode.FINISH: (),
    }
)
_UOP_TABLE = (
    _Rule("dst", 0, _acc_bits),
    _Rule("src", 0, _inp_bits),
    _Rule("wgt", 0, _wgt_bits),
)


def _place(
    rules: tuple[_Rule, ...], accelerator: Accelerator, *, first_bit: int, word_bits: int, what: str
) -> tuple[Field, ...]:
    next_bit = [first_bit, 0]
    fields = []
    for rule in rules:
        bits = rule.bits(accelerator)
        fields.append(
            Field(
                name=rule.name,
                word=rule.word,
                low_bit=next_bit[rule.word],
                bits=bits,
                signed=rule.signed,
                constant=rule.constant(accelerator) if rule.constant else None,
            )
        )
        next_bit[rule.word] += bits
    for word, used in enumerate(next_bit):
        if used > word_bits:
            raise EncodingError(
                f"accelerator {accelerator.configuration}: word {word} of a {what} needs {used} "
                f"bits, expected at most {word_bits}",
                hint="the buffers are too deep for the encoding; choose smaller ones",
            )
    return tuple(fields)


@cache
def instruction_fields(accelerator: Accelerator) -> Mapping[Opcode, tuple[Field, ...]]:
    """Return every opcode's fields behind the common head, in ascending bit order per word.

    Raises EncodingError when the accelerator's buffers are too deep for 64-bit words.
    """
    return MappingProxyType(
        {
            opcode: _place(
                rules,
                accelerator,
                first_bit=HEAD_BITS,
                word_bits=64,
                what=f"{opcode.name} instruction",
            )
            for opcode, rules in _TABLE.items()
        }
    )


@cache
def uop_fields(accelerator: Accelerator) -> tuple[Field, ...]:
    """Return the fields of a 32-bit uop: dst, src, wgt. Raises EncodingError like the above."""
    return _place(_UOP_TABLE, accelerator, first_bit=0, word_bits=32, what="uop")


def element_bytes(accelerator: Accelerator, memory_type: MemoryType) -> int:
    """Return the bytes of one element of a memory type, in DRAM and in its buffer."""
    return {
        MemoryType.UOP: accelerator.uop_bytes,
        MemoryType.WGT: accelerator.wgt_bytes,
        MemoryType.INP: accelerator.inp_bytes,
        MemoryType.ACC: accelerator.acc_bytes,
        MemoryType.OUT: accelerator.out_bytes,
    }[memory_type]


def buffer_depth(accelerator: Accelerator, memory_type: MemoryType) -> int:
    """Return the number of elements that the buffer of a memory type holds."""
    return {
        MemoryType.UOP: accelerator.uop_depth,
        MemoryType.WGT: accelerator.wgt_depth,
        MemoryType.INP: accelerator.inp_depth,
        MemoryType.ACC: accelerator.acc_depth,
        MemoryType.OUT: accelerator.out_depth,
    }[memory_type]


def honours_pads(accelerator: Accelerator, memory_type: MemoryType) -> bool:
    """Return whether a LOAD of this memory type inserts its pads.

    ACC loads do from encoding revision 0.0.2 on. A published 0.0.2 bitstream was built before the
    pads worked, so the verifier refuses programs that rely on them.
    """
    if memory_type is MemoryType.ACC:
        return accelerator.revision != "0.0.1"
    return memory_type is MemoryType.INP
