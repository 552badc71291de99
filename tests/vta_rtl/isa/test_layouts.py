"""The hardware reads from the codec's bytes what was written to them."""

from __future__ import annotations

import pytest
from accelerators import FOUR_BY_EIGHT
from amaranth.hdl import Module, Signal
from amaranth.lib import data
from amaranth.sim import SimulatorContext
from hypothesis import given, settings
from hypothesis import strategies as st
from instruction_records import ACCELERATORS, name_of, record_strategy
from rtl_simulation import settle

from vta_rtl.isa.layouts import INSTRUCTION_BITS, head_layout, instruction_layout, uop_layout
from vta_stages.accelerator import Accelerator
from vta_stages.isa.codec import decode_uops, encode_uops
from vta_stages.isa.fields import instruction_fields
from vta_stages.isa.instruction_buffer import encode
from vta_stages.isa.instructions import TOKEN_FLAGS, Opcode


@pytest.mark.parametrize("opcode", list(Opcode))
@pytest.mark.parametrize("target", ACCELERATORS, ids=name_of)
@settings(max_examples=20)  # each builds a simulation
@given(drawn=st.data())
def test_an_instruction_has_the_fields_of_its_record(
    target: Accelerator, opcode: Opcode, drawn: st.DataObject
) -> None:
    program = drawn.draw(st.lists(record_strategy(target, opcode), min_size=1, max_size=4))
    bits = Signal(INSTRUCTION_BITS)
    view = data.View(instruction_layout(target, opcode), bits)
    fields = instruction_fields(target)[opcode]

    async def check(ctx: SimulatorContext) -> None:
        for record, (low, high) in zip(program, encode(target, program).tolist(), strict=True):
            ctx.set(bits, high << 64 | low)
            assert ctx.get(view.opcode) == opcode
            for flag in TOKEN_FLAGS:
                assert ctx.get(getattr(view, flag)) == getattr(record, flag), flag
            for field in fields:
                expected = getattr(record, field.part_of or field.name, field.constant)
                if field.part_of:
                    expected >>= field.part_low_bit
                elif field.name in {f.part_of for f in fields}:
                    expected &= field.maximum
                assert ctx.get(getattr(view, field.name)) == expected, field.name

    settle(Module(), check)


def test_the_head_is_that_of_every_instruction() -> None:
    head = head_layout()
    assert set(head.fields) == {"opcode", *TOKEN_FLAGS}
    for opcode in Opcode:
        layout = instruction_layout(Accelerator(), opcode)
        assert all(layout[name] == head[name] for name in head.fields)


@pytest.mark.parametrize("target", [Accelerator(), FOUR_BY_EIGHT], ids=["1x16", "4x8"])
@settings(max_examples=20)
@given(st.lists(st.integers(0, (1 << 32) - 1), min_size=1))
def test_a_uop_has_the_fields_that_the_codec_gives(target: Accelerator, words: list[int]) -> None:
    bits = Signal(32)
    view = data.View(uop_layout(target), bits)

    async def check(ctx: SimulatorContext) -> None:
        for word in words:
            ctx.set(bits, word)
            found = [ctx.get(view.dst), ctx.get(view.src), ctx.get(view.wgt)]
            assert found == decode_uops(target, [word])[0].tolist()
            defined = int(encode_uops(target, decode_uops(target, [word]))[0])
            assert defined & word == defined

    settle(Module(), check)
