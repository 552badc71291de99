"""The Verilated accelerator gives the recorded bytes, and says why a program does not end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vta_rtl.isa.names import MASTERS
from vta_rtl.verilated.device import VerilatedDevice, VerilatedDeviceError
from vta_rtl.verilated.memory_costs import MemoryCosts
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instruction_buffer import encode
from vta_stages.isa.instructions import Finish, Load, MemoryType, Store

pytestmark = [pytest.mark.sim, pytest.mark.slow]

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


def test_transfers_are_recorded_with_the_cycles_in_which_memory_was_used(
    revision: str, device: VerilatedDevice
) -> None:
    accelerator = ACCELERATORS[revision]
    loads = [
        Load(memory_type=MemoryType.INP, sram_base=0, dram_base=0, x_size=8),
        Load(memory_type=MemoryType.WGT, sram_base=0, dram_base=0, x_size=1, push_next=True),
        Load(memory_type=MemoryType.ACC, sram_base=0, dram_base=0, x_size=2, pop_prev=True),
    ]
    program = encode(accelerator, [*loads, Finish()])
    quick = MemoryCosts(read_latency_cycles=1, bytes_per_cycle=64, refresh_interval_cycles=0)
    begins = {}
    for name, costs in {
        "quick": quick,
        "slow load": replace(quick, load_delay_cycles=500),
        "slow weight": replace(quick, weight_delay_cycles=500),
        "slow compute": replace(quick, compute_delay_cycles=500),
    }.items():
        device.set_costs(costs)
        device.record_transfers(True)
        device.run_image(program, np.zeros(256, np.uint8))
        found = device.transfers()
        by_port = [found.port == port for port in range(len(MASTERS))]
        assert [found.beats[chosen].sum() for chosen in by_port] == [
            len(program) * 16 // BUS_BYTES[revision],
            8 * accelerator.inp_bytes // BUS_BYTES[revision],
            accelerator.wgt_bytes // BUS_BYTES[revision],
            2 * accelerator.acc_bytes // BUS_BYTES[revision],
            0,
        ]
        assert (found.last_cycle - found.first_cycle + 1 >= found.beats).all()
        assert found.first_cycle[by_port[3]].min() > found.last_cycle[by_port[2]].max()
        begin = found.first_cycle.min()
        begins[name] = [found.first_cycle[by_port[port]].min() - begin for port in (1, 2, 3)]
    inputs, weights, biases = begins["quick"]  # biases wait for the token of the weights
    assert begins["slow compute"] == [inputs, weights, biases + 500]
    assert begins["slow weight"] == [inputs, weights + 500, biases + 500]
    assert begins["slow load"][:2] == [inputs + 500, weights]
    assert begins["slow load"][2] > inputs + 500  # and for the LOAD before it


def test_a_burst_that_is_held_is_late_and_so_are_those_behind_it(
    revision: str, device: VerilatedDevice
) -> None:
    loads = [
        Load(memory_type=MemoryType.INP, sram_base=n, dram_base=n, x_size=8, push_next=n == 16)
        for n in (0, 8, 16)
    ]
    program = encode(ACCELERATORS[revision], [*loads, Finish(pop_prev=True)])
    port = list(MASTERS).index("load")
    quick = MemoryCosts(read_latency_cycles=1, bytes_per_cycle=64, refresh_interval_cycles=0)
    begins = []
    for costs in (quick, replace(quick, held_port=port, held_burst=1, held_cycles=500)):
        device.set_costs(costs)
        device.record_transfers(True)
        device.run_image(program, np.zeros(384, np.uint8))
        found = device.transfers()
        cycles = found.first_cycle[found.port == port]
        begins.append(cycles - found.first_cycle.min())
    (first, second, third), held = begins
    assert held[:2].tolist() == [first, second + 500]
    assert held[2] >= third + 490
    device.record_transfers(False)
    device.run_image(program, np.zeros(256, np.uint8))
    assert not len(device.transfers().port)
