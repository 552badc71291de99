"""A random program on the Verilated accelerator and on the functional simulator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgepipe.runtime.simulator import Simulator
from vta_rtl.verilated.device import VerilatedDevice, VerilatedDeviceError

from .open_orders import OpenOrders
from .program import RandomProgram
from .timings import timings

MOST_CYCLES = 1_000_000
"""Many times what the longest program takes."""


@dataclass(frozen=True)
class Outcome:
    """How a program ran: the pairs of transfers without a certain order, and what was different,
    with which timing."""

    open_pairs: int
    pairs_seen_both_ways: int
    difference: str = ""
    timing: str = ""


def expected_dram(program: RandomProgram) -> NDArray[np.uint8]:
    """Return what the simulator leaves in DRAM, which checks the program, too.

    Raises RuntimeFailure if it breaks a rule of the hardware.
    """
    with Simulator(program.accelerator) as simulator:
        return simulator.run_image(program.words, program.dram)


def compare(program: RandomProgram, device: VerilatedDevice, bus_bytes: int) -> Outcome:
    """Run a program on the accelerator, once with each of its timings.

    The difference names the first timing that does not leave the simulator's bytes in DRAM. Raises
    RuntimeFailure if the program breaks a rule of the hardware.
    """
    expected = expected_dram(program)
    orders = OpenOrders(program, bus_bytes)
    words = program.words
    for name, costs in timings(program.seed).items():
        device.set_costs(costs)
        device.record_transfers(True)
        try:
            found = device.run_image(words, program.dram, most_cycles=MOST_CYCLES)
        except VerilatedDeviceError as error:
            return Outcome(orders.pairs, orders.seen_both_ways, f"{name}: {error}", name)
        different = np.flatnonzero(found != expected)
        if len(different):
            at = int(different[0])
            text = (
                f"{name}: {len(different)} bytes differ, the first at {at:#x}: found "
                f"{found[at]:#04x}, expected {expected[at]:#04x}"
            )
            return Outcome(orders.pairs, orders.seen_both_ways, text, name)
        if impossible := orders.see(device.transfers()):
            return Outcome(orders.pairs, orders.seen_both_ways, f"{name}: {impossible}", name)
    device.record_transfers(False)
    return Outcome(orders.pairs, orders.seen_both_ways)
