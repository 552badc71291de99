"""The cost of instructions: the parameters of the timing model, one set per board.

The defaults are estimates for the Ultra96; ``docs/reference/timing-model.md`` says where each comes
from. The ``[timing]`` table of a board's file replaces them with measured values.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from vta_stages.errors import AcceleratorError


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """Cycles of the accelerator's clock.

    Each (iter_out, iter_in) pair of a GEMM or ALU instruction takes ``loop_cycles`` extra. A row of
    a transfer takes ``dma_row_cycles``. Then its bytes move over the port that all modules share,
    at ``bus_efficiency_percent`` of ``bus_bytes`` per cycle. The port serves another module after
    at most ``burst_bytes`` (an AXI4 burst has at most 4096). Raises AcceleratorError for values out
    of range.
    """

    instruction_cycles: int = 12
    gemm_step_cycles: int = 1
    alu_step_cycles: int = 2
    loop_cycles: int = 6
    dma_row_cycles: int = 80
    bus_bytes: int = 16
    bus_efficiency_percent: int = 80
    burst_bytes: int = 4096

    def __post_init__(self) -> None:
        least = {"gemm_step_cycles": 1, "alu_step_cycles": 1, "bus_bytes": 1, "burst_bytes": 16}
        least |= {"bus_efficiency_percent": 1}
        for field in fields(self):
            value, low = getattr(self, field.name), least.get(field.name, 0)
            if value < low:
                raise AcceleratorError(f"timing: {field.name} is {value}, expected >= {low}")
        if self.bus_efficiency_percent > 100:
            raise AcceleratorError(
                f"timing: bus_efficiency_percent is {self.bus_efficiency_percent}, "
                f"expected at most 100"
            )

    @property
    def bytes_per_cycle(self) -> float:
        """The effective throughput of the port."""
        return self.bus_bytes * self.bus_efficiency_percent / 100

    def port_cycles(self, count_bytes: int) -> int:
        """Return how many cycles a transfer of ``count_bytes`` occupies the port."""
        return -(-count_bytes * 100 // (self.bus_bytes * self.bus_efficiency_percent))
