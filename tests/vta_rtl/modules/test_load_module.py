"""LOADs of inputs and of weights run at the same time and fill their buffers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.sim import SimulatorContext
from dram_model import DramModel
from rtl_simulation import simulate

from vta_rtl.buffers.buffer import Buffer
from vta_rtl.modules.load import LoadModule
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instruction_buffer import encode
from vta_stages.isa.instructions import Load, MemoryType, element_bytes

SMALL = Accelerator(block_in=8, block_out=8, inp_buffer_bytes_log2=9, wgt_buffer_bytes_log2=11)
BUS_BYTES = 8
DRAM_BYTES = 1 << 14
MOST_CYCLES = 20_000
KINDS = (MemoryType.INP, MemoryType.WGT)


class LoadOnBuffers(wiring.Component):
    """The load module with its two buffers."""

    def __init__(self) -> None:
        self.load = LoadModule(SMALL, bus_bytes=BUS_BYTES)
        self.buffers = {kind: Buffer(SMALL, kind) for kind in KINDS}
        super().__init__({})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules += [self.load, *self.buffers.values()]
        wiring.connect(m, self.load.inp, self.buffers[MemoryType.INP].write)
        wiring.connect(m, self.load.wgt, self.buffers[MemoryType.WGT].write)
        return m


def dram_model(latency_cycles: int, stall_percent: int = 0) -> DramModel:
    contents = np.random.default_rng(latency_cycles).integers(0, 256, DRAM_BYTES, np.uint8)
    return DramModel(
        contents=contents,
        bus_bytes=BUS_BYTES,
        latency_cycles=latency_cycles,
        stall_percent=stall_percent,
    )


def run_loads(
    loads: Sequence[Load],
    model: DramModel,
    *,
    abort_from: int = MOST_CYCLES,
    check: Callable[[int, Callable[[Load], bool]], None] | None = None,
) -> tuple[int, list[int]]:
    """Run loads; return the cycles that they take, and those in which tokens are pushed.

    ``check`` gets the number of each token and a function that says whether a load's elements are
    in its buffer now.
    """
    circuit = LoadOnBuffers()
    load, pushed = circuit.load, list[int]()
    cycles = 0

    async def run(ctx: SimulatorContext) -> None:
        nonlocal cycles
        ctx.set(load.next.pop_valid, 1)
        ctx.set(load.next.push_ready, 1)
        place = 0

        def is_there(some: Load) -> bool:
            kind, size = some.memory_type, element_bytes(SMALL, some.memory_type)
            rows = circuit.buffers[kind].rows
            for n in range(some.x_size):
                begin = (some.dram_base + n) * size
                content = model.contents[begin : begin + size].tobytes()
                if ctx.get(rows[some.sram_base + n]) != int.from_bytes(content, "little"):
                    return False
            return True

        while place < len(loads) or ctx.get(load.active):
            if place < len(loads):
                low, high = encode(SMALL, [loads[place]])[0].tolist()
                ctx.set(load.command.payload, high << 64 | low)
            ctx.set(load.command.valid, place < len(loads))
            ctx.set(load.abort, cycles >= abort_from)
            if ctx.get(load.next.push_valid):
                if check:
                    check(len(pushed), is_there)
                pushed.append(cycles)
            place += bool(place < len(loads) and ctx.get(load.command.ready))
            await ctx.tick()
            cycles += 1
            assert cycles < MOST_CYCLES, "the loads do not end"

    masters = [model.reads_of(load.bus), model.reads_of(load.weight_bus)]
    simulate(circuit, run, background=masters)
    return cycles, pushed


def row(kind: MemoryType, beats: int, *, push_next: bool = False) -> Load:
    """Return a load of a row of so many beats of the bus."""
    elements = beats * BUS_BYTES // element_bytes(SMALL, kind)
    return Load(memory_type=kind, sram_base=0, dram_base=3, x_size=elements, push_next=push_next)


def test_two_kinds_take_as_long_as_the_longer_one() -> None:
    inp, wgt = (row(kind, 32) for kind in KINDS)
    alone, _ = run_loads([inp], dram_model(100))
    both, _ = run_loads([inp, wgt], dram_model(100))
    twice, _ = run_loads([inp, inp], dram_model(100))
    assert both <= alone + 2
    assert twice > 2 * alone - 6


def test_a_token_says_that_all_loads_before_have_ended() -> None:
    draw = random.Random(7)
    kinds = [KINDS[0]] * 28 + [KINDS[1]] * 14
    draw.shuffle(kinds)
    next_place = dict.fromkeys(KINDS, 0)
    loads = []
    for kind in kinds:  # each to elements of its own
        count = draw.randrange(3)
        loads.append(
            Load(
                memory_type=kind,
                sram_base=next_place[kind],
                dram_base=draw.randrange(DRAM_BYTES // element_bytes(SMALL, kind) - count),
                x_size=count,
                push_next=draw.choice([True, False]),
                pop_next=draw.choice([True, False]),
            )
        )
        next_place[kind] += count
    pushing = [n for n, load in enumerate(loads) if load.push_next]

    def check(token: int, is_there: Callable[[Load], bool]) -> None:
        missing = [n for n, load in enumerate(loads[: pushing[token] + 1]) if not is_there(load)]
        assert not missing, f"the token of {pushing[token]} came before these ended"

    _, pushed = run_loads(loads, dram_model(20, stall_percent=20), check=check)
    assert len(pushed) == len(pushing)


def test_an_abort_in_the_middle_ends_both_without_their_tokens() -> None:
    loads = [row(kind, 32, push_next=True) for kind in (*KINDS, *KINDS)]
    model = dram_model(50)
    cycles, pushed = run_loads(loads, model, abort_from=30)
    assert not pushed
    assert len(model.bursts) == 4, "the loads that run end, and no other begins"
    assert cycles < 120
