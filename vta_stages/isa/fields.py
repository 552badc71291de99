"""The encoding in one table: where each field lies in the bits of an instruction or a uop.

An instruction is 128 bits, held as two little-endian 64-bit words. Fields are packed from bit 0 of
each word upwards and never straddle a word. Their widths follow the buffer depths and the encoding
revision of the :class:`~vta_stages.accelerator.Accelerator`. Everything that reads or writes
instruction bits (codec, disassembler, verifier, the check of the C++ decoder) takes the positions
from :func:`instruction_fields`.

Source: the HLS sources and ``hw_spec.h`` of apache/tvm-vta.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from vta_stages.accelerator import Accelerator, Extension
from vta_stages.errors import EncodingError
from vta_stages.isa.instructions import MEMORY_EXTENSIONS, MemoryType, Opcode

HEAD_BITS = 7
"""Bits of the opcode and the token flags, which start every instruction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """The position of a field: ``bits`` bits from bit ``low_bit`` of 64-bit word ``word``.

    ``constant`` is set if the hardware supports only one value. The bits must hold that value, and
    the record does not have the field. ``part_of`` is set if the bits are those of another field's
    value from bit ``part_low_bit`` up; the other field has the bits below, and the record only it.
    """

    name: str
    word: int
    low_bit: int
    bits: int
    signed: bool = False
    constant: int | None = None
    part_of: str = ""
    part_low_bit: int = 0

    @property
    def in_record(self) -> bool:
        """Whether a record has a value of this name."""
        return self.constant is None and not self.part_of

    @property
    def minimum(self) -> int:
        """The smallest value that fits."""
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def maximum(self) -> int:
        """The largest value that fits."""
        return (1 << (self.bits - self.signed)) - 1


@dataclass(frozen=True, slots=True)
class _Rule:
    """One row of the table: a field whose width and constant depend on the accelerator."""

    name: str
    word: int
    bits: Callable[[Accelerator], int]
    signed: bool = False
    constant: Callable[[Accelerator], int] | None = None
    part_of: str = ""
    part_low_bit: int = 0
    is_optional: bool = False


def _bits(count: int) -> Callable[[Accelerator], int]:
    return lambda accelerator: count


def _log2(depth: int) -> int:
    return depth.bit_length() - 1


def _uop_bits(accelerator: Accelerator) -> int:
    return accelerator.uop_bits


def _uop_end_bits(accelerator: Accelerator) -> int:
    return _uop_bits(accelerator) + 1


def _inp_bits(accelerator: Accelerator) -> int:
    return _log2(accelerator.inp_depth)


def _wgt_bits(accelerator: Accelerator) -> int:
    return _log2(accelerator.wgt_depth)


def _acc_bits(accelerator: Accelerator) -> int:
    return _log2(accelerator.acc_depth)


def _code_bits(accelerator: Accelerator) -> int:
    """Return the width of memory_type and alu_opcode, which revision 0.0.2 widened."""
    return {"0.0.1": 2, "0.0.2": 3}[accelerator.revision]


def _store_memory(accelerator: Accelerator) -> int:
    """Return OUT as a store holds it: cut to the width of the field, so 0 in revision 0.0.1."""
    return MemoryType.OUT & ((1 << _code_bits(accelerator)) - 1)


def _high_code_bits(accelerator: Accelerator) -> int:
    """Return how many bits of alu_opcode are apart from it.

    The operations of extensions have a third bit, for which revision 0.0.1 has no room in the
    second word. One bit of the first word is always left.
    """
    return 3 - _code_bits(accelerator) if accelerator.extensions else 0


def _high_memory_bits(accelerator: Accelerator) -> int:
    """Return how many bits of memory_type are apart from it: the third one, as of alu_opcode.

    It is in the first word, behind the address, where no accelerator has anything.
    """
    needed = any(accelerator.has(extension) for extension in MEMORY_EXTENSIONS.values())
    return 3 - _code_bits(accelerator) if needed else 0


def _pad_value_bits(accelerator: Accelerator) -> int:
    """Return the width of pad_value, in all that the first word of a LOAD has left."""
    return 6 if accelerator.has(Extension.PAD_VALUE) else 0


def _zero(accelerator: Accelerator) -> int:
    return 0


_PADS = ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")
_PLACES = (_Rule("sram_base", 0, _bits(16)), _Rule("dram_base", 0, _bits(32)))
_SIZES = (
    _Rule("y_size", 1, _bits(16)),
    _Rule("x_size", 1, _bits(16)),
    _Rule("x_stride", 1, _bits(16)),
)
_COUNTS = (
    _Rule("reset", 0, _bits(1)),
    _Rule("uop_bgn", 0, _uop_bits),
    _Rule("uop_end", 0, _uop_end_bits),
    _Rule("iter_out", 0, _bits(14)),
    _Rule("iter_in", 0, _bits(14)),
)
_FACTORS = (
    _Rule("dst_factor_out", 1, _acc_bits),
    _Rule("dst_factor_in", 1, _acc_bits),
    _Rule("src_factor_out", 1, _inp_bits),
    _Rule("src_factor_in", 1, _inp_bits),
)
_TABLE: Mapping[Opcode, tuple[_Rule, ...]] = MappingProxyType(
    {
        Opcode.LOAD: (
            _Rule("memory_type", 0, _code_bits),
            *_PLACES,
            _Rule("memory_type_high", 0, _high_memory_bits, part_of="memory_type", part_low_bit=2),
            _Rule("pad_value", 0, _pad_value_bits, signed=True, is_optional=True),
            *_SIZES,
            *(_Rule(pad, 1, _bits(4)) for pad in _PADS),
        ),
        Opcode.STORE: (
            _Rule("memory_type", 0, _code_bits, constant=_store_memory),
            *_PLACES,
            *_SIZES,
            *(_Rule(pad, 1, _bits(4), constant=_zero) for pad in _PADS),
        ),
        Opcode.GEMM: (
            *_COUNTS,
            *_FACTORS,
            _Rule("wgt_factor_out", 1, _wgt_bits),
            _Rule("wgt_factor_in", 1, _wgt_bits),
        ),
        Opcode.ALU: (
            *_COUNTS,
            _Rule("alu_opcode_high", 0, _high_code_bits, part_of="alu_opcode", part_low_bit=2),
            *_FACTORS,
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
        if not bits and (rule.part_of or rule.is_optional):
            continue
        fields.append(
            Field(
                name=rule.name,
                word=rule.word,
                low_bit=next_bit[rule.word],
                bits=bits,
                signed=rule.signed,
                constant=rule.constant(accelerator) if rule.constant else None,
                part_of=rule.part_of,
                part_low_bit=rule.part_low_bit,
            )
        )
        next_bit[rule.word] += bits
    for word, used in enumerate(next_bit):
        if used > word_bits:
            raise EncodingError(
                f"accelerator {accelerator.configuration}: word {word} of a {what} needs {used} "
                f"bits, expected at most {word_bits}",
                hint="choose smaller buffers",
            )
    return tuple(fields)


@cache
def instruction_fields(accelerator: Accelerator) -> Mapping[Opcode, tuple[Field, ...]]:
    """Return each opcode's fields after the common head, in ascending bit order per word.

    Raises EncodingError if the accelerator's buffers are too deep for 64-bit words.
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
    """Return the fields of a 32-bit uop: dst, src, wgt.

    Raises EncodingError if the accelerator's buffers are too deep for 32 bits.
    """
    return _place(_UOP_TABLE, accelerator, first_bit=0, word_bits=32, what="uop")
