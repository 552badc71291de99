"""On edgepipe's own hardware, loads of weights overlap with loads of inputs."""

from __future__ import annotations

import pytest
from compiler_support import STOCK
from timed_programs import program_of, timed

from vta_stages.isa.instruction_buffer import InstructionBuffer
from vta_stages.isa.instructions import MemoryType, Module, Token
from vta_stages.timing.rtl_costs import rtl_costs, time_on_rtl
from vta_stages.timing.timing_model import Timing

COST = rtl_costs(STOCK)
INP, WGT = MemoryType.INP, MemoryType.WGT
ELEMENTS = {INP: 64, WGT: 4}
"""As many bytes of each: 1 KiB."""


def on_rtl(*kinds: MemoryType, uses: bool = False) -> Timing:
    """Return the timing of loads; with ``uses``, a GEMM waits for a token of the last one."""

    def emit(buffer: InstructionBuffer) -> None:
        for kind in kinds:
            last = buffer.load(kind, sram_base=0, dram_base=0, x_size=ELEMENTS[kind])
        if uses:
            buffer.add_tokens(last, Token.PUSH_NEXT)
            buffer.gemm(0, 1, reset=True, tokens=Token.POP_PREV)

    return time_on_rtl(program_of(emit), COST)


def load_cycles(*kinds: MemoryType) -> int:
    """Return how long a GEMM waits for loads, up to the few cycles of its own way to compute."""
    return on_rtl(*kinds, uses=True).modules[Module.COMPUTE].previous_cycles


def test_two_kinds_share_one_latency_and_the_memory() -> None:
    alone, moving = load_cycles(INP), COST.port_cycles(1024)
    assert load_cycles(INP, WGT) == pytest.approx(alone + moving, abs=4)
    assert load_cycles(INP, INP) == pytest.approx(2 * alone, abs=4)


def test_a_token_waits_for_all_loads_before_it() -> None:
    assert load_cycles(INP, INP, INP, WGT) >= load_cycles(INP, INP, INP) - 4


def test_work_that_overlaps_is_counted_once() -> None:
    timing = on_rtl(*[INP, WGT] * 20)
    assert timing.modules[Module.LOAD].busy_cycles < timing.cycles


def test_on_the_published_hardware_they_run_one_after_the_other() -> None:
    def busy(*kinds: MemoryType) -> int:
        def emit(buffer: InstructionBuffer) -> None:
            for kind in kinds:
                buffer.load(kind, sram_base=0, dram_base=0, x_size=ELEMENTS[kind])

        return timed(emit).modules[Module.LOAD].busy_cycles

    assert busy(INP, WGT) == busy(INP) + busy(WGT)
