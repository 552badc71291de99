"""Pairs of transfers are seen in both orders, or one of them was held in vain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from random_programs.open_orders import Hold, OpenOrders
from random_programs.program import RandomProgram

from vta_rtl.isa.names import MASTERS
from vta_rtl.verilated.device import Transfers
from vta_stages.accelerator import Accelerator
from vta_stages.isa.instructions import Load, MemoryType

INPUTS = Load(memory_type=MemoryType.INP, sram_base=0, dram_base=0, x_size=32)
"""Two bursts of 16 beats."""
BIAS = Load(memory_type=MemoryType.ACC, sram_base=0, dram_base=0, x_size=1)
BUS_BYTES = 16
FETCH, LOAD, COMPUTE = (list(MASTERS).index(name) for name in ("fetch", "load", "compute"))


def orders() -> OpenOrders:
    """Return those of two LOADs of inputs and one of a bias, which no token orders."""
    program = (INPUTS, INPUTS, BIAS)
    return OpenOrders(RandomProgram(Accelerator(), 0, 0, program, np.zeros(0, np.uint8)), BUS_BYTES)


def run(inputs: Sequence[int], bias: int) -> Transfers:
    """Return the transfers of a run in which bursts of inputs, and the bias, begin in a cycle."""
    first_cycles = np.array([0, *inputs, bias], np.int64)  # fetch's is the first
    beats = np.array([3] + [16] * len(inputs) + [4], np.int64)
    ports = np.array([FETCH] + [LOAD] * len(inputs) + [COMPUTE], np.int64)
    return Transfers(first_cycles, first_cycles + beats - 1, ports, beats)


def test_a_transfer_that_was_first_is_to_be_held_by_its_first_burst() -> None:
    found = orders()
    assert found.see(run([0, 20, 100, 120], bias=50)) == ""
    assert (found.pairs, found.seen_both_ways, found.of_one_order) == (2, 0, 0)
    assert found.next_hold() == Hold(transfer=0, port=LOAD, burst=0)
    assert found.see(run([60, 80, 100, 120], bias=50)) == ""
    assert (found.seen_both_ways, found.of_one_order) == (1, 0)
    found.has_held(0, cycles=60)
    assert found.next_hold() == Hold(transfer=2, port=COMPUTE, burst=0)
    assert found.see(run([0, 20, 40, 60], bias=90)) == ""
    assert found.next_hold() is None
    assert (found.seen_both_ways, found.of_one_order) == (2, 0)


def test_a_transfer_that_was_held_in_vain_is_of_one_order() -> None:
    found = orders()
    found.see(run([0, 20, 100, 120], bias=200))
    for transfer, burst in ((0, 0), (1, 2)):
        assert found.next_hold() == Hold(transfer, port=LOAD, burst=burst)
        found.see(run([900, 920, 1000, 1020], bias=2000))
        found.has_held(transfer, cycles=900)
    assert found.next_hold() is None
    assert (found.pairs, found.seen_both_ways, found.of_one_order) == (2, 0, 2)


def test_a_run_that_held_another_transfer_proves_nothing() -> None:
    found = orders()
    found.see(run([0, 20, 100, 120], bias=200))
    with pytest.raises(AssertionError, match="transfer 0 was not held"):
        found.has_held(0, cycles=500)
