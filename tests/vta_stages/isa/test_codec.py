"""Instruction and uop bits: round trips, known bits, and errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instruction_records import ACCELERATORS, EXTENDED, STOCK, name_of, record_strategy

from vta_stages.accelerator import Accelerator
from vta_stages.errors import EncodingError
from vta_stages.isa import instructions as isa
from vta_stages.isa.codec import (
    NO_REGION,
    decode,
    decode_table,
    decode_uops,
    encode_table,
    encode_uops,
)
from vta_stages.isa.fields import instruction_fields, uop_fields
from vta_stages.isa.instruction_buffer import InstructionBuffer, encode

VECTORS = Path(__file__).parents[2] / "data" / "vta_vectors"


each_accelerator = pytest.mark.parametrize("target", ACCELERATORS, ids=name_of)


any_program = st.sampled_from(ACCELERATORS).flatmap(
    lambda target: st.tuples(
        st.just(target),
        st.lists(st.one_of([record_strategy(target, opcode) for opcode in isa.Opcode]), max_size=6),
    )
)


@given(any_program)
def test_records_survive_a_round_trip(case: tuple[Accelerator, list[isa.Instruction]]) -> None:
    target, program = case
    words = encode(target, program)
    assert words.shape == (len(program), 2)
    assert decode(target, words) == program
    assert (encode_table(decode_table(target, words)) == words).all()


@given(st.data())
def test_uops_survive_a_round_trip(data: st.DataObject) -> None:
    target = data.draw(st.sampled_from(ACCELERATORS))
    row = st.tuples(*(st.integers(0, field.maximum) for field in uop_fields(target)))
    rows = np.array(data.draw(st.lists(row, min_size=1)), np.int64)
    encoded = encode_uops(target, rows)
    assert encoded.dtype == np.uint32
    assert (decode_uops(target, encoded) == rows).all()
    records = [isa.Uop(dst=d, src=s, wgt=w) for d, s, w in rows.tolist()]
    assert (encode_uops(target, records) == encoded).all()


@each_accelerator
def test_fields_fill_the_words_without_gaps_or_overlaps(target: Accelerator) -> None:
    for opcode, fields in instruction_fields(target).items():
        next_bit = [7, 0]
        for field in fields:
            assert field.low_bit == next_bit[field.word], f"{opcode.name} {field.name}"
            next_bit[field.word] += field.bits
        assert max(next_bit) <= 64


@each_accelerator
@pytest.mark.parametrize("opcode", list(isa.Opcode))
def test_each_field_is_where_the_table_says(target: Accelerator, opcode: isa.Opcode) -> None:
    zero = {f.name: 0 for f in instruction_fields(target)[opcode] if f.in_record}
    plain = encode(target, [isa.RECORDS[opcode](**zero)])[0]
    for name in zero:
        field = next(f for f in instruction_fields(target)[opcode] if f.name == name)
        changed = encode(target, [isa.RECORDS[opcode](**{**zero, name: 1})])[0]
        flipped = [int(a ^ b) for a, b in zip(plain, changed, strict=True)]
        assert flipped[field.word] == 1 << field.low_bit
        assert flipped[1 - field.word] == 0


# Bits written out by hand from the field lists of hw_spec.h.
LOAD = isa.Load(
    memory_type=isa.MemoryType.ACC, sram_base=5, dram_base=9, x_size=3, y_size=2, x_stride=7,
    y_pad_0=1, y_pad_1=2, x_pad_0=3, x_pad_1=4, pop_next=True,
)  # fmt: skip
STORE = isa.Store(sram_base=5, dram_base=9, x_size=3, y_size=2, x_stride=7, push_prev=True)
ALU = isa.Alu(
    alu_opcode=isa.AluOp.SHR, uop_bgn=1, uop_end=2, use_imm=True, imm=-2, iter_out=3, iter_in=4
)
GEMM = isa.Gemm(uop_bgn=1, uop_end=2, reset=True, dst_factor_out=1, wgt_factor_in=1, pop_prev=True)
SIZES = 2 | 3 << 16 | 7 << 32
PADS = 1 << 48 | 2 << 52 | 3 << 56 | 4 << 60
LOOPS = 1 << 8 | 2 << 21 | 3 << 35 | 4 << 49


@pytest.mark.parametrize(
    ("revision", "instruction", "low", "high"),
    [
        ("0.0.2", LOAD, 1 << 4 | 3 << 7 | 5 << 10 | 9 << 26, SIZES | PADS),
        ("0.0.1", LOAD, 1 << 4 | 3 << 7 | 5 << 9 | 9 << 25, SIZES | PADS),
        ("0.0.2", STORE, 1 | 1 << 5 | 4 << 7 | 5 << 10 | 9 << 26, SIZES),
        ("0.0.1", STORE, 1 | 1 << 5 | 5 << 9 | 9 << 25, SIZES),
        ("0.0.2", ALU, 4 | LOOPS, 3 << 44 | 1 << 47 | 0xFFFE << 48),
        ("0.0.1", ALU, 4 | LOOPS, 3 << 44 | 1 << 46 | 0xFFFE << 47),
        ("0.0.2", GEMM, 2 | 1 << 3 | 1 << 7 | 1 << 8 | 2 << 21 | 1 << 35 | 1 << 49, 1 | 1 << 54),
        ("0.0.1", isa.Finish(push_next=True), 3 | 1 << 6, 0),
    ],
)
def test_known_bits(revision: str, instruction: isa.Instruction, low: int, high: int) -> None:
    words = encode(Accelerator(revision=revision), [instruction])
    assert [hex(int(w)) for w in words[0]] == [hex(low), hex(high)]


@pytest.mark.parametrize("revision", ["0.0.1", "0.0.2"])
def test_the_recorded_vectors_decode_and_encode_to_the_same_bits(revision: str) -> None:
    files = sorted((VECTORS / revision).glob("*.npz"))
    assert len(files) == 36
    target = Accelerator(revision=revision)
    for path in files:
        words = np.load(path)["insns"]
        instructions = decode(target, words)
        assert isinstance(instructions[-1], isa.Finish)
        assert (encode(target, instructions) == words).all(), path.name


@each_accelerator
@pytest.mark.parametrize("opcode", [o for o in isa.Opcode if o is not isa.Opcode.FINISH])
def test_a_value_beyond_its_field_is_refused(target: Accelerator, opcode: isa.Opcode) -> None:
    fields = [f for f in instruction_fields(target)[opcode] if f.in_record]
    parts = {f.part_of: f.bits for f in instruction_fields(target)[opcode]}
    zero = {field.name: 0 for field in fields}
    for field in fields:
        if field.name == "alu_opcode" and target in STOCK:
            continue  # what is beyond it is an operation that this accelerator lacks
        beyond = (field.maximum + 1) << parts.get(field.name, 0)
        for value in (field.minimum - 1, beyond):
            bound = "at least" if value < 0 else "at most"
            message = rf"instruction 1 \({opcode.name}\): {field.name} is {value}, expected {bound}"
            with pytest.raises(EncodingError, match=message):
                encode(target, [isa.Finish(), isa.RECORDS[opcode](**{**zero, field.name: value})])


def test_a_uop_beyond_its_field_is_refused() -> None:
    with pytest.raises(EncodingError, match=r"uop 1: wgt is 1024, expected 0 to 1023 \(10 bits\)"):
        encode_uops(Accelerator(), [isa.Uop(dst=1), isa.Uop(dst=0, wgt=1024)])


def test_buffers_too_deep_for_the_encoding_are_refused() -> None:
    deep = Accelerator(acc_buffer_bytes_log2=19)
    with pytest.raises(EncodingError, match="word 1 of a GEMM instruction needs 68 bits") as caught:
        instruction_fields(deep)
    assert caught.value.hint == "choose smaller buffers"
    with pytest.raises(EncodingError, match="of a uop needs 34 bits, expected at most 32"):
        uop_fields(deep)


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (5, 0, "instruction 0: opcode is 5, expected one of LOAD 0, STORE 1"),
        (3, 1, r"instruction 0 \(FINISH\): bits outside all fields are set in 0x0*1_0*3"),
        (1 << 7 | 1, 0, r"instruction 0 \(STORE\): memory_type is 1, expected one of \[4\]"),
        (7 << 7, 0, r"instruction 0 \(LOAD\): memory_type is 7, expected one of \[0, 1, 2, 3\]"),
        (4, 7 << 44, r"instruction 0 \(ALU\): LEAKY needs the extension leaky"),
    ],
)
def test_invalid_instruction_words_are_refused(low: int, high: int, message: str) -> None:
    with pytest.raises(EncodingError, match=message):
        decode(Accelerator(revision="0.0.2"), np.array([[low, high]], np.uint64))


def test_the_wrong_shape_is_refused() -> None:
    with pytest.raises(EncodingError, match=r"shape is \[4\], expected \[n, 2\]"):
        decode_table(Accelerator(), np.zeros(4, np.uint64))


def test_an_instruction_buffer_encodes_what_records_encode() -> None:
    target = Accelerator()
    buffer = InstructionBuffer(target)
    buffer.load(isa.MemoryType.INP, sram_base=1, dram_base=2, x_size=3, x_pad_0=1, region=4)
    buffer.gemm(0, 9, iter_out=2, iter_in=3, dst_factors=(3, 1), wgt_factors=(0, 4))
    buffer.alu(isa.AluOp.MAX, 9, 10, imm=-128, tokens=isa.Token.PUSH_NEXT)
    buffer.alu(isa.AluOp.ADD, 9, 10, src_factors=(2, 1))
    last = buffer.store(sram_base=0, dram_base=8, x_size=16, tokens=isa.Token.POP_PREV, region=5)
    buffer.add_tokens(last, isa.Token.PUSH_PREV)
    assert buffer.finish(tokens=isa.Token.POP_NEXT) == 5
    assert decode(target, buffer.encode()) == [
        isa.Load(memory_type=isa.MemoryType.INP, sram_base=1, dram_base=2, x_size=3, x_pad_0=1),
        isa.Gemm(uop_bgn=0, uop_end=9, iter_out=2, iter_in=3, dst_factor_out=3, dst_factor_in=1,
                 wgt_factor_in=4),
        isa.Alu(alu_opcode=isa.AluOp.MAX, uop_bgn=9, uop_end=10, use_imm=True, imm=-128,
                push_next=True),
        isa.Alu(alu_opcode=isa.AluOp.ADD, uop_bgn=9, uop_end=10, src_factor_out=2, src_factor_in=1),
        isa.Store(sram_base=0, dram_base=8, x_size=16, pop_prev=True, push_prev=True),
        isa.Finish(pop_next=True),
    ]  # fmt: skip
    none = NO_REGION
    assert buffer.relocations.tolist() == [4, none, none, none, 5, none]
    assert buffer.tokens(last) == isa.Token.POP_PREV | isa.Token.PUSH_PREV


def test_the_modules_of_a_table() -> None:
    loads = [
        isa.Load(memory_type=m, sram_base=0, dram_base=0, x_size=1)
        for m in list(isa.MemoryType)[:4]
    ]
    program = [*loads, STORE, GEMM, ALU, isa.Finish()]
    target = Accelerator()
    modules = decode_table(target, encode(target, program)).modules
    compute, load = isa.Module.COMPUTE, isa.Module.LOAD
    expected = [compute, load, load, compute, isa.Module.STORE, compute, compute, compute]
    assert modules.tolist() == expected


REQUANTISE = isa.Alu(alu_opcode=isa.AluOp.REQUANTISE, uop_bgn=1, uop_end=2, iter_out=3, iter_in=4,
                     imm=isa.requantise_bounds(-2, 127))  # fmt: skip
MULTIPLY = isa.Alu(alu_opcode=isa.AluOp.MULTIPLY, uop_bgn=1, uop_end=2, iter_out=3, iter_in=4)
TABLE = isa.Alu(alu_opcode=isa.AluOp.TABLE, uop_bgn=1, uop_end=2, iter_out=3, iter_in=4, imm=5)
LOAD_TABLE = isa.Load(memory_type=isa.MemoryType.TABLE, sram_base=5, dram_base=9, x_size=3)
LOAD_ACC8 = isa.Load(memory_type=isa.MemoryType.ACC8, sram_base=5, dram_base=9, x_size=3, x_pad_1=2)
LOAD_PADDED = isa.Load(
    memory_type=isa.MemoryType.INP, sram_base=5, dram_base=9, x_size=3, x_pad_1=2, pad_value=-3
)
LEAKY = isa.Alu(alu_opcode=isa.AluOp.LEAKY, uop_bgn=1, uop_end=2, iter_out=3, iter_in=4,
                imm=isa.leaky_immediate(2, 5, adds=True))  # fmt: skip


@pytest.mark.parametrize(
    ("revision", "instruction", "low", "high"),
    [
        # Revision 0.0.1 has two bits for the operation: the third is behind the loops.
        ("0.0.1", REQUANTISE, 4 | LOOPS | 1 << 63, 0x7FFE << 47),
        ("0.0.1", MULTIPLY, 4 | LOOPS | 1 << 63, 1 << 44),
        ("0.0.1", TABLE, 4 | LOOPS | 1 << 63, 2 << 44 | 5 << 47),
        ("0.0.1", LOAD_TABLE, 1 << 7 | 5 << 9 | 9 << 25 | 1 << 57, 1 | 3 << 16),
        ("0.0.2", TABLE, 4 | LOOPS, 6 << 44 | 5 << 48),
        ("0.0.2", LOAD_TABLE, 5 << 7 | 5 << 10 | 9 << 26, 1 | 3 << 16),
        ("0.0.2", REQUANTISE, 4 | LOOPS, 4 << 44 | 0x7FFE << 48),
        ("0.0.2", MULTIPLY, 4 | LOOPS, 5 << 44),
        ("0.0.1", LOAD_ACC8, 2 << 7 | 5 << 9 | 9 << 25 | 1 << 57, 1 | 3 << 16 | 2 << 60),
        ("0.0.2", LOAD_ACC8, 6 << 7 | 5 << 10 | 9 << 26, 1 | 3 << 16 | 2 << 60),
        ("0.0.1", LOAD_PADDED, 2 << 7 | 5 << 9 | 9 << 25 | 61 << 58, 1 | 3 << 16 | 2 << 60),
        ("0.0.2", LOAD_PADDED, 2 << 7 | 5 << 10 | 9 << 26 | 61 << 58, 1 | 3 << 16 | 2 << 60),
        ("0.0.1", LEAKY, 4 | LOOPS | 1 << 63, 3 << 44 | 0x5A << 47),
        ("0.0.2", LEAKY, 4 | LOOPS, 7 << 44 | 0x5A << 48),
    ],
)
def test_known_bits_of_extensions(
    revision: str, instruction: isa.Instruction, low: int, high: int
) -> None:
    target = next(each for each in EXTENDED if each.revision == revision)
    words = encode(target, [instruction])
    assert [hex(int(w)) for w in words[0]] == [hex(low), hex(high)]
    assert decode(target, words) == [instruction]


@pytest.mark.parametrize("target", EXTENDED, ids=name_of)
def test_what_upstream_has_keeps_its_bits_with_extensions(target: Accelerator) -> None:
    stock = replace(target, extensions=())
    for instruction in (LOAD, STORE, ALU, GEMM, isa.Finish()):
        assert (encode(target, [instruction]) == encode(stock, [instruction])).all()


@pytest.mark.parametrize("revision", ["0.0.1", "0.0.2"])
@pytest.mark.parametrize(
    ("instruction", "code", "name"),
    [
        (REQUANTISE, "REQUANTISE", "requantise"),
        (MULTIPLY, "MULTIPLY", "multiply"),
        (TABLE, "TABLE", "table"),
        (LOAD_TABLE, "TABLE", "table"),
        (LOAD_ACC8, "ACC8", "widen"),
        (LEAKY, "LEAKY", "leaky"),
    ],
)
def test_an_extension_that_an_accelerator_lacks_is_refused(
    instruction: isa.Alu | isa.Load, code: str, name: str, revision: str
) -> None:
    other = "requantise" if name == "multiply" else "multiply"
    able = Accelerator(revision=revision, extensions=(name,))
    unable = Accelerator(revision=revision, extensions=(other,))
    words = encode(able, [isa.Finish(), instruction])
    opcode = type(instruction).__name__.upper()
    message = (
        rf"instruction 1 \({opcode}\): {code} needs the extension {name}, "
        rf"the accelerator's extensions are: {other}$"
    )
    if isinstance(instruction, isa.Load) and revision == "0.0.1":
        with pytest.raises(EncodingError, match="bits outside all fields are set"):
            decode(unable, words)
    else:
        with pytest.raises(EncodingError, match=message) as caught:
            decode(unable, words)
        assert caught.value.hint == "compile the program for this accelerator"
    with pytest.raises(EncodingError, match=message):
        encode(unable, [isa.Finish(), instruction])
    with pytest.raises(EncodingError, match=r"the accelerator's extensions are: none$"):
        encode(replace(able, extensions=()), [isa.Finish(), instruction])


@pytest.mark.parametrize("revision", ["0.0.1", "0.0.2"])
def test_a_value_of_pads_that_an_accelerator_lacks_is_refused(revision: str) -> None:
    able = Accelerator(revision=revision, extensions=("pad_value",))
    unable = Accelerator(revision=revision, extensions=("widen",))
    with pytest.raises(EncodingError, match="bits outside all fields are set"):
        decode(unable, encode(able, [LOAD_PADDED]))
    message = (
        r"instruction 1 \(LOAD\): pad_value is -3, which needs the extension pad_value, the "
        r"accelerator's extensions are: widen$"
    )
    with pytest.raises(EncodingError, match=message) as caught:
        encode(unable, [isa.Finish(), LOAD_PADDED])
    assert caught.value.hint == "compile the program for this accelerator"


def test_a_value_of_pads_that_does_not_fit_is_refused() -> None:
    target = Accelerator(extensions=("pad_value",))
    with pytest.raises(EncodingError, match=r"pad_value is 32, expected at most 31"):
        encode(target, [replace(LOAD_PADDED, pad_value=32)])


def test_the_content_of_a_table_begins_with_the_entry_of_0() -> None:
    table = np.arange(-128, 128, dtype=np.int8)
    content = np.frombuffer(isa.table_content(table), np.int8)
    assert [content[0], content[127], content[128], content[255]] == [0, 127, -128, -1]


def test_words_with_an_extension_are_refused_by_a_stock_accelerator() -> None:
    words = [encode(target, [REQUANTISE]) for target in EXTENDED]
    with pytest.raises(EncodingError, match="bits outside all fields are set"):
        decode(Accelerator(revision="0.0.1"), words[0])
    with pytest.raises(EncodingError, match="REQUANTISE needs the extension requantise"):
        decode(Accelerator(revision="0.0.2"), words[1])


INT8 = st.integers(-128, 127)


@given(st.integers(-(1 << 26), (1 << 26) - 1), st.integers(0, 31), INT8, INT8)
def test_a_requantise_has_its_parts_in_its_operand_and_immediate(
    constant: int, shift: int, low: int, high: int
) -> None:
    lane = int(isa.requantise_operand(np.array([constant]), np.array([shift]))[0])
    assert (lane >> 5, lane & 31) == (constant, shift)
    bounds = isa.requantise_bounds(low, high)
    assert (bounds >> 8, bounds & 0xFF) == (high, low & 0xFF)
    assert -(1 << 15) <= bounds < 1 << 15
    whole = isa.requantise_immediate(shift, low & ~31, high)
    assert (whole >> 8, whole & 0xE0, whole & 31) == (high, low & 0xE0, shift)
