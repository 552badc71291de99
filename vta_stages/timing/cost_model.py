"""What instructions cost: the parameters of the timing model, one set per board.

The defaults are estimates for the Ultra96; ``docs/reference/timing-model.md`` says where each comes
from. A board file's ``[timing]`` table replaces them once somebody has measured that board.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from vta_stages.errors import AcceleratorError


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """Cycles of the accelerator's clock.

    ``loop_cycles`` are lost at each new (iter_out, iter_in) pair of a GEMM or ALU instruction.
    A row of a transfer takes ``dma_row_cycles`` and then its bytes over the port that all modules
    share, ``bus_bytes`` a cycle of which ``bus_efficiency_percent`` are had; the port changes hands
    after ``burst_bytes`` at the latest (an AXI4 burst has at most 4096).
    Raises AcceleratorError for values out of range.
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
        """What the port really moves."""
        return self.bus_bytes * self.bus_efficiency_percent / 100

    def port_cycles(self, count_bytes: int) -> int:
        """Return for how long a transfer of that many bytes holds the port."""
        return -(-count_bytes * 100 // (self.bus_bytes * self.bus_efficiency_percent))
