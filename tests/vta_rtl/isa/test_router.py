"""An instruction goes to the module that the codec's table names."""

from __future__ import annotations

import pytest
from amaranth.sim import SimulatorContext
from hypothesis import given, settings
from hypothesis import strategies as st
from instruction_records import record_strategy
from rtl_simulation import settle

from vta_rtl.isa.router import InstructionRouter
from vta_stages.accelerator import Accelerator
from vta_stages.isa.codec import decode_table
from vta_stages.isa.instruction_buffer import encode
from vta_stages.isa.instructions import Module, Opcode


@pytest.mark.parametrize("revision", ["0.0.1", "0.0.2"])
@settings(max_examples=20)  # each builds a simulation
@given(drawn=st.data())
def test_an_instruction_goes_to_the_module_that_runs_it(
    revision: str, drawn: st.DataObject
) -> None:
    target = Accelerator(revision=revision)
    anything = st.one_of([record_strategy(target, opcode) for opcode in Opcode])
    words = encode(target, drawn.draw(st.lists(anything, min_size=1, max_size=8)))
    router = InstructionRouter(target)

    async def check(ctx: SimulatorContext) -> None:
        found = []
        for low, high in words.tolist():
            ctx.set(router.instruction, high << 64 | low)
            found.append(ctx.get(router.module))
        assert found == decode_table(target, words).modules.tolist()

    settle(router, check)


@pytest.mark.parametrize("opcode", [5, 6, 7])
def test_an_unknown_opcode_goes_to_compute(opcode: int) -> None:
    router = InstructionRouter(Accelerator())

    async def check(ctx: SimulatorContext) -> None:
        ctx.set(router.instruction, opcode | Module.STORE << 7)
        assert ctx.get(router.module) == Module.COMPUTE

    settle(router, check)
