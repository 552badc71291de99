"""The steps of "Add an instruction" in docs/rtl.md, walked through with LEAKY."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from accelerators import ALL_EXTENSIONS
from amaranth.sim import SimulatorContext
from random_programs.generator import random_program
from rtl_simulation import settle

from bench import vta
from bench.networks import Builder, Workload
from vta_rtl.compute.extended_alu import alu_of
from vta_rtl.registers.register_table import Capability, capability_word
from vta_stages.accelerator import Accelerator, Extension
from vta_stages.compiler import compile_program
from vta_stages.isa.codec import decode
from vta_stages.isa.instruction_buffer import encode
from vta_stages.isa.instructions import Alu, AluOp, Opcode, leaky_immediate
from vta_stages.program import Program
from vta_stages.timing.rtl_costs import rtl_costs, time_on_rtl

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/rtl.md").read_text(encoding="utf-8").partition("## Add an instruction")[2]
EXTENDED = Accelerator(acc_hazard_steps=1, extensions=ALL_EXTENSIONS)
WITHOUT = replace(EXTENDED, extensions=tuple(n for n in ALL_EXTENSIONS if n != "leaky"))
TENTH = Alu(
    alu_opcode=AluOp.LEAKY,
    uop_bgn=0,
    uop_end=1,
    use_imm=True,
    imm=leaky_immediate(2, 1, adds=True),
)


def test_every_file_of_a_step_has_the_example_or_says_that_it_needs_none() -> None:
    files = set(re.findall(r"`([\w/]+\.(?:py|cc))`", PAGE))
    assert len(files) > 12
    general = {"vta_stages/isa/fields.py", "vta_rtl/isa/router.py"}
    for name in sorted(files - general):
        assert "leaky" in (ROOT / name).read_text(encoding="utf-8").lower(), name


def test_an_accelerator_says_that_it_has_it() -> None:
    assert EXTENDED.has(Extension.LEAKY)
    assert capability_word(EXTENDED) & Capability.LEAKY
    assert not capability_word(WITHOUT) & Capability.LEAKY


def test_it_is_encoded_decoded_and_documented() -> None:
    words = encode(EXTENDED, [TENTH])
    assert decode(EXTENDED, words) == [TENTH]
    encodings = (ROOT / "vta_rtl/encodings.md").read_text(encoding="utf-8")
    assert "| 7 LEAKY | `leaky` |" in encodings


@pytest.mark.parametrize(("value", "result"), [(1000, 1250), (-1000, -125), (0, 0)])
def test_the_circuit_gives_its_results(value: int, result: int) -> None:
    alu = alu_of(EXTENDED)
    low, high = encode(EXTENDED, [TENTH])[0].tolist()

    async def check(ctx: SimulatorContext) -> None:
        ctx.set(alu.instruction, high << 64 | low)
        ctx.set(alu.dst, [value] * 16)
        assert [ctx.get(alu.result[lane]) for lane in range(16)] == [result] * 16

    settle(alu, check)


def test_random_programs_have_it() -> None:
    programs = (random_program(EXTENDED, seed) for seed in range(20))
    assert any(
        isinstance(i, Alu) and i.alu_opcode is AluOp.LEAKY for p in programs for i in p.instructions
    )


def network() -> Workload:
    build = Builder()
    build.conv(build.tensor("x", 16, 12, 12), 32, 3, leaky=True)
    return build.done("a leaky ReLU")


def operations(program: Program) -> set[int]:
    return set(program.table.columns[Opcode.ALU]["alu_opcode"].tolist())


@pytest.mark.sim
def test_the_compiler_uses_it_with_the_same_bits_in_less_time() -> None:
    workload, cycles = network(), []
    for accelerator in (EXTENDED, WITHOUT):
        program = compile_program(accelerator, workload.layers, workload.inputs, workload.outputs)
        assert (AluOp.LEAKY in operations(program)) == accelerator.has(Extension.LEAKY)
        vta.check_bits(workload, accelerator, program)
        cycles.append(time_on_rtl(program, rtl_costs(accelerator)).cycles)
    assert cycles[0] < cycles[1]
