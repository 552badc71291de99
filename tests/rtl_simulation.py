"""Run a circuit in Amaranth's simulator, which the tests of vta_rtl share."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence

from amaranth.hdl import Elaboratable
from amaranth.sim import Simulator, SimulatorContext

Process = Callable[[SimulatorContext], Awaitable[None]]

RECURSION_LIMIT = 2000
"""For the simulator's code of a memory with 512-byte elements, which has a term for each bit."""

CLOCK_SECONDS = 1e-6
"""Any period serves: the circuits have one clock."""


def simulate(
    circuit: Elaboratable, *processes: Process, background: Sequence[Process] = ()
) -> None:
    """Run processes beside a circuit, from its reset until each of them has returned.

    Those of ``background`` need not return.
    """
    sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_LIMIT))
    simulator = Simulator(circuit)
    simulator.add_clock(CLOCK_SECONDS)
    for process in processes:
        simulator.add_testbench(process)
    for process in background:
        simulator.add_testbench(process, background=True)
    simulator.run()


def settle(circuit: Elaboratable, process: Process) -> None:
    """Run a process beside a circuit without a clock."""
    simulator = Simulator(circuit)
    simulator.add_testbench(process)
    simulator.run()
