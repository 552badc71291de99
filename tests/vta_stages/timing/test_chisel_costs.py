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
from vta_stages.isa.instruction_buffer import InstructionBuffer
from vta_stages.isa.instructions import AluOp, MemoryType, Module
from vta_stages.timing.cost_model import CostModel
from vta_stages.timing.timing_model import Timing

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


def test_without_reads_in_flight_each_row_waits() -> None:
    alone = dataclasses.replace(BOARD.timing, reads_in_flight=0)
    assert cycles(load(MemoryType.INP, 16, rows=8), Module.LOAD, alone) == 9 + 10 + 8 * (48 + 32)


def test_few_reads_in_flight_hide_part_of_the_latency() -> None:
    """Four rows of 256 bytes are eight requests, of which two are unanswered at a time.

    The first two are answered at 64 and 80 cycles after the first request. Request 2 is taken at
    64, and its 16 cycles of bytes end 48 + 16 later: a pair of requests takes 64 cycles.
    """
    two = dataclasses.replace(BOARD.timing, reads_in_flight=2)
    assert cycles(load(MemoryType.INP, 16, rows=4), Module.LOAD, two) == 9 + 10 + 80 + 3 * 64


def timing_of(*emits: Emit, cost: CostModel = BOARD.timing) -> Timing:
    """Time a program of several instructions."""

    def emit(buffer: InstructionBuffer) -> None:
        for each in emits:
            each(buffer)

    return timed(emit, accelerator=BOARD.accelerator, cost=cost)


def test_the_requests_of_load_go_first() -> None:
    """A load of 40 requests keeps the port from uops that are asked for some 15 cycles later.

    Alone, their bytes would come 9 + 16 cycles of the GEMM, 9 and 48 after the start. They come
    after those of all 40 requests, because 16 are unanswered by then and load is first.
    """
    timing = timing_of(load(MemoryType.INP, 320), gemm(16), load(MemoryType.UOP, 8))
    loaded = timing.modules[Module.LOAD]
    assert loaded.busy_cycles == 9 + 10 + 48 + 40 * 16
    assert loaded.port_cycles == 0
    waited = loaded.busy_cycles - (9 + 16 + 9 + 48)
    assert timing.modules[Module.COMPUTE].port_cycles == pytest.approx(waited, abs=4)


def test_stores_and_loads_do_not_wait_for_each_other() -> None:
    both = timing_of(store(4, 64), load(MemoryType.INP, 320))
    assert [both.modules[m].port_cycles for m in Module] == [0, 0, 0]
    serial = timing_of(
        store(4, 64),
        load(MemoryType.INP, 320),
        cost=dataclasses.replace(BOARD.timing, reads_in_flight=0),
    )
    assert serial.modules[Module.LOAD].port_cycles > 0


def test_costs_of_other_accelerators_are_off_by_default() -> None:
    cost = CostModel()
    assert cost.vector_step_cycles == cost.alu_step_cycles
    assert cost.store_row_latency(4096) == cost.dma_row_cycles
    assert cost.load_latency(7, 2) == 7 * cost.dma_row_cycles


def test_an_estimate_of_reads_in_flight_lies_between_none_and_all() -> None:
    assert BOARD.timing.load_latency(17, 1) == (1 + 16 / 16) * 48
    assert BOARD.timing.load_latency(1, 1) == 48
