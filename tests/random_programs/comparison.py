"""A random program on the Verilated accelerator and on the functional simulator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgepipe.runtime.simulator import Simulator
from vta_rtl.verilated.device import VerilatedDevice, VerilatedDeviceError
from vta_rtl.verilated.memory_costs import MemoryCosts

from .open_orders import OpenOrders
from .program import RandomProgram
from .timings import held, timings

MOST_CYCLES = 1_000_000
"""Many times what the longest program takes."""


@dataclass(frozen=True)
class Outcome:
    """How a program ran: the pairs of transfers without a certain order, in how many runs, and what
    was different, with which costs of memory.

    All pairs have been seen in both orders, or one of their transfers was held in vain.
    """

    open_pairs: int
    pairs_seen_both_ways: int
    pairs_of_one_order: int
    runs: int
    difference: str = ""
    costs: MemoryCosts | None = None


def expected_dram(program: RandomProgram) -> NDArray[np.uint8]:
    """Return what the simulator leaves in DRAM, which checks the program, too.

    Raises RuntimeFailure if it breaks a rule of the hardware.
    """
    with Simulator(program.accelerator) as simulator:
        return simulator.run_image(program.words, program.dram)


def compare(program: RandomProgram, device: VerilatedDevice, bus_bytes: int) -> Outcome:
    """Run a program on the accelerator, once with each of its timings, and once for each transfer
    that was before another one in all of these runs, which is held until all others have ended.

    The difference names the first run that does not leave the simulator's bytes in DRAM. Raises
    RuntimeFailure if the program breaks a rule of the hardware.
    """
    expected = expected_dram(program)
    orders = OpenOrders(program, bus_bytes)
    runs = longest = 0

    def outcome(difference: str = "", costs: MemoryCosts | None = None) -> Outcome:
        return Outcome(
            orders.pairs, orders.seen_both_ways, orders.of_one_order, runs, difference, costs
        )

    for name, costs in timings(program.seed).items():
        if difference := _run(program, device, costs, expected, orders):
            return outcome(f"{name}: {difference}", costs)
        runs, longest = runs + 1, max(longest, device.register("cycles"))
    while hold := orders.next_hold():
        costs = held(hold.port, hold.burst, longest)
        if difference := _run(program, device, costs, expected, orders):
            return outcome(f"transfer {hold.transfer} held: {difference}", costs)
        orders.has_held(hold.transfer, longest)
        runs += 1
    return outcome()


def _run(
    program: RandomProgram,
    device: VerilatedDevice,
    costs: MemoryCosts,
    expected: NDArray[np.uint8],
    orders: OpenOrders,
) -> str:
    """Run a program; return "", or what is different."""
    device.set_costs(costs)
    device.record_transfers(True)
    try:
        found = device.run_image(program.words, program.dram, most_cycles=MOST_CYCLES)
        transfers = device.transfers()
    except VerilatedDeviceError as error:
        return str(error)
    finally:
        device.record_transfers(False)
    different = np.flatnonzero(found != expected)
    if len(different):
        at = int(different[0])
        return (
            f"{len(different)} bytes differ, the first at {at:#x}: found "
            f"{found[at]:#04x}, expected {expected[at]:#04x}"
        )
    return orders.see(transfers)
