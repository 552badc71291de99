"""The timing model's costs of this hardware are those of its sources."""

from __future__ import annotations

import pytest
from accelerators import FOUR_BY_EIGHT, ONE_BY_THIRTYTWO, RECTANGULAR, THIRTYTWO_BY_SIXTEEN

from vta_rtl.compute.engine import latency_cycles
from vta_rtl.dram.axi import BURST_BEATS
from vta_rtl.verilated.memory_costs import MemoryCosts
from vta_stages.accelerator import Accelerator
from vta_stages.timing.rtl_costs import rtl_costs

ACCELERATORS = (
    Accelerator(),
    FOUR_BY_EIGHT,
    ONE_BY_THIRTYTWO,
    RECTANGULAR,
    THIRTYTWO_BY_SIXTEEN,
)


@pytest.mark.parametrize("accelerator", ACCELERATORS, ids=lambda a: a.configuration)
def test_an_instruction_takes_the_cycles_of_its_pipeline(accelerator: Accelerator) -> None:
    assert rtl_costs(accelerator).instruction_cycles == latency_cycles(accelerator)


@pytest.mark.parametrize("bus_bytes", [8, 16])
def test_a_burst_has_as_many_beats(bus_bytes: int) -> None:
    costs = rtl_costs(Accelerator(), bus_bytes=bus_bytes)
    assert (costs.bus_bytes, costs.burst_bytes) == (bus_bytes, BURST_BEATS * bus_bytes)


def test_the_memory_is_the_one_of_the_benchmark() -> None:
    memory = MemoryCosts()
    refresh = 100 * memory.refresh_cycles / memory.refresh_interval_cycles
    assert rtl_costs(Accelerator()) == rtl_costs(
        Accelerator(),
        memory_bytes_per_cycle=memory.bytes_per_cycle,
        read_latency_cycles=memory.read_latency_cycles,
        refresh_percent=refresh,
    )
