"""The costs of upstream's Chisel VTA against the cycles of its RTL, instruction by instruction.

The cycles were counted in a simulation of the generated Verilog, with a memory that delivers 8
bytes a cycle after 50 cycles, and are those beyond an empty program.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from timed_programs import Emit, timed

from edgepipe import boards
from vta_stages.isa.instructions import AluOp, MemoryType, Module
from vta_stages.timing.cost_model import CostModel

ROOT = Path(__file__).resolve().parents[3]
BOARD = boards.load(str(ROOT / "examples/own_board/chisel_vta.toml"))


def cycles(emit: Emit, module: Module, cost: CostModel = BOARD.timing) -> int:
    """Return the cycles of one instruction in its module, beyond those of an empty program."""

    def busy(each: Emit) -> int:
        timing = timed(each, accelerator=BOARD.accelerator, cost=cost)
        return timing.modules[module].busy_cycles

    return busy(emit) - busy(lambda _: None)


def load(memory: MemoryType, elements: int, rows: int = 1) -> Emit:
    return lambda buffer: buffer.load(
        memory, sram_base=0, dram_base=0, y_size=rows, x_size=elements, x_stride=elements
    )


def store(rows: int, elements: int) -> Emit:
    return lambda buffer: buffer.store(
        sram_base=0, dram_base=0, y_size=rows, x_size=elements, x_stride=elements
    )


def gemm(steps: int, iterations: int = 1, *, reset: bool = False) -> Emit:
    return lambda buffer: buffer.gemm(0, steps // iterations, reset=reset, iter_out=iterations)


def alu(steps: int, imm: int | None) -> Emit:
    return lambda buffer: buffer.alu(AluOp.ADD, 0, steps, imm=imm)


@pytest.mark.parametrize(("emit", "module", "counted"), [
    (gemm(16), Module.COMPUTE, 25),
    (gemm(256), Module.COMPUTE, 265),
    (gemm(256, 64), Module.COMPUTE, 265),  # however the loops are cut
    (gemm(256, reset=True), Module.COMPUTE, 265),
    (alu(16, 1), Module.COMPUTE, 25),
    (alu(256, 1), Module.COMPUTE, 265),
    (alu(16, None), Module.COMPUTE, 41),
    (alu(256, None), Module.COMPUTE, 521),
    (load(MemoryType.UOP, 1), Module.COMPUTE, 57),
    (load(MemoryType.UOP, 64), Module.COMPUTE, 88),
    (load(MemoryType.UOP, 512), Module.COMPUTE, 312),
    (load(MemoryType.ACC, 1), Module.COMPUTE, 65),
    (load(MemoryType.ACC, 16), Module.COMPUTE, 185),
    (load(MemoryType.ACC, 256), Module.COMPUTE, 2105),
    (load(MemoryType.INP, 1), Module.LOAD, 69),
    (load(MemoryType.INP, 16), Module.LOAD, 99),
    (load(MemoryType.INP, 256), Module.LOAD, 579),
    (load(MemoryType.INP, 1024), Module.LOAD, 2115),
    (load(MemoryType.WGT, 1), Module.LOAD, 99),
    (load(MemoryType.WGT, 16), Module.LOAD, 579),
    (load(MemoryType.WGT, 256), Module.LOAD, 8259),
    (load(MemoryType.INP, 16, rows=8), Module.LOAD, 323),
    (load(MemoryType.INP, 16, rows=32), Module.LOAD, 1091),
    (store(1, 16), Module.STORE, 112),
    (store(1, 256), Module.STORE, 883),
    (store(8, 32), Module.STORE, 1189),
    (store(32, 8), Module.STORE, 2413),
])  # fmt: skip
def test_an_instruction_takes_what_the_rtl_takes(emit: Emit, module: Module, counted: int) -> None:
    assert cycles(emit, module) == pytest.approx(counted, rel=0.03)


def test_without_rows_in_flight_each_row_waits() -> None:
    alone = dataclasses.replace(BOARD.timing, load_rows=1)
    assert cycles(load(MemoryType.INP, 16, rows=8), Module.LOAD, alone) == 9 + 10 + 8 * (48 + 32)


def test_few_rows_in_flight_hide_part_of_the_latency() -> None:
    """Row 2 is requested when row 0 has ended, and comes 48 cycles later: row 1 takes 32 of them.

    Rows end at 80, 112, 160 and 192 cycles after the first request.
    """
    two = dataclasses.replace(BOARD.timing, load_rows=2)
    assert cycles(load(MemoryType.INP, 16, rows=4), Module.LOAD, two) == 9 + 10 + 192


def test_costs_of_other_accelerators_are_off_by_default() -> None:
    cost = CostModel()
    assert cost.vector_step_cycles == cost.alu_step_cycles
    assert cost.store_row_latency(4096) == cost.dma_row_cycles
    assert cost.load_latency(7, 2) == 7 * cost.dma_row_cycles


def test_an_estimate_of_rows_in_flight_lies_between_none_and_all() -> None:
    assert BOARD.timing.load_latency(17, 1) == (1 + 16 / 16) * 48
    assert BOARD.timing.load_latency(1, 1) == 48
