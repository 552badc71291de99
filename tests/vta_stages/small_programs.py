"""Small programs for tests: instruction records to a Program with the usual four regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from vta_stages.accelerator import Accelerator
from vta_stages.isa.codec import NO_REGION, encode_uops
from vta_stages.isa.instruction_buffer import encode
from vta_stages.isa.instructions import (
    Alu,
    AluOp,
    Finish,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    Store,
    Uop,
)
from vta_stages.program import LayerSpan, Program, Region, RegionKind

STOCK = Accelerator()
REGION_BYTES = 1 << 16
REGIONS = {"consts": 0, "data": 1, "scratch": 2, "result": 3}


def make_program(
    instructions: Sequence[Instruction],
    uops: Sequence[Uop],
    *,
    accelerator: Accelerator = STOCK,
    regions: Mapping[int, str] | None = None,
    consts: bytes = b"",
) -> Program:
    """Return a program: UOP loads read consts (uops first), other loads data, stores go to result.

    ``regions`` overrides the region of single instructions.
    """
    relocations = np.full(len(instructions), NO_REGION, np.uint8)
    for index, instruction in enumerate(instructions):
        if isinstance(instruction, Load):
            is_uop = instruction.memory_type is MemoryType.UOP
            relocations[index] = REGIONS["consts" if is_uop else "data"]
        elif isinstance(instruction, Store):
            relocations[index] = REGIONS["result"]
    for index, name in (regions or {}).items():
        relocations[index] = REGIONS.get(name, NO_REGION)
    content = encode_uops(accelerator, uops).tobytes() + consts
    return Program(
        accelerator=accelerator,
        instructions=encode(accelerator, instructions),
        relocations=relocations,
        regions=(
            Region(name="consts", bytes=len(content), kind=RegionKind.CONST),
            Region(name="data", bytes=REGION_BYTES, kind=RegionKind.INPUT),
            Region(name="scratch", bytes=REGION_BYTES, kind=RegionKind.SCRATCH),
            Region(name="result", bytes=REGION_BYTES, kind=RegionKind.OUTPUT),
        ),
        consts=content,
        layers=(LayerSpan(name="conv_1", first=0, count=len(instructions)),),
    )


def product_uops(count: int = 16) -> list[Uop]:
    """Return uops for ``acc[i] += inp[i] . wgt[0]``, for ``count`` elements."""
    return [Uop(dst=i, src=i) for i in range(count)]


def product_instructions() -> list[Instruction]:
    """Sixteen inputs times one weight block, shifted and stored: the smallest useful program."""
    return [
        Load(memory_type=MemoryType.UOP, sram_base=0, dram_base=0, x_size=16),
        Load(memory_type=MemoryType.INP, sram_base=0, dram_base=0, x_size=16),
        Load(memory_type=MemoryType.WGT, sram_base=0, dram_base=1, x_size=1, push_next=True),
        Gemm(uop_bgn=0, uop_end=16, reset=True, pop_prev=True),
        Gemm(uop_bgn=0, uop_end=16),
        Alu(alu_opcode=AluOp.SHR, uop_bgn=0, uop_end=16, use_imm=True, imm=7, push_next=True),
        Store(sram_base=0, dram_base=0, x_size=16, pop_prev=True, push_prev=True),
        Finish(pop_next=True),
    ]


def changed(
    instructions: Sequence[Instruction], changes: Mapping[int, Mapping[str, Any]]
) -> list[Instruction]:
    """Return the instructions with fields of some of them changed."""
    return [replace(one, **changes.get(index, {})) for index, one in enumerate(instructions)]
