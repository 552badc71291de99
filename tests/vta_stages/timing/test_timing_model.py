"""The timing model, parameter by parameter, on programs small enough to time by hand.

Fetch brings the first burst at 80 + 2 cycles for an instruction of 16 bytes at 12.8 bytes a cycle;
the k-th instruction of a burst arrives at 80 + ceil(16 k / 12.8).
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from compiler_support import STOCK, check_program, conv, tensor
from timed_programs import timed

from edgepipe import boards
from vta_stages.compiler import compile_program
from vta_stages.errors import AcceleratorError
from vta_stages.isa.instruction_buffer import InstructionBuffer
from vta_stages.isa.instructions import AluOp, MemoryType, Module, Token
from vta_stages.timing.cost_model import CostModel
from vta_stages.timing.timing_model import time_program

FIRST = 80 + 2
"""The time at which the first instruction is in its queue."""


def test_an_empty_program_takes_one_fetch_and_one_instruction() -> None:
    assert timed(lambda buffer: None).cycles == FIRST + 12


def test_a_gemm_step_takes_one_cycle_and_each_iteration_six_more() -> None:
    timing = timed(lambda buffer: buffer.gemm(0, 10, reset=True, iter_out=3, iter_in=4))
    work = 12 + 3 * 4 * (6 + 10)
    assert timing.cycles == FIRST + work + 12
    assert timing.gemm_steps == 120
    assert timing.modules[Module.COMPUTE].busy_cycles == work + 12


def test_an_alu_step_takes_two_cycles() -> None:
    timing = timed(lambda buffer: buffer.alu(AluOp.ADD, 0, 10, imm=1, iter_in=4))
    assert timing.cycles == FIRST + 12 + 4 * (6 + 20) + 12


def test_rows_of_a_transfer_follow_each_other() -> None:
    """Three rows of 8 elements of 16 bytes: 80 cycles and 128 / 12.8 = 10 each."""
    timing = timed(
        lambda buffer: buffer.load(
            MemoryType.INP, sram_base=0, dram_base=0, y_size=3, x_size=8, x_stride=8
        )
    )
    module = timing.modules[Module.LOAD]
    assert module.busy_cycles == 12 + 3 * (80 + 10)
    assert module.moved_bytes == 3 * 128


def test_a_burst_is_rounded_up_to_whole_cycles() -> None:
    assert CostModel().port_cycles(16) == 2
    assert CostModel().port_cycles(4096) == 320
    assert CostModel(bus_bytes=8, bus_efficiency_percent=100).port_cycles(4096) == 512


def test_weights_may_come_at_a_rate_of_their_own() -> None:
    """One row of 4096 bytes at 12.8 bytes a cycle, as weights at 6.4; at 12.8 by default."""

    def cycles(memory: MemoryType, cost: CostModel) -> int:
        elements = 16 if memory is MemoryType.WGT else 256
        load = timed(
            lambda buffer: buffer.load(memory, sram_base=0, dram_base=0, x_size=elements), cost=cost
        )
        return load.modules[Module.LOAD].busy_cycles - (12 + 80)

    slow = CostModel(weight_efficiency_percent=40)
    assert cycles(MemoryType.INP, slow) == 320
    assert cycles(MemoryType.WGT, slow) == 640
    assert cycles(MemoryType.WGT, CostModel()) == 320


def test_a_launch_comes_before_the_program_and_belongs_to_no_layer() -> None:
    plain = timed(lambda buffer: buffer.gemm(0, 10, reset=True))
    launched = timed(
        lambda buffer: buffer.gemm(0, 10, reset=True), cost=CostModel(launch_cycles=1000)
    )
    assert launched.cycles == plain.cycles + 1000
    assert launched.launch_cycles == 1000
    assert launched.modules == plain.modules
    assert launched.layers == plain.layers


def test_the_launch_includes_the_caches_of_the_inputs_and_outputs() -> None:
    """A picture of 16 channels and 12 x 12 pixels takes 2,304 bytes: 2 1/4 KiB."""
    layer = conv(np.random.default_rng(0), "y", tensor("x", 16, 12, 12), 16, 3, pad=1)
    program = compile_program(STOCK, [layer], ["x"], [layer.output.name])
    plain, cached = (
        time_program(program, CostModel(launch_cycles=1000, cache_kib_cycles=each))
        for each in (0, 133)
    )
    assert cached.launch_cycles == 1000 + 599  # 4.5 KiB, rounded up to a cycle
    assert cached.cycles - cached.launch_cycles == plain.cycles - plain.launch_cycles
    assert CostModel(cache_kib_cycles=1024).host_cycles(3) == 3


def test_modules_share_the_port() -> None:
    """Two transfers of 4096 bytes request the port at the same time; the second waits.

    A load arrives at 82 and asks at 82 + 12 + 80, the uops one cycle (16 / 12.8) later.
    """

    def emit(buffer: InstructionBuffer) -> None:
        buffer.load(MemoryType.INP, sram_base=0, dram_base=0, x_size=256)
        buffer.load(MemoryType.UOP, sram_base=0, dram_base=0, x_size=1024)

    timing = timed(emit)
    assert timing.modules[Module.LOAD].port_cycles == 0
    assert timing.modules[Module.COMPUTE].port_cycles == 320 - 1
    assert timing.cycles == FIRST + 12 + 80 + 320 + 320 + 12


def test_the_port_changes_hands_after_a_burst() -> None:
    """A long load does not block the other modules: they get every other burst."""

    def emit(buffer: InstructionBuffer) -> None:
        buffer.load(MemoryType.WGT, sram_base=0, dram_base=0, x_size=160)  # ten bursts
        buffer.load(MemoryType.UOP, sram_base=0, dram_base=0, x_size=1024)

    timing = timed(emit)
    assert timing.modules[Module.LOAD].port_cycles == 320
    assert timing.modules[Module.COMPUTE].port_cycles == 320 - 1


def test_a_token_delays_its_consumer_and_the_wait_is_named() -> None:
    def emit(buffer: InstructionBuffer) -> None:
        buffer.load(MemoryType.INP, sram_base=0, dram_base=0, x_size=8, tokens=Token.PUSH_NEXT)
        buffer.gemm(0, 1, reset=True, tokens=Token.POP_PREV)

    timing = timed(emit)
    loaded = FIRST + 12 + 80 + 10
    assert timing.cycles == loaded + (12 + 6 + 1) + 12
    assert timing.modules[Module.COMPUTE].previous_cycles == loaded - (80 + 3)
    assert timing.modules[Module.COMPUTE].next_cycles == 0


def test_a_full_command_queue_stops_fetch() -> None:
    """With room for one command per module, a load after two long GEMMs is fetched late."""

    def emit(buffer: InstructionBuffer) -> None:
        for _ in range(3):
            buffer.gemm(0, 1000, reset=True)
        buffer.load(MemoryType.INP, sram_base=0, dram_base=0, x_size=8)

    deep = timed(emit)
    shallow = timed(emit, accelerator=dataclasses.replace(STOCK, command_queue_depth=1))
    gemm = 12 + 6 + 1000
    assert deep.modules[Module.LOAD].fetch_cycles == 80 + 5
    # The third GEMM enters the queue when the second leaves it, and the load comes behind it.
    assert shallow.modules[Module.LOAD].fetch_cycles == FIRST + gemm


def test_a_full_token_queue_stops_its_producer() -> None:
    """The second push waits until the first token is popped, after a long GEMM."""

    def emit(buffer: InstructionBuffer) -> None:
        buffer.gemm(0, 1000, reset=True)
        for _ in range(2):
            buffer.load(MemoryType.INP, sram_base=0, dram_base=0, x_size=8, tokens=Token.PUSH_NEXT)
        for _ in range(2):
            buffer.gemm(0, 1, reset=True, tokens=Token.POP_PREV)

    shallow = timed(emit, accelerator=dataclasses.replace(STOCK, token_queue_depth=1))
    first_pop = FIRST + 12 + 6 + 1000
    assert shallow.cycles == first_pop + 2 * (12 + 6 + 1) + 12
    load = 12 + 80 + 10
    begin = 80 + 3
    assert shallow.modules[Module.LOAD].busy_cycles == load + first_pop - (begin + load)


def test_instructions_are_fetched_in_bursts_over_the_port() -> None:
    """257 instructions of one cycle each: the last one, FINISH, comes with the second burst."""

    def emit(buffer: InstructionBuffer) -> None:
        for _ in range(256):
            buffer.gemm(0, 1, reset=True)

    slow = CostModel(instruction_cycles=0, loop_cycles=0)
    timing = timed(emit, cost=slow)
    assert timing.cycles == (80 + 320) + (80 + 2)


def test_layers_add_up_to_the_program() -> None:
    rng = np.random.default_rng(0)
    first = conv(rng, "a", tensor("x", 32, 14, 14), 32, 3, pad=1)
    second = conv(rng, "b", first.output, 64, 1)
    timing = time_program(check_program(STOCK, [first, second], ["x"], ["b.out"]))
    assert [layer.name for layer in timing.layers] == ["a", "b"]
    assert 0 <= timing.cycles - sum(layer.cycles for layer in timing.layers) <= 12
    assert timing.gemm_steps == sum(layer.gemm_steps for layer in timing.layers)
    for module in Module:
        whole = timing.modules[module]
        waits = whole.fetch_cycles + whole.previous_cycles + whole.next_cycles + whole.port_cycles
        assert whole.busy_cycles + waits <= timing.cycles


@pytest.mark.parametrize(("board", "cycles"), [("ultra96", 104_175), ("pynq-z2", 87_720)])
def test_boards_of_the_hls_source_request_one_row_after_the_other(board: str, cycles: int) -> None:
    """The cycles of two convolutions, as they were before ports with requests in flight."""
    found = boards.load(board)
    assert found.timing.reads_in_flight == 0
    rng = np.random.default_rng(0)
    first = conv(rng, "a", tensor("x", 32, 28, 28), 32, 3, pad=1)
    second = conv(rng, "b", first.output, 64, 1)
    program = check_program(found.accelerator, [first, second], ["x"], ["b.out"])
    costs = dataclasses.replace(found.timing, cache_kib_cycles=0)  # the host's, which came later
    assert time_program(program, costs).cycles == cycles


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("gemm_step_cycles", 0, "timing: gemm_step_cycles is 0, expected >= 1"),
        ("loop_cycles", -1, "timing: loop_cycles is -1, expected >= 0"),
        (
            "bus_efficiency_percent",
            120,
            "timing: bus_efficiency_percent is 120, expected at most 100",
        ),
        (
            "weight_efficiency_percent",
            101,
            "timing: weight_efficiency_percent is 101, expected at most 100",
        ),
        ("launch_cycles", -1, "timing: launch_cycles is -1, expected >= 0"),
        ("reads_in_flight", -1, "timing: reads_in_flight is -1, expected >= 0"),
    ],
)
def test_impossible_parameters_are_refused(field: str, value: int, text: str) -> None:
    with pytest.raises(AcceleratorError, match=text):
        CostModel(**{field: value})
