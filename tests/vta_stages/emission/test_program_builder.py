"""The kernels of a program share buffers: loads for a layer start during the layer before it."""

from __future__ import annotations

import numpy as np
from compiler_support import STOCK, check_program, conv, tensor

from vta_stages.compiler import compile_program
from vta_stages.emission.program_builder import ProgramBuilder, Transfer
from vta_stages.emission.schedule import Extent
from vta_stages.isa.codec import InstructionTable
from vta_stages.isa.instructions import MemoryType, Module, Opcode, Token
from vta_stages.memory_plan import TensorAddress
from vta_stages.program import Region, RegionKind
from vta_stages.timing.timing_model import time_program

REGIONS = (
    Region(name="consts", bytes=0, kind=RegionKind.CONST),
    Region(name="scratch", bytes=16 * 16, kind=RegionKind.SCRATCH),
    Region(name="x", bytes=16, kind=RegionKind.INPUT),
)


def builder() -> ProgramBuilder:
    return ProgramBuilder(STOCK, REGIONS, {"t": TensorAddress(region=1, offset_bytes=0)})


def store(builder: ProgramBuilder, sram: int, dram: int) -> None:
    transfer = Transfer(sram, dram, y_size=2, x_size=2, x_stride=4)
    with builder.schedule.group(Module.STORE, Extent(MemoryType.OUT, sram, 4)) as group:
        builder.buffer.store(
            sram_base=sram, dram_base=dram, y_size=2, x_size=2, x_stride=4, region=1
        )
    builder.note_store(1, [transfer], group)


def test_only_stores_of_the_same_elements_are_awaited() -> None:
    program = builder()
    store(program, 16, 0)  # elements 0, 1, 4, 5
    before = len(program.buffer)
    assert program.await_stores(1, [Transfer(0, 2, y_size=2, x_size=2, x_stride=4)]) is None
    assert program.await_stores(2, [Transfer(0, 0, y_size=1, x_size=1, x_stride=0)]) is None
    assert len(program.buffer) == before
    group = program.await_stores(1, [Transfer(0, 1, y_size=1, x_size=2, x_stride=0)])
    assert group is not None
    assert group.module is Module.COMPUTE
    assert program.buffer.tokens(group.first) == Token.POP_NEXT


def test_a_wait_for_a_later_store_covers_earlier_ones() -> None:
    program = builder()
    store(program, 16, 0)
    store(program, 32, 8)
    later = program.await_stores(1, [Transfer(0, 8, y_size=1, x_size=1, x_stride=0)])
    assert program.await_stores(1, [Transfer(0, 0, y_size=1, x_size=1, x_stride=0)]) is later


def loads(table: InstructionTable, memory: MemoryType) -> np.ndarray:
    columns = table.columns[Opcode.LOAD]
    return table.positions[Opcode.LOAD][columns["memory_type"] == memory]


def test_the_input_vector_of_biases_is_loaded_once() -> None:
    rng = np.random.default_rng(1)
    first = conv(rng, "a", tensor("x", 16, 8, 8), 16, 1)
    second = conv(rng, "b", first.output, 16, 1)
    program = compile_program(STOCK, [first, second], ["x"], ["b.out"])
    table = program.table
    bases = table.columns[Opcode.LOAD]["sram_base"]
    vectors = [
        index
        for index in loads(table, MemoryType.INP)
        if bases[table.rows[index]] == STOCK.inp_depth - 1
    ]
    assert len(vectors) == 1


def test_weights_are_loaded_while_the_layer_before_runs() -> None:
    rng = np.random.default_rng(1)
    first = conv(rng, "a", tensor("x", 64, 14, 14), 64, 3, pad=1)
    second = conv(rng, "b", first.output, 64, 3, pad=1)
    together = check_program(STOCK, [first, second], ["x"], ["b.out"])
    timing = time_program(together)
    weights = 64 * 64 * 9 / 12.8
    assert timing.layers[1].modules[Module.COMPUTE].previous_cycles < weights / 4
