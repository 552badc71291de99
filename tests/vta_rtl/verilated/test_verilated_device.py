"""The Verilated accelerator gives the recorded bytes, and says why a program does not end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from needs import BUILD

from vta_rtl.verilated.device import VerilatedDevice, VerilatedDeviceError
from vta_rtl.verilated.driver_library import build_driver_library
from vta_rtl.verilated.memory_costs import MemoryCosts
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instruction_buffer import encode
from vta_stages.isa.instructions import Finish, Store

pytestmark = pytest.mark.sim

VECTORS = Path(__file__).parents[2] / "data" / "vta_vectors"
ACCELERATORS = {revision: Accelerator(revision=revision) for revision in ("0.0.1", "0.0.2")}
BUS_BYTES = {"0.0.1": 16, "0.0.2": 8}
HARD = MemoryCosts(
    read_latency_cycles=7,
    write_latency_cycles=90,
    bytes_per_cycle=11,
    refresh_interval_cycles=200,
    refresh_cycles=30,
    stall_percent=30,
    seed=1,
)


@pytest.fixture(scope="module", params=sorted(ACCELERATORS))
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def device(revision: str) -> Iterator[VerilatedDevice]:
    library = build_driver_library(
        ACCELERATORS[revision], BUILD / "vta_rtl", bus_bytes=BUS_BYTES[revision]
    )
    with VerilatedDevice(library) as opened:
        yield opened


@pytest.mark.parametrize("costs", [MemoryCosts(), HARD], ids=["default", "hard"])
def test_all_recorded_vectors_give_their_bytes(
    revision: str, device: VerilatedDevice, costs: MemoryCosts
) -> None:
    paths = sorted((VECTORS / revision).glob("*.npz"))
    assert len(paths) == 36
    device.set_costs(costs)
    for path in paths:
        recorded = np.load(path)
        after = device.run_image(recorded["insns"], recorded["dram_before"])
        np.testing.assert_array_equal(after, recorded["dram_after"], err_msg=path.stem)
        assert device.register("error") == 0


def test_a_run_that_takes_too_long_is_aborted_and_the_next_one_runs(
    revision: str, device: VerilatedDevice
) -> None:
    accelerator = ACCELERATORS[revision]
    hangs = encode(accelerator, [Finish(pop_prev=True)])  # a token that never comes
    dram = np.zeros(64, np.uint8)
    with pytest.raises(VerilatedDeviceError, match="not finished after 3000 cycles"):
        device.run_image(hangs, dram, most_cycles=3000)
    device.run_image(encode(accelerator, [Finish()]), dram)


def test_memory_outside_the_arena_is_refused_by_the_device(
    revision: str, device: VerilatedDevice
) -> None:
    accelerator = ACCELERATORS[revision]
    far = (1 << 31) // accelerator.out_bytes
    store = Store(sram_base=0, dram_base=far, x_size=1, push_prev=True)
    program = encode(accelerator, [store, Finish(pop_next=True)])
    with pytest.raises(VerilatedDeviceError, match="aborted: store_outside at 0x"):
        device.run_image(program, np.zeros(64, np.uint8))
    assert device.register("state") == 1
