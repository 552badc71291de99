"""The hardware leaves DRAM as the recorded vectors say.

Amaranth's simulator takes half a minute for twelve of the 36 vectors of a revision. Verilator runs
all of them, in ``verilated/test_verilated_device.py``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from amaranth.sim import SimulatorContext
from dram_model import DramModel
from rtl_simulation import simulate

from vta_rtl.device import VtaDevice
from vta_stages.accelerator import Accelerator

VECTORS = Path(__file__).parents[1] / "data" / "vta_vectors"
EVERY = 3
MOST_CYCLES = 20_000
"""Several times what the longest vector takes."""


@pytest.mark.sim
@pytest.mark.networks
@pytest.mark.parametrize(
    ("revision", "bus_bytes", "latency_cycles", "stall_percent"),
    [("0.0.1", 16, 5, 0), ("0.0.2", 8, 10, 10)],
)
def test_recorded_vectors_give_the_recorded_bytes(
    revision: str, bus_bytes: int, latency_cycles: int, stall_percent: int
) -> None:
    files = sorted((VECTORS / revision).glob("*.npz"))
    assert len(files) == 36
    device = VtaDevice(Accelerator(revision=revision), bus_bytes=bus_bytes)
    dram = DramModel(
        contents=np.zeros(0, np.uint8),
        bus_bytes=bus_bytes,
        latency_cycles=latency_cycles,
        stall_percent=stall_percent,
    )

    async def run(ctx: SimulatorContext) -> None:
        for file in files[::EVERY]:  # each on what the one before left in the buffers
            vector = np.load(file)
            before = vector["dram_before"]
            address = -(-len(before) // 16) * 16
            room = np.zeros(address - len(before), np.uint8)
            dram.contents = np.concatenate([before, room, vector["insns"].view(np.uint8).ravel()])
            ctx.set(device.insn_address, address)
            ctx.set(device.insn_count, len(vector["insns"]))
            ctx.set(device.start, 1)
            await ctx.tick()
            ctx.set(device.start, 0)
            cycles = 0
            while not ctx.get(device.done):
                await ctx.tick()
                cycles += 1
                assert cycles < MOST_CYCLES, f"{file.stem} does not end"
            after = dram.contents[: len(before)]
            np.testing.assert_array_equal(after, vector["dram_after"], err_msg=file.stem)

    readers = (device.fetch_bus, device.load_bus, device.weight_bus, device.compute_bus)
    masters = [*(dram.reads_of(bus) for bus in readers), dram.writes_of(device.store_bus)]
    simulate(device, run, background=masters)
