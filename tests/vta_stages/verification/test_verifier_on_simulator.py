"""The strict simulator runs every program that the verifier accepts."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_programs import REGION_BYTES, STOCK, make_program, product_instructions, product_uops

from edgepipe.errors import RuntimeFailure
from edgepipe.runtime.simulator import Simulator
from vta_stages.errors import EncodingError, VerificationError
from vta_stages.isa.instruction_buffer import encode
from vta_stages.isa.instructions import AluOp, Instruction, MemoryType, alu_operations
from vta_stages.program import Program
from vta_stages.verification.verifier import verify

pytestmark = pytest.mark.sim

STEPS = st.sampled_from([-16, -8, -2, -1, 1, 2, 8, 16])


@st.composite
def damaged_instructions(draw: st.DrawFn) -> list[Instruction]:
    """Draw the smallest useful program with small changes to up to three fields."""
    program = product_instructions()
    for _ in range(draw(st.integers(1, 3))):
        index = draw(st.integers(0, len(program) - 1))
        name = draw(st.sampled_from([field.name for field in fields(program[index])]))
        value = getattr(program[index], name)
        changed: object
        if isinstance(value, bool):
            changed = not value
        elif isinstance(value, MemoryType):
            changed = draw(st.sampled_from(list(MemoryType)[:4]))
        elif isinstance(value, AluOp):
            changed = draw(st.sampled_from(alu_operations(STOCK)))
        else:
            changed = value + draw(STEPS)
        program[index] = replace(program[index], **{name: changed})
    return program


def run(program: Program) -> None:
    with Simulator(STOCK, arena_bytes=1 << 20) as simulator:
        simulator.run_program(program, {"data": np.zeros(REGION_BYTES, np.uint8)})


@settings(max_examples=300, deadline=None)
@given(damaged_instructions())
def test_an_accepted_program_runs(instructions: list[Instruction]) -> None:
    try:
        encode(STOCK, instructions)
    except EncodingError:
        return
    program = make_program(instructions, product_uops())
    try:
        verify(program)
    except (VerificationError, EncodingError):
        return
    run(program)


@pytest.mark.parametrize("rows", [0, 2])
def test_both_refuse_a_uop_load_that_is_not_one_row(rows: int) -> None:
    instructions = product_instructions()
    instructions[0] = replace(instructions[0], y_size=rows)  # type: ignore[call-arg]
    program = make_program(instructions, product_uops())
    with pytest.raises(VerificationError, match=r"expected (1|x_size and y_size of at least 1)"):
        verify(program)
    with pytest.raises(RuntimeFailure, match=f"{rows} rows of uops, a UOP load has one"):
        run(program)
