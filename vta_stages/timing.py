"""How long a program takes: the three modules, their queues and tokens, in cycles.

The model is the one that :mod:`vta_stages.tiling` optimises for, applied to finished instructions:
GEMM takes one cycle per step and ALU two, every pass of the innermost loop and every instruction a
fixed number more, every row of a transfer a memory latency plus its bytes over the bus. Modules run
concurrently and wait for tokens. The bus is not shared between modules in this model, and fetch is
taken to keep up. The constants are estimates until they are calibrated on a board.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vta_stages.isa import MemoryType, Module, Opcode, Token, element_bytes
from vta_stages.program import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """Cycles of the accelerator's parts; the bus moves ``bus_bytes`` per cycle."""

    loop_cycles: int = 6
    instruction_cycles: int = 12
    dma_row_cycles: int = 80
    bus_bytes: int = 16
    gemm_step_cycles: int = 1
    alu_step_cycles: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Cycles from start to FINISH, and how long each module was at work.

    ``layer_cycles`` are (name, cycles) by the time at which a layer's last instruction ends.
    """

    cycles: int
    load_cycles: int
    compute_cycles: int
    store_cycles: int
    gemm_steps: int
    layer_cycles: tuple[tuple[str, int], ...]


def time_program(program: Program, cost: CostModel | None = None) -> Timing:
    """Return the timing of a verified program."""
    durations, gemm_steps = instruction_cycles(program, cost or CostModel())
    table = program.table
    modules, tokens = table.modules.tolist(), table.tokens.tolist()
    free = dict.fromkeys(Module, 0)
    busy = dict.fromkeys(Module, 0)
    # One queue of push times per pair (from, to) of neighbours.
    queues: dict[tuple[int, int], deque[int]] = {
        (m, n): deque() for m in Module for n in Module if abs(m - n) == 1
    }
    ends: list[int] = []
    for duration, module_index, flags in zip(durations.tolist(), modules, tokens, strict=True):
        module = Module(module_index)
        start = free[module]
        if flags & Token.POP_PREV:
            start = max(start, queues[module - 1, module].popleft())
        if flags & Token.POP_NEXT:
            start = max(start, queues[module + 1, module].popleft())
        end = start + duration
        if flags & Token.PUSH_PREV:
            queues[module, module - 1].append(end)
        if flags & Token.PUSH_NEXT:
            queues[module, module + 1].append(end)
        free[module] = end
        busy[module] += duration
        ends.append(end)
    layers = []
    before = 0
    for layer in program.layers:
        done = max(ends[layer.first : layer.first + layer.count], default=before)
        layers.append((layer.name, done - before))
        before = done
    return Timing(
        cycles=max(ends, default=0),
        load_cycles=busy[Module.LOAD],
        compute_cycles=busy[Module.COMPUTE],
        store_cycles=busy[Module.STORE],
        gemm_steps=gemm_steps,
        layer_cycles=tuple(layers),
    )


def instruction_cycles(program: Program, cost: CostModel) -> tuple[NDArray[np.int64], int]:
    """Return the cycles of every instruction, int64[n], and the number of GEMM steps."""
    table = program.table
    cycles = np.full(len(table), cost.instruction_cycles, np.int64)
    sizes = np.array([element_bytes(program.accelerator, memory) for memory in MemoryType])
    for opcode in (Opcode.LOAD, Opcode.STORE):
        columns = table.columns[opcode]
        memory = columns.get("memory_type", np.full(len(columns["x_size"]), MemoryType.OUT))
        row_cycles = -(-columns["x_size"] * sizes[memory] // cost.bus_bytes)
        cycles[table.positions[opcode]] += columns["y_size"] * (row_cycles + cost.dma_row_cycles)
    gemm_steps = 0
    for opcode, step_cycles in (
        (Opcode.GEMM, cost.gemm_step_cycles),
        (Opcode.ALU, cost.alu_step_cycles),
    ):
        columns = table.columns[opcode]
        loops = columns["iter_out"] * columns["iter_in"]
        steps = loops * (columns["uop_end"] - columns["uop_bgn"])
        cycles[table.positions[opcode]] += loops * cost.loop_cycles + steps * step_cycles
        if opcode is Opcode.GEMM:
            gemm_steps = int(steps.sum())
    return cycles, gemm_steps
