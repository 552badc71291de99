"""Each lane of the ALU is the operation in Python's integers, also at the ends of int32."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from amaranth.sim import SimulatorContext
from engine_on_buffers import SMALL
from rtl_simulation import settle

from vta_rtl.compute.vector_alu import VectorAlu
from vta_stages.accelerator import Accelerator
from vta_stages.isa.fields import instruction_fields
from vta_stages.isa.instruction_buffer import encode
from vta_stages.isa.instructions import Alu, AluOp, Opcode

LEAST, MOST = -(1 << 31), (1 << 31) - 1
ENDS = (LEAST, LEAST + 1, -65536, -2, -1, 0, 1, 2, 65535, 65536, MOST - 1, MOST)
IMMEDIATES = (*range(-33, 34), -32768, 32767)


def instruction(accelerator: Accelerator, operation: AluOp, imm: int | None = None) -> int:
    record = Alu(alu_opcode=operation, uop_bgn=0, uop_end=1, use_imm=imm is not None, imm=imm or 0)
    ((low, high),) = encode(accelerator, [record]).tolist()
    return high << 64 | low


def wrapped(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def expected(operation: AluOp, a: int, b: int) -> int:
    if operation is AluOp.MIN:
        return min(a, b)
    if operation is AluOp.MAX:
        return max(a, b)
    if operation is AluOp.ADD:
        return wrapped(a + b)
    distance = (b + 16) % 32 - 16
    return a >> distance if distance >= 0 else wrapped(a << -distance)


@pytest.mark.parametrize("revision", ["0.0.1", "0.0.2"])
@pytest.mark.parametrize("operation", [AluOp.MIN, AluOp.MAX, AluOp.ADD, AluOp.SHR])
def test_a_lane_is_the_operation_on_its_operands(operation: AluOp, revision: str) -> None:
    accelerator = replace(SMALL, revision=revision)
    alu, lanes = VectorAlu(accelerator), accelerator.acc_bytes // 4
    draw = random.Random(operation)
    operands = list(itertools.product(ENDS, (*ENDS, *range(-17, 18))))
    operands += [(draw.randint(LEAST, MOST), draw.randint(LEAST, MOST)) for _ in range(200)]
    operands += [(draw.randint(LEAST, MOST), draw.randint(-16, 15)) for _ in range(200)]
    operands += operands[: -len(operands) % lanes]

    async def check(ctx: SimulatorContext) -> None:
        def results(dst: list[int], src: list[int]) -> list[int]:
            ctx.set(alu.dst, dst)
            ctx.set(alu.src, src)
            return [ctx.get(alu.result[lane]) for lane in range(lanes)]

        ctx.set(alu.instruction, instruction(accelerator, operation))
        for n in range(0, len(operands), lanes):
            dst, src = (list(side) for side in zip(*operands[n : n + lanes], strict=True))
            wanted = [expected(operation, a, b) for a, b in zip(dst, src, strict=True)]
            assert results(dst, src) == wanted
        for imm in IMMEDIATES:
            ctx.set(alu.instruction, instruction(accelerator, operation, imm))
            dst = [*ENDS, *(draw.randint(LEAST, MOST) for _ in range(lanes))][-lanes:]
            src = [draw.randint(LEAST, MOST) for _ in range(lanes)]
            assert results(dst, src) == [expected(operation, a, imm) for a in dst]

    settle(alu, check)


@pytest.mark.parametrize("code", [4, 5, 6, 7])
def test_an_unknown_operation_leaves_dst(code: int) -> None:
    accelerator = replace(SMALL, revision="0.0.2")
    alu = VectorAlu(accelerator)
    (field,) = (f for f in instruction_fields(accelerator)[Opcode.ALU] if f.name == "alu_opcode")
    place = 64 * field.word + field.low_bit

    async def check(ctx: SimulatorContext) -> None:
        dst, src = [LEAST, -5, 0, MOST], [3, -4, 17, -1]
        ctx.set(alu.dst, dst)
        ctx.set(alu.src, src)
        ctx.set(alu.instruction, instruction(accelerator, AluOp(0)) | code << place)
        assert [ctx.get(alu.result[lane]) for lane in range(len(dst))] == dst

    settle(alu, check)
