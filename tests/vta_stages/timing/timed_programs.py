"""Programs of a few instructions, timed."""

from __future__ import annotations

from collections.abc import Callable

from compiler_support import STOCK

from vta_stages.accelerator import Accelerator
from vta_stages.isa.instruction_buffer import InstructionBuffer
from vta_stages.program import Program
from vta_stages.timing.cost_model import CostModel
from vta_stages.timing.timing_model import Timing, time_program

Emit = Callable[[InstructionBuffer], object]


def timed(emit: Emit, *, accelerator: Accelerator = STOCK, cost: CostModel | None = None) -> Timing:
    """Time what ``emit`` adds to an empty program."""
    return time_program(program_of(emit, accelerator), cost)


def program_of(emit: Emit, accelerator: Accelerator = STOCK) -> Program:
    """Return what ``emit`` adds to an empty program."""
    buffer = InstructionBuffer(accelerator)
    emit(buffer)
    buffer.finish()
    return Program(
        accelerator=accelerator,
        instructions=buffer.encode(),
        relocations=buffer.relocations,
        regions=(),
        consts=b"",
    )
