"""ALU instructions in hardware give numpy's integers, at one step a cycle if the banks allow it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from accelerators import ALL_EXTENSIONS, FOUR_BY_EIGHT
from engine_on_buffers import SMALL, Contents, run_in_numpy, run_on_engine
from numpy.typing import NDArray

from vta_rtl.compute.engine import latency_cycles
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import EXTENSIONS, Alu, AluOp, Gemm, alu_operations

ELEMENTS = 64
LEAST, MOST = -(1 << 31), (1 << 31) - 1


def contents_of_shifts_and_limits(draw: np.random.Generator, accelerator: Accelerator) -> Contents:
    """Draw accumulators that include shifts of every size and the ends of int32."""
    contents = Contents.full_range(draw, accelerator, ELEMENTS)
    contents.acc[:16] = draw.integers(-40, 41, contents.acc[:16].shape)
    contents.acc[16:24] = draw.choice([LEAST, LEAST + 1, -1, 0, MOST], contents.acc[16:24].shape)
    return contents


def same(found: Contents, expected: Contents) -> None:
    np.testing.assert_array_equal(found.acc, expected.acc)
    np.testing.assert_array_equal(found.out, expected.out)


def with_operation(accelerator: Accelerator, operation: AluOp) -> Accelerator:
    """Return an accelerator with the extension that an operation needs, if any."""
    extension = EXTENSIONS.get(operation)
    return replace(accelerator, extensions=(extension,) if extension else ())


@pytest.mark.parametrize("operation", list(AluOp))
@pytest.mark.parametrize("revision", ["0.0.1", "0.0.2"])
def test_an_operation_with_a_vector_is_numpys(operation: AluOp, revision: str) -> None:
    accelerator = with_operation(replace(SMALL, revision=revision), operation)
    contents = contents_of_shifts_and_limits(np.random.default_rng(operation), accelerator)
    program = [
        Alu(alu_opcode=operation, uop_bgn=n, uop_end=n + ELEMENTS // 4, imm=imm)
        for n, imm in zip(range(0, ELEMENTS, ELEMENTS // 4), (0, 0x7F80, -1, -0x7F), strict=True)
    ]
    found, _ = run_on_engine(accelerator, contents, program)
    same(found, run_in_numpy(accelerator, contents, program))


@pytest.mark.parametrize("operation", list(AluOp))
@pytest.mark.parametrize("revision", ["0.0.1", "0.0.2"])
def test_an_operation_with_an_immediate_is_numpys(operation: AluOp, revision: str) -> None:
    accelerator = with_operation(replace(SMALL, revision=revision), operation)
    contents = contents_of_shifts_and_limits(np.random.default_rng(7), accelerator)
    immediates = [*range(-33, 34, 3), -16, 15, 16, -32768, 32767]
    program = [
        Alu(alu_opcode=operation, uop_bgn=n, uop_end=n + 2, use_imm=True, imm=immediate)
        for n, immediate in enumerate(immediates)
    ]
    found, _ = run_on_engine(accelerator, contents, program)
    same(found, run_in_numpy(accelerator, contents, program))


@pytest.mark.parametrize(
    ("shift", "expected"),
    [(0, -5), (1, -3), (15, -1), (16, -5 << 16), (-16, -5 << 16), (-1, -10), (31, -10), (32, -5)],
)
def test_a_shift_is_the_low_5_bits_as_a_signed_number(shift: int, expected: int) -> None:
    accelerator = SMALL
    contents = Contents.full_range(np.random.default_rng(8), accelerator, 2)
    contents.uop[...] = 0
    contents.acc[0] = -5
    shifted = Alu(alu_opcode=AluOp.SHR, uop_bgn=0, uop_end=1, use_imm=True, imm=shift)
    found, _ = run_on_engine(accelerator, contents, [shifted])
    np.testing.assert_array_equal(found.acc[0], np.full_like(found.acc[0], expected))


@pytest.mark.parametrize(
    "accelerator",
    [Accelerator(), FOUR_BY_EIGHT, replace(Accelerator(), extensions=ALL_EXTENSIONS)],
    ids=["1x16", "4x8", "1x16-extended"],
)
def test_a_step_sees_the_results_of_the_steps_before_it(accelerator: Accelerator) -> None:
    draw = np.random.default_rng(9)
    contents = contents_of_shifts_and_limits(draw, accelerator)
    contents.uop[:, :2] = draw.integers(0, 4, (ELEMENTS, 2))  # src is often a dst just written
    program = [
        Alu(
            alu_opcode=AluOp(draw.choice(alu_operations(accelerator))), uop_bgn=0, uop_end=40,
            iter_out=2, iter_in=2, dst_factor_in=1, src_factor_out=1,
            use_imm=bool(draw.random() < 0.3), imm=-3, reset=bool(draw.random() < 0.3),
        )
        for _ in range(5)
    ]  # fmt: skip
    found, _ = run_on_engine(accelerator, contents, program)
    same(found, run_in_numpy(accelerator, contents, program))


def test_products_and_operations_follow_each_other() -> None:
    accelerator = Accelerator(revision="0.0.2")
    contents = Contents.full_range(np.random.default_rng(10), accelerator, ELEMENTS)
    program = [
        Gemm(uop_bgn=0, uop_end=32, reset=True),
        Gemm(uop_bgn=0, uop_end=32),
        Alu(alu_opcode=AluOp.SHR, uop_bgn=0, uop_end=32, use_imm=True, imm=7),
        Alu(alu_opcode=AluOp.MAX, uop_bgn=0, uop_end=32, use_imm=True, imm=0),
        Alu(alu_opcode=AluOp.MIN, uop_bgn=0, uop_end=32, use_imm=True, imm=127),
    ]
    found, _ = run_on_engine(accelerator, contents, program)
    same(found, run_in_numpy(accelerator, contents, program))


@pytest.mark.parametrize("use_imm", [True, False])
def test_an_operation_takes_a_cycle_a_step(use_imm: bool) -> None:
    accelerator = SMALL
    contents = Contents.full_range(np.random.default_rng(11), accelerator, ELEMENTS)
    contents.uop[...] = 0
    program = [
        Alu(alu_opcode=AluOp.ADD, uop_bgn=0, uop_end=n, iter_in=2, use_imm=use_imm)
        for n in (1, 7, 40)
    ]
    _, cycles = run_on_engine(accelerator, contents, program)
    assert cycles == [2 * n + latency_cycles(accelerator) for n in (1, 7, 40)]


STEPS = np.arange(ELEMENTS // 2)


@pytest.mark.parametrize(
    ("dst", "src", "most"),
    [
        (STEPS, STEPS + ELEMENTS // 2, 1.0),
        (STEPS, STEPS[::-1] + ELEMENTS // 2 - 1, 1.0),
        (STEPS + 1, STEPS, 1.0),
        (2 * STEPS, 2 * STEPS + 1, 1.0),
        (2 * STEPS, 2 * STEPS[::-1], 2.0),
    ],
    ids=["even distance", "reversed", "chain", "strides in two banks", "strides in one bank"],
)
def test_a_step_waits_only_for_a_bank_that_it_needs_twice_and_a_result_once(
    dst: NDArray[np.int64], src: NDArray[np.int64], most: float
) -> None:
    contents = Contents.full_range(np.random.default_rng(12), SMALL, ELEMENTS)
    contents.uop[: len(dst), 0] = dst
    contents.uop[: len(dst), 1] = src
    program = [Alu(alu_opcode=AluOp.ADD, uop_bgn=0, uop_end=len(dst), iter_in=5)]
    found, (cycles,) = run_on_engine(SMALL, contents, program)
    same(found, run_in_numpy(SMALL, contents, program))
    steps = 5 * len(dst)
    assert 1.0 * steps <= cycles - latency_cycles(SMALL) <= most * steps
