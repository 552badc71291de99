"""A STORE writes rows of the out buffer to DRAM, and is busy until they are there."""

from __future__ import annotations

import random

import numpy as np
import pytest
from accelerators import FOUR_BY_EIGHT
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.sim import SimulatorContext
from dram_model import DramModel
from rtl_simulation import simulate

from vta_rtl.buffers.buffer import Buffer
from vta_rtl.dram.storer import Storer
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instruction_buffer import encode
from vta_stages.isa.instructions import MemoryType, Store

DRAM_BYTES = 1 << 16
MOST_CYCLES = 10_000


class StorerOnBuffer(wiring.Component):
    """A storer with the out buffer."""

    def __init__(self, accelerator: Accelerator, bus_bytes: int) -> None:
        self.storer = Storer(accelerator, bus_bytes=bus_bytes)
        self.buffer = Buffer(accelerator, MemoryType.OUT)
        super().__init__({})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules += [self.storer, self.buffer]
        wiring.connect(m, self.storer.out, self.buffer.read)
        return m


def check_stores(accelerator: Accelerator, stores: list[Store], model: DramModel) -> list[int]:
    """Run stores and compare DRAM after each; return the cycles that each was busy."""
    circuit = StorerOnBuffer(accelerator, model.bus_bytes)
    storer, size = circuit.storer, accelerator.out_bytes
    out = np.random.default_rng(1).integers(0, 256, (accelerator.out_depth, size), np.uint8)
    after, cycles = model.contents.copy(), []

    async def run(ctx: SimulatorContext) -> None:
        for n, element in enumerate(out):
            ctx.set(circuit.buffer.rows[n], int.from_bytes(element.tobytes(), "little"))
        for store in stores:
            for y in range(store.y_size):
                begin = (store.dram_base + y * store.x_stride) * size
                row = out[store.sram_base + y * store.x_size :][: store.x_size]
                after[begin : begin + row.size] = row.ravel()
            low, high = encode(accelerator, [store])[0].tolist()
            ctx.set(storer.instruction, high << 64 | low)
            ctx.set(storer.start, 1)
            await ctx.tick()
            ctx.set(storer.start, 0)
            cycles.append(0)
            while ctx.get(storer.busy):
                await ctx.tick()
                cycles[-1] += 1
                assert cycles[-1] < MOST_CYCLES, "the store does not end"
            np.testing.assert_array_equal(model.contents, after, err_msg=str(store))

    simulate(circuit, run, background=[model.writes_of(storer.bus)])
    return cycles


@pytest.mark.parametrize("stall_percent", [0, 50])
@pytest.mark.parametrize("bus_bytes", [8, 16])
@pytest.mark.parametrize(
    "accelerator", [Accelerator(), FOUR_BY_EIGHT], ids=lambda a: a.configuration
)
def test_random_stores_write_their_rows_and_nothing_else(
    accelerator: Accelerator, bus_bytes: int, stall_percent: int
) -> None:
    draw = random.Random(f"{accelerator} {bus_bytes} {stall_percent}")
    stores = []
    for _ in range(12):
        x_size, y_size = draw.randrange(0, 40), draw.randrange(0, 5)
        x_stride = x_size + draw.choice([0, 0, draw.randrange(50)])
        room = DRAM_BYTES // accelerator.out_bytes - y_size * x_stride
        stores.append(
            Store(
                sram_base=draw.randrange(accelerator.out_depth - x_size * y_size),
                dram_base=draw.randrange(room),
                x_size=x_size,
                y_size=y_size,
                x_stride=x_stride,
            )
        )
    contents = np.zeros(DRAM_BYTES, np.uint8)
    model = DramModel(contents=contents, bus_bytes=bus_bytes, stall_percent=stall_percent)
    check_stores(accelerator, stores, model)


def test_an_address_may_be_taken_after_its_data_are_offered() -> None:
    store = Store(sram_base=3, dram_base=5, x_size=20, y_size=3, x_stride=30)
    model = DramModel(
        contents=np.zeros(DRAM_BYTES, np.uint8), bus_bytes=16, address_waits_for_data=True
    )
    (cycles,) = check_stores(Accelerator(), [store], model)
    assert cycles < 500


def test_rows_follow_each_other_without_their_answers() -> None:
    store = Store(sram_base=0, dram_base=0, x_size=16, y_size=16, x_stride=20)
    cycles = []
    for latency_cycles in (5, 45):
        model = DramModel(
            contents=np.zeros(DRAM_BYTES, np.uint8), bus_bytes=16, latency_cycles=latency_cycles
        )
        cycles += check_stores(Accelerator(), [store], model)
    assert cycles[1] == cycles[0] + 40
    assert cycles[0] < 256 + 5 + 15
