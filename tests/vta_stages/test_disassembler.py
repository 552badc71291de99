"""The text of instructions, uops and programs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from accelerators import ALL_EXTENSIONS
from small_programs import make_program, product_instructions, product_uops

from vta_stages.accelerator import Accelerator
from vta_stages.disassembler import (
    Listing,
    disassemble,
    disassemble_words,
    summarize,
)
from vta_stages.isa import instructions as isa
from vta_stages.isa.instruction_buffer import encode

ROWS = "2 x 3 stride 9, pads 1 0 1 2"
PADS = {"y_pad_0": 1, "y_pad_1": 0, "x_pad_0": 1, "x_pad_1": 2}


def padded(memory_type: isa.MemoryType) -> isa.Load:
    return isa.Load(
        memory_type=memory_type, sram_base=8, dram_base=4, y_size=2, x_size=3, x_stride=9, **PADS
    )


@pytest.mark.parametrize(
    ("revision", "instruction", "text"),
    [
        ("0.0.1", padded(isa.MemoryType.INP), f"load    inp[8:26] <- dram[4], {ROWS}"),
        ("0.0.1", padded(isa.MemoryType.ACC), f"compute acc[8:14] <- dram[4], {ROWS}"),
        ("0.0.2", padded(isa.MemoryType.ACC), f"compute acc[8:26] <- dram[4], {ROWS}"),
        ("0.0.2", padded(isa.MemoryType.UOP), "compute uop[8:11] <- dram[4]"),
        (
            "0.0.1",
            isa.Load(
                memory_type=isa.MemoryType.WGT, sram_base=0, dram_base=2, x_size=9, push_next=True
            ),
            "load    wgt[0:9] <- dram[2]; push compute",
        ),
        (
            "0.0.1",
            isa.Store(sram_base=4, dram_base=0, y_size=2, x_size=8, x_stride=16, pop_prev=True),
            "store   out[4:20] -> dram[0], 2 x 8 stride 16; pop compute",
        ),
        (
            "0.0.1",
            isa.Gemm(uop_bgn=0, uop_end=9, reset=True, iter_in=4, dst_factor_in=9, pop_prev=True),
            "compute gemm acc = 0, uops 0:9 x 1 x 4, dst 0,9; pop load",
        ),
        (
            "0.0.1",
            isa.Gemm(uop_bgn=2, uop_end=4, iter_out=3, src_factor_out=5, wgt_factor_out=7),
            "compute gemm acc += inp wgt, uops 2:4 x 3 x 1, src 5,0, wgt 7,0",
        ),
        (
            "0.0.1",
            isa.Alu(
                alu_opcode=isa.AluOp.SHR, uop_bgn=0, uop_end=1, use_imm=True, imm=-3, push_next=True
            ),
            "compute alu shr acc, -3, uops 0:1; push store",
        ),
        (
            "0.0.1",
            isa.Alu(alu_opcode=isa.AluOp.MAX, uop_bgn=0, uop_end=1, iter_out=2, src_factor_out=1),
            "compute alu max acc, acc, uops 0:1 x 2 x 1, src 1,0",
        ),
        (
            "0.0.1",
            isa.Alu(alu_opcode=isa.AluOp.REQUANTISE, uop_bgn=0, uop_end=1,
                    imm=isa.requantise_bounds(-5, 100)),
            "compute alu requantise acc, acc clip -5:100, uops 0:1",
        ),
        ("0.0.2", padded(isa.MemoryType.TABLE), "compute table[8:11] <- dram[4]"),
        (
            "0.0.1",
            replace(padded(isa.MemoryType.ACC8), pad_value=-32),
            f"compute acc8[8:26] <- dram[4], {ROWS} of -128",
        ),
        (
            "0.0.1",
            isa.Alu(alu_opcode=isa.AluOp.TABLE, uop_bgn=0, uop_end=1, use_imm=True,
                    imm=isa.requantise_immediate(0, -128, 127)),
            "compute alu table acc, 0 clip -128:127, uops 0:1",
        ),
        (
            "0.0.2",
            isa.Alu(alu_opcode=isa.AluOp.REQUANTISE, uop_bgn=0, uop_end=1, use_imm=True,
                    imm=isa.requantise_immediate(21, -128, 127)),
            "compute alu requantise acc, 21 clip -128:127, uops 0:1",
        ),
        (
            "0.0.2",
            isa.Alu(alu_opcode=isa.AluOp.MULTIPLY, uop_bgn=0, uop_end=1, use_imm=True, imm=-7),
            "compute alu multiply acc, -7, uops 0:1",
        ),
        (
            "0.0.1",
            isa.Alu(alu_opcode=isa.AluOp.LEAKY, uop_bgn=0, uop_end=1,
                    imm=isa.leaky_immediate(2, 1, adds=True)),
            "compute alu leaky acc, acc shifts 2 add 1, uops 0:1",
        ),
        (
            "0.0.1",
            isa.Finish(pop_next=True, push_prev=True),
            "compute finish; pop store, push load",
        ),
    ],
)  # fmt: skip
def test_the_text_of_an_instruction(revision: str, instruction: isa.Instruction, text: str) -> None:
    target = Accelerator(revision=revision, extensions=ALL_EXTENSIONS)
    words = encode(target, [instruction])
    assert disassemble_words(target, words) == f"     0 {text}\n"


def test_a_token_without_a_queue_is_shown() -> None:
    target = Accelerator()
    words = encode(target, [isa.Store(sram_base=0, dram_base=0, x_size=1, pop_next=True)])
    assert disassemble_words(target, words).endswith("; pop nothing\n")


def test_a_program_starts_with_its_summary() -> None:
    program = make_program(product_instructions(), product_uops())
    summary = summarize(program)
    assert summary.splitlines() == [
        "program for 1x16_i8w8a32_15_15_18_17, encoding 0.0.1",
        "8 instructions: 3 LOAD, 1 STORE, 2 GEMM, 1 FINISH, 1 ALU",
        "",
        "region                           kind            bytes",
        "consts                           const              64",
        "data                             input           65536",
        "scratch                          scratch         65536",
        "result                           output          65536",
        "",
        "layer                               first    count     gemm      alu    moves",
        "conv_1                                  0        8        2        1        4",
    ]
    listing = disassemble(program)
    assert listing.startswith(summary + "\nconv_1:\n     0 compute uop[0:16] <- consts[0]\n")
    assert "     6 store   out[0:16] -> result[0]; pop compute, push compute\n" in listing


def test_a_part_of_a_listing() -> None:
    listing = Listing.of(make_program(product_instructions(), product_uops()))
    assert list(listing.lines(4, 2)) == [
        "conv_1:",
        "     4 compute gemm acc += inp wgt, uops 0:16",
        "     5 compute alu shr acc, 7, uops 0:16; push store",
    ]
