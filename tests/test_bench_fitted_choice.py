"""What choosing by fitted costs changes: the counts of a program's work, and of a split."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import cast

import numpy as np

from bench import fitted_choice, networks
from bench.predicted import BOARD, COSTS
from edgepipe.forecast import Forecast
from vta_stages.compiler import compile_program
from vta_stages.isa.codec import NO_REGION
from vta_stages.isa.instruction_buffer import InstructionBuffer
from vta_stages.isa.instructions import AluOp, MemoryType
from vta_stages.program import Program
from vta_stages.timing.timing_model import time_program


def test_the_work_of_a_program_is_counted() -> None:
    """Loads of uops are one row; a GEMM of 2x3 iterations and an ALU pass of 4, of 5 uops each."""
    buffer = InstructionBuffer(BOARD.accelerator)
    buffer.load(MemoryType.UOP, sram_base=0, dram_base=0, x_size=5)
    buffer.load(MemoryType.INP, sram_base=0, dram_base=0, y_size=7, x_size=2, x_stride=2)
    buffer.gemm(0, 5, reset=True, iter_out=2, iter_in=3)
    buffer.alu(AluOp.ADD, 0, 5, imm=1, iter_in=4)
    buffer.store(sram_base=0, dram_base=0, y_size=3, x_size=4, x_stride=4)
    buffer.finish()
    words = buffer.encode()
    program = Program(
        accelerator=BOARD.accelerator,
        instructions=words,
        relocations=np.full(len(words), NO_REGION, np.uint8),
        regions=(),
        consts=b"",
    )
    found = fitted_choice.Work.of(program)
    assert dataclasses.replace(found, cycles=0) == fitted_choice.Work(
        cycles=0,
        instructions=6,
        gemm_steps=30,
        alu_steps=20,
        iterations=10,
        dma_rows=1 + 7 + 3,
        dma_bytes=5 * 4 + 14 * 16 + 12 * 16,
    )
    assert found.cycles == time_program(program, BOARD.timing).cycles


def test_both_choices_are_compared_by_the_fitted_costs() -> None:
    """The layer has other tilings by the fitted costs, and both programs have the same products."""
    layer = networks.RESNET18_LAYERS["C3"]()
    works = {
        costs: fitted_choice.Work.of(
            compile_program(
                BOARD.accelerator, layer.layers, layer.inputs, layer.outputs, cost=COSTS[costs]
            )
        )
        for costs in fitted_choice.CHOSEN_BY
    }
    assert works["optimistic"] != works["fitted"]
    assert works["optimistic"].alu_steps == works["fitted"].alu_steps


def test_each_stage_of_the_accelerator_is_a_launch() -> None:
    stages = [SimpleNamespace(device=device) for device in ("arm", "vta", "arm", "vta", "arm")]
    found = SimpleNamespace(
        stages=stages, vta_ms=10.0, arm_ms=30.0, latency_ms=40.0, interval_ms=12.5
    )
    cells = fitted_choice.split_row("net", "fitted", cast(Forecast, found))
    assert cells == ["net", "fitted", "5", "2", "10.0", "30.0", "25.0", "80.0"]
