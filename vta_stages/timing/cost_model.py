"""The cost of instructions: the parameters of the timing model, one set per board.

The default costs are those of the HLS source, with estimates for an Ultra96's memory;
``docs/reference/timing-model.md`` says where each comes from. The ``[timing]`` table of a board's
file replaces them with values that were measured, or fitted to measurements.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from vta_stages.errors import AcceleratorError


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """Cycles of the accelerator's clock.

    Each (iter_out, iter_in) pair of a GEMM or ALU instruction takes ``loop_cycles`` extra. An ALU
    step takes ``alu_step_cycles``, with a vector as its second operand ``alu_vector_step_cycles``
    (0: the same). A row of a transfer takes ``dma_row_cycles``. Then its bytes move over the port
    that all modules share, at ``bus_efficiency_percent`` of ``bus_bytes`` per cycle, weights at
    ``weight_efficiency_percent`` (0: like everything else). The port serves another module after
    at most ``burst_bytes`` (an AXI4 burst has at most 4096). Each run of a program takes
    ``launch_cycles`` on the host, and ``cache_kib_cycles`` for each KiB of its inputs and outputs,
    whose cache lines the host writes back before it and drops after it.

    Accelerators that are not made from the HLS source may differ in the rest. Their port may take
    ``reads_in_flight`` read requests of at most ``burst_bytes`` before the first is answered, and
    then has a channel of its own for writes (0: each module requests one row after the other, and
    all share the port). A load of inputs or weights takes ``tensor_load_cycles`` extra. A row of a
    store takes ``store_row_cycles`` (0: as ``dma_row_cycles``), and ``store_burst_cycles`` for each
    ``store_burst_bytes`` (0: any number) after the first. Raises AcceleratorError for values out of
    range.
    """

    instruction_cycles: int = 12
    gemm_step_cycles: int = 1
    alu_step_cycles: int = 2
    alu_vector_step_cycles: int = 0
    loop_cycles: int = 6
    dma_row_cycles: int = 80
    bus_bytes: int = 16
    bus_efficiency_percent: int = 80
    weight_efficiency_percent: int = 0
    burst_bytes: int = 4096
    launch_cycles: int = 0
    cache_kib_cycles: int = 0
    reads_in_flight: int = 0
    tensor_load_cycles: int = 0
    store_row_cycles: int = 0
    store_burst_bytes: int = 0
    store_burst_cycles: int = 0

    def __post_init__(self) -> None:
        least = {"gemm_step_cycles": 1, "alu_step_cycles": 1, "bus_bytes": 1, "burst_bytes": 16}
        least |= {"bus_efficiency_percent": 1}
        for field in fields(self):
            value, low = getattr(self, field.name), least.get(field.name, 0)
            if value < low:
                raise AcceleratorError(f"timing: {field.name} is {value}, expected >= {low}")
        for name in ("bus_efficiency_percent", "weight_efficiency_percent"):
            if getattr(self, name) > 100:
                raise AcceleratorError(
                    f"timing: {name} is {getattr(self, name)}, expected at most 100"
                )

    @property
    def bytes_per_cycle(self) -> float:
        """The effective throughput of the port for everything except weights."""
        return self.bus_bytes * self.bus_efficiency_percent / 100

    @property
    def weight_bytes_per_cycle(self) -> float:
        """The effective throughput of the port for weights."""
        return self.bus_bytes * self._weight_percent / 100

    def port_cycles(self, count_bytes: int, *, weights: bool = False) -> int:
        """Return how many cycles a transfer of ``count_bytes`` occupies the port."""
        percent = self._weight_percent if weights else self.bus_efficiency_percent
        return -(-count_bytes * 100 // (self.bus_bytes * percent))

    def host_cycles(self, border_bytes: int) -> int:
        """Return what the host takes for a run of a program whose inputs and outputs have
        ``border_bytes``."""
        return self.launch_cycles - (-border_bytes * self.cache_kib_cycles // 1024)

    @property
    def vector_step_cycles(self) -> int:
        """The cycles of an ALU step whose second operand is a vector."""
        return self.alu_vector_step_cycles or self.alu_step_cycles

    def store_row_latency(self, row_bytes: int) -> int:
        """Return the latency of a row of a store, all its bursts together."""
        latency = self.store_row_cycles or self.dma_row_cycles
        if self.store_burst_bytes and row_bytes:
            latency += (-(-row_bytes // self.store_burst_bytes) - 1) * self.store_burst_cycles
        return latency

    def load_latency(self, rows: float, instructions: float) -> float:
        """Return the latencies of rows that ``instructions`` load, for estimates."""
        if self.reads_in_flight > 1:
            rows = instructions + (rows - instructions) / self.reads_in_flight
        return rows * self.dma_row_cycles

    @property
    def _weight_percent(self) -> int:
        return self.weight_efficiency_percent or self.bus_efficiency_percent
