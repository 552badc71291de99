"""What the DRAM behind the Verilated accelerator costs."""

from __future__ import annotations

import ctypes
from dataclasses import astuple, dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCosts:
    """Costs in cycles of the accelerator's clock. The defaults stand for an Ultra96 at 300 MHz.

    ``read_latency_cycles`` from a burst's address to its first beat and ``write_latency_cycles``
    from its last beat to the answer: 167 and 100 ns, assumed. ``bytes_per_cycle`` of all ports
    together: 14, or 4.2 GB/s; the memory's peak is 4.26 GB/s (LPDDR4, 32 bits, 1066 MT/s). Every
    ``refresh_interval_cycles`` (0: never) nothing moves for ``refresh_cycles``: 3.9 us and 280 ns
    (JESD209-4, 8 Gbit a channel). That leaves 3.9 GB/s, as ``board/ultra96.toml`` has it from a
    measurement. For tests: ``stall_percent`` of the cycles a channel pauses at random, from
    ``seed``; each burst of inputs, of weights, or that compute reads takes
    ``load_delay_cycles``, ``weight_delay_cycles`` or ``compute_delay_cycles`` in addition; and one
    burst is held for ``held_cycles``, which those behind it wait for: ``held_burst``, from 0 since
    the costs were set, of the port that has the place ``held_port`` in
    :data:`~vta_rtl.isa.names.MASTERS`.
    """

    read_latency_cycles: int = 50
    write_latency_cycles: int = 30
    bytes_per_cycle: int = 14
    refresh_interval_cycles: int = 1171
    refresh_cycles: int = 84
    stall_percent: int = 0
    seed: int = 0
    load_delay_cycles: int = 0
    weight_delay_cycles: int = 0
    compute_delay_cycles: int = 0
    held_port: int = 0
    held_burst: int = 0
    held_cycles: int = 0

    def as_c(self) -> ctypes.Structure:
        """Return the C structure ``MemoryCosts`` of ``axi_memory.h``."""
        return _CMemoryCosts(*astuple(self))

    def initializer(self) -> str:
        """Return the C++ initializer of the same structure."""
        return ", ".join(f".{f.name} = {getattr(self, f.name)}" for f in fields(self))


class _CMemoryCosts(ctypes.Structure):
    _fields_ = [(field.name, ctypes.c_uint32) for field in fields(MemoryCosts)]
