"""A LOAD fills its buffer with rows of DRAM and pads around them."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from accelerators import FOUR_BY_EIGHT, THIRTYTWO_BY_SIXTEEN
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.sim import SimulatorContext
from dram_model import DramModel
from rtl_simulation import simulate

from vta_rtl.buffers.buffer import Buffer
from vta_rtl.buffers.uop_buffer import UopBuffer, uops_at_once
from vta_rtl.dram.loader import Loader
from vta_stages.accelerator import Accelerator, Extension
from vta_stages.isa.instruction_buffer import encode
from vta_stages.isa.instructions import (
    MEMORY_EXTENSIONS,
    SINGLE_ROW,
    Load,
    MemoryType,
    buffer_depth,
    element_bytes,
    honours_pads,
)

DRAM_BYTES = 1 << 16


class LoaderOnBuffer(wiring.Component):
    """A loader of a single memory type with its buffer."""

    def __init__(self, accelerator: Accelerator, kind: MemoryType, bus_bytes: int) -> None:
        self.loader = Loader(accelerator, (kind,), bus_bytes=bus_bytes)
        self.kind = kind
        self.buffer: Buffer | UopBuffer
        if kind is MemoryType.UOP:
            self.buffer = UopBuffer(accelerator, at_once=uops_at_once(accelerator, bus_bytes))
            banks = self.buffer.banks
        else:
            self.buffer = Buffer(accelerator, kind)
            banks = [self.buffer.rows]
        depth = buffer_depth(accelerator, kind)
        self.rows = [banks[n % len(banks)][n // len(banks)] for n in range(depth)]
        super().__init__({})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules += [self.loader, self.buffer]
        wiring.connect(m, getattr(self.loader, self.kind.name.lower()), self.buffer.write)
        return m


def expected(accelerator: Accelerator, load: Load, dram: bytes) -> list[int]:
    """Return the elements that a load writes, from ``sram_base`` on."""
    kind, size = load.memory_type, element_bytes(accelerator, load.memory_type)
    pads = honours_pads(accelerator, kind)
    y0, y1, x0, x1 = (
        getattr(load, name) if pads else 0 for name in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")
    )
    rows = 1 if kind in SINGLE_ROW else load.y_size
    width = x0 + load.x_size + x1
    lane = 32 if kind is MemoryType.ACC else 8
    pad = int.from_bytes(
        (4 * load.pad_value).to_bytes(lane // 8, "little", signed=True) * (8 * size // lane),
        "little",
    )
    elements = [pad] * (y0 * width)
    for y in range(rows):
        begin = (load.dram_base + y * load.x_stride) * size
        data = [dram[begin + n * size :][:size] for n in range(load.x_size)]
        elements += [pad] * x0 + [int.from_bytes(d, "little") for d in data] + [pad] * x1
    return elements + [pad] * (y1 * width)


def random_load(draw: random.Random, accelerator: Accelerator, kind: MemoryType) -> Load:
    """Draw a load that stays within DRAM and the buffer, with and without pads, rows, stride."""
    size, depth = element_bytes(accelerator, kind), buffer_depth(accelerator, kind)
    x_size, y_size = draw.randrange(0, min(20, DRAM_BYTES // size // 10)), draw.randrange(1, 5)
    x_stride = draw.choice([0, x_size, x_size + draw.randrange(9)])
    room = 20 if kind in SINGLE_ROW else 600
    elements = DRAM_BYTES // size - y_size * x_stride - x_size
    return Load(
        memory_type=kind, sram_base=draw.randrange(depth - min(room, depth // 2)),
        dram_base=draw.randrange(elements), x_size=x_size, y_size=y_size, x_stride=x_stride,
        pad_value=draw.randrange(-32, 32) if accelerator.has(Extension.PAD_VALUE) else 0,
        **{name: draw.randrange(4) for name in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")},
    )  # fmt: skip


def check_loads(
    accelerator: Accelerator, kind: MemoryType, loads: list[Load], model: DramModel
) -> list[int]:
    """Run loads and compare the buffer after each; return the cycles that each was busy."""
    circuit = LoaderOnBuffer(accelerator, kind, model.bus_bytes)
    loader, rows = circuit.loader, circuit.rows
    depth, cycles = buffer_depth(accelerator, kind), []

    async def run(ctx: SimulatorContext) -> None:
        for load in loads:
            elements = expected(accelerator, load, model.contents.tobytes())
            untouched = (1 << 8 * element_bytes(accelerator, kind)) - 1
            around = {load.sram_base - 1, load.sram_base + len(elements)} & set(range(depth))
            for row in around:
                ctx.set(rows[row], untouched)
            low, high = encode(accelerator, [load])[0].tolist()
            ctx.set(loader.instruction, high << 64 | low)
            ctx.set(loader.start, 1)
            await ctx.tick()
            ctx.set(loader.start, 0)
            cycles.append(0)
            while ctx.get(loader.busy):
                await ctx.tick()
                cycles[-1] += 1
            found = [ctx.get(rows[load.sram_base + n]) for n in range(len(elements))]
            assert found == elements, load
            assert all(ctx.get(rows[row]) == untouched for row in around), load

    simulate(circuit, run, background=[model.reads_of(loader.bus)])
    return cycles


def dram_model(bus_bytes: int, *, stall_percent: int = 0, latency_cycles: int = 5) -> DramModel:
    contents = np.random.default_rng(bus_bytes).integers(0, 256, DRAM_BYTES, np.uint8)
    return DramModel(
        contents=contents,
        bus_bytes=bus_bytes,
        stall_percent=stall_percent,
        latency_cycles=latency_cycles,
    )


@pytest.mark.parametrize("kind", [kind for kind in MemoryType if kind is not MemoryType.OUT])
@pytest.mark.parametrize(
    ("accelerator", "bus_bytes", "stall_percent"),
    [
        (Accelerator(revision="0.0.1"), 16, 0),
        (Accelerator(revision="0.0.2"), 8, 40),
        (FOUR_BY_EIGHT, 16, 40),
        (THIRTYTWO_BY_SIXTEEN, 16, 10),
    ],
    ids=["stock", "second-revision", "4x8", "1x32x16"],
)
def test_random_loads_write_rows_and_pads(
    accelerator: Accelerator, kind: MemoryType, bus_bytes: int, stall_percent: int
) -> None:
    draw = random.Random(f"{accelerator} {kind}")
    if kind in MEMORY_EXTENSIONS:
        accelerator = replace(accelerator, extensions=(MEMORY_EXTENSIONS[kind],))
    loads = [
        random_load(draw, accelerator, kind) for _ in range(4 if kind is MemoryType.WGT else 8)
    ]
    check_loads(accelerator, kind, loads, dram_model(bus_bytes, stall_percent=stall_percent))


@pytest.mark.parametrize("kind", [MemoryType.INP, MemoryType.ACC, MemoryType.ACC8])
@pytest.mark.parametrize("accelerator", [Accelerator(revision="0.0.2"), FOUR_BY_EIGHT])
def test_pads_hold_what_the_instruction_says(accelerator: Accelerator, kind: MemoryType) -> None:
    extensions = (Extension.PAD_VALUE.value, Extension.WIDEN.value)
    accelerator = replace(accelerator, extensions=extensions)
    draw = random.Random(kind)
    loads = [random_load(draw, accelerator, kind) for _ in range(8)]
    loads += [replace(loads[0], x_pad_0=1, pad_value=value) for value in (-32, -1, 31)]
    check_loads(accelerator, kind, loads, dram_model(16))


@pytest.mark.parametrize("first", range(5))
@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
def test_uops_may_begin_and_end_within_a_beat(first: int, count: int) -> None:
    load = Load(memory_type=MemoryType.UOP, sram_base=7, dram_base=100 + first, x_size=count)
    model = dram_model(16)
    check_loads(Accelerator(), MemoryType.UOP, [load, load], model)
    beats = -(-(first % 4 + count) // 4)
    assert [beats for _, beats in model.bursts] == [beats, beats]


@pytest.mark.parametrize(("bus_bytes", "per_beat"), [(16, 4), (8, 2)])
def test_a_beat_of_uops_takes_a_cycle_if_its_places_are_those_in_the_buffer(
    bus_bytes: int, per_beat: int
) -> None:
    def cycles(sram_base: int) -> int:
        load = Load(
            memory_type=MemoryType.UOP, sram_base=sram_base, dram_base=per_beat + 1, x_size=64
        )
        model = dram_model(bus_bytes)
        (found,) = check_loads(Accelerator(), MemoryType.UOP, [load], model)
        return found

    assert cycles(8 * per_beat + 1) < 64 // per_beat + 20
    assert cycles(8 * per_beat) >= 64


def test_the_memorys_latency_shows_once_in_a_load() -> None:
    rows = Load(
        memory_type=MemoryType.INP, sram_base=0, dram_base=0, x_size=16, y_size=16, x_stride=40
    )
    quick = check_loads(Accelerator(), MemoryType.INP, [rows], dram_model(16, latency_cycles=5))
    slow = check_loads(Accelerator(), MemoryType.INP, [rows], dram_model(16, latency_cycles=105))
    assert slow[0] == quick[0] + 100
    assert quick[0] < 256 + 5 + 10


@pytest.mark.parametrize("bits", [1 << 57 | 3 << 7, 1 << 57])
def test_the_third_bit_of_a_memory_type_counts(bits: int) -> None:
    """Types 7 and 4, of which the lower bits are those of ACC and UOP."""
    accelerator = Accelerator(extensions=("table",))
    kinds = (MemoryType.UOP, MemoryType.ACC, MemoryType.TABLE)
    loader = Loader(accelerator, kinds, bus_bytes=16)

    async def run(ctx: SimulatorContext) -> None:
        ctx.set(loader.instruction, 1 << 64 | 1 << 80 | bits)
        ctx.set(loader.start, 1)
        await ctx.tick()
        ctx.set(loader.start, 0)
        assert not ctx.get(loader.busy)
        assert not ctx.get(loader.bus.ar.valid)

    simulate(loader, run)


def test_an_unknown_memory_type_does_nothing() -> None:
    accelerator = Accelerator(revision="0.0.2")
    loader = Loader(accelerator, (MemoryType.UOP, MemoryType.ACC), bus_bytes=16)
    load = Load(memory_type=MemoryType.ACC, sram_base=0, dram_base=0, x_size=3)

    async def run(ctx: SimulatorContext) -> None:
        low, high = encode(accelerator, [load])[0].tolist()
        ctx.set(loader.instruction, high << 64 | low | 7 << 7)
        ctx.set(loader.start, 1)
        await ctx.tick()
        ctx.set(loader.start, 0)
        assert not ctx.get(loader.busy)
        assert not ctx.get(loader.bus.ar.valid)

    simulate(loader, run)
