"""The costs of edgepipe's own hardware (``vta_rtl``), a machine that is not the published one.

They are those of its Verilog behind a model of DRAM: ``make bench-rtl`` compares them with the
cycles of every layer of five networks. No FPGA has run it.
"""

from __future__ import annotations

from vta_stages.accelerator import Accelerator
from vta_stages.program import Program
from vta_stages.timing.cost_model import CostModel
from vta_stages.timing.port import Masters
from vta_stages.timing.timing_model import Timing, time_program

_PIPELINE_CYCLES = 9
"""From the start of an instruction to the sums, and from there to the write. The sums take a cycle
for two levels of a tree of adders."""

_REQUEST_CYCLES = 6
"""From the start of a LOAD to its first request, and from its last beat to its end."""

_BURST_BEATS = 16
_READS_IN_FLIGHT = 8
"""Bursts of a master that memory has accepted and not answered, as in that model of DRAM."""

_STORE_ROW_CYCLES = 2


def rtl_costs(
    accelerator: Accelerator,
    *,
    bus_bytes: int = 16,
    memory_bytes_per_cycle: int = 14,
    read_latency_cycles: int = 50,
    refresh_percent: float = 7.2,
) -> CostModel:
    """Return the costs on memory that answers a read after ``read_latency_cycles``, moves
    ``memory_bytes_per_cycle`` for all ports together, at most as many as one port, and does nothing
    in ``refresh_percent`` of the time. The defaults are assumed for an Ultra96 at 300 MHz, as in
    ``vta_rtl/verilated/memory_costs.py``."""
    share = min(1, memory_bytes_per_cycle / bus_bytes)
    return CostModel(
        instruction_cycles=_PIPELINE_CYCLES + accelerator.block_in.bit_length() // 2,
        gemm_step_cycles=1,
        alu_step_cycles=1,
        loop_cycles=0,
        dma_row_cycles=read_latency_cycles + _REQUEST_CYCLES,
        bus_bytes=bus_bytes,
        bus_efficiency_percent=round(share * (100 - refresh_percent)),
        burst_bytes=_BURST_BEATS * bus_bytes,
        reads_in_flight=_READS_IN_FLIGHT,
        store_row_cycles=_STORE_ROW_CYCLES,
    )


def time_on_rtl(program: Program, cost: CostModel) -> Timing:
    """Return the timing of a verified program on this hardware, whose modules have a port
    each, and weights one of their own.

    ``cost`` is that of :func:`rtl_costs`.
    """
    return time_program(program, cost, Masters(cost))
