"""The operations of extensions, lane by lane, for all values of their operands."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from accelerators import ALL_EXTENSIONS
from amaranth.hdl import Fragment
from amaranth.sim import SimulatorContext
from engine_on_buffers import SMALL, leaked, requantised
from rtl_simulation import settle

from vta_rtl.compute.extended_alu import ExtendedAlu, alu_of
from vta_rtl.compute.vector_alu import VectorAlu
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instruction_buffer import encode
from vta_stages.isa.instructions import (
    REQUANTISING,
    Alu,
    AluOp,
    requantise_bounds,
    requantise_immediate,
    requantise_operand,
)

EXTENDED = replace(SMALL, extensions=ALL_EXTENSIONS)
Case = tuple[bool, int, list[int], list[int]]
"""Whether an instruction has an immediate, its immediate, and the lanes of dst and src."""


def random_cases(seed: int, count: int) -> list[Case]:
    """Draw operands over the full range, near 0 and at the ends, and immediates of all kinds."""
    draw = np.random.default_rng(seed)
    cases = []
    for _ in range(count):
        full = draw.integers(-(1 << 31), 1 << 31, (2, 4))
        near = draw.integers(-300, 301, (2, 4))
        ends = draw.choice([-(1 << 31), -(1 << 31) + 1, -1, 0, 1, (1 << 31) - 1], (2, 4))
        dst, src = np.choose(draw.integers(0, 3, (2, 4)), (full, near, ends)).tolist()
        low, high = draw.choice([(-128, 127), (0, 127), (0, 6), (-5, 100), (3, -3)])
        any_imm = int(draw.integers(-(1 << 15), 1 << 15))
        imm = requantise_bounds(int(low), int(high)) if draw.random() < 0.6 else any_imm
        cases.append((bool(draw.random() < 0.5), imm, dst, src))
    return cases


def results(
    accelerator: Accelerator, cases: list[tuple[Alu, list[int], list[int]]]
) -> list[list[int]]:
    """Return the lanes that the circuit gives for instructions, dst and src."""
    alu = alu_of(accelerator)
    found = []

    async def check(ctx: SimulatorContext) -> None:
        for instruction, dst, src in cases:
            low, high = encode(accelerator, [instruction])[0].tolist()
            ctx.set(alu.instruction, high << 64 | low)
            ctx.set(alu.dst, dst)
            ctx.set(alu.src, src)
            found.append([ctx.get(alu.result[lane]) for lane in range(len(dst))])

    settle(alu, check)
    return found


def operation(op: AluOp, *, use_imm: bool, imm: int) -> Alu:
    return Alu(alu_opcode=op, uop_bgn=0, uop_end=1, use_imm=use_imm, imm=imm)


@pytest.mark.parametrize("op", sorted(REQUANTISING))
@pytest.mark.parametrize("revision", ["0.0.1", "0.0.2"])
def test_requantise_adds_shifts_and_clips(revision: str, op: AluOp) -> None:
    cases = random_cases(1, 60)
    programs = [
        (operation(op, use_imm=use_imm, imm=imm), dst, src) for use_imm, imm, dst, src in cases
    ]
    expected = [
        requantised(np.array(dst), np.array(src), imm, use_imm=use_imm).tolist()
        for use_imm, imm, dst, src in cases
    ]
    assert results(replace(EXTENDED, revision=revision), programs) == expected


@pytest.mark.parametrize("revision", ["0.0.1", "0.0.2"])
def test_leaky_shifts_twice_and_takes_the_larger(revision: str) -> None:
    cases = random_cases(4, 60)
    programs = [
        (operation(AluOp.LEAKY, use_imm=use_imm, imm=imm), dst, src)
        for use_imm, imm, dst, src in cases
    ]
    expected = [
        leaked(np.array(dst), np.array(src), imm, use_imm=use_imm).tolist()
        for use_imm, imm, dst, src in cases
    ]
    assert results(replace(EXTENDED, revision=revision), programs) == expected


@pytest.mark.parametrize("revision", ["0.0.1", "0.0.2"])
def test_multiply_takes_the_low_16_bits(revision: str) -> None:
    cases = random_cases(2, 30)
    programs = [
        (operation(AluOp.MULTIPLY, use_imm=use_imm, imm=imm), dst, src)
        for use_imm, imm, dst, src in cases
    ]

    def int16(value: int) -> int:
        return (value + (1 << 15)) % (1 << 16) - (1 << 15)

    expected = [
        [int16(a) * (imm if use_imm else int16(b)) for a, b in zip(dst, src, strict=True)]
        for use_imm, imm, dst, src in cases
    ]
    assert results(replace(EXTENDED, revision=revision), programs) == expected


@pytest.mark.parametrize(("low", "high"), [(-128, 127), (0, 127), (0, 6), (-5, 100)])
def test_one_requantise_is_an_addition_a_shift_and_two_clips(low: int, high: int) -> None:
    """As the operations of every accelerator are, in numpy: what the compiler replaces by it."""
    programs, expected = [], []
    for shift, (_, _, acc, bias) in enumerate(random_cases(3, 32)):
        constant = np.array(bias) >> 5
        operand = requantise_operand(constant, np.full(len(bias), shift))
        imm = requantise_bounds(low, high)
        programs.append(
            (operation(AluOp.REQUANTISE, use_imm=False, imm=imm), acc, operand.tolist())
        )
        total = (np.array(acc) + constant + (1 << 31)) % (1 << 32) - (1 << 31)
        expected.append(np.clip(total >> shift, low, high).tolist())
        if low % 32 == 0:
            imm = requantise_immediate(shift, low, high)
            programs.append((operation(AluOp.REQUANTISE, use_imm=True, imm=imm), acc, bias))
            expected.append(np.clip(np.array(acc) >> shift, low, high).tolist())
    assert results(EXTENDED, programs) == expected


def test_only_an_accelerator_with_extensions_has_more_than_upstreams_alu() -> None:
    kinds = {}
    for accelerator in (SMALL, EXTENDED):
        alu = kinds[accelerator.extensions] = alu_of(accelerator)
        Fragment.get(alu, None)
    assert [type(alu) for alu in kinds.values()] == [VectorAlu, ExtendedAlu]
    lone = replace(SMALL, extensions=("multiply",))
    product = (operation(AluOp.MULTIPLY, use_imm=False, imm=0), [3, -7, 0, 1], [5, 6, 7, -8])
    assert results(lone, [product]) == [[15, -42, 0, -8]]
