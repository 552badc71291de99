"""The accelerators that random programs run on."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path

from vta_rtl.verilated.device import VerilatedDevice
from vta_rtl.verilated.driver_library import build_driver_library
from vta_stages.accelerator import Accelerator, Extension


@dataclass(frozen=True)
class Machine:
    """An accelerator, and how wide its bus is. Its steps may use each other's results at once."""

    accelerator: Accelerator
    bus_bytes: int

    def library(self, cache: Path, *, waveforms: bool = False) -> Path:
        """Return the Verilated accelerator's library, compiled if ``cache`` does not have it."""
        return _library(self, cache, waveforms)

    def open(self, cache: Path) -> VerilatedDevice:
        """Return the Verilated accelerator, compiled if ``cache`` does not have it."""
        return VerilatedDevice(self.library(cache))


@functools.cache  # to know whether it is there, its Verilog is generated: ten seconds
def _library(machine: Machine, cache: Path, waveforms: bool) -> Path:
    return build_driver_library(
        machine.accelerator, cache, bus_bytes=machine.bus_bytes, waveforms=waveforms
    )


_STOCK = Accelerator(acc_hazard_steps=1)
_SMALL = replace(
    _STOCK,
    uop_buffer_bytes_log2=8,
    inp_buffer_bytes_log2=10,
    wgt_buffer_bytes_log2=11,
    acc_buffer_bytes_log2=12,
    command_queue_depth=2,
    token_queue_depth=1,
)
"""64 uops and elements of each memory, 8 weights, and hardly any queues: fetch mostly waits."""

_FOUR_BY_EIGHT = replace(
    _STOCK,
    revision="0.0.2",
    batch=4,
    block_in=8,
    block_out=8,
    uop_buffer_bytes_log2=10,
    inp_buffer_bytes_log2=12,
    wgt_buffer_bytes_log2=10,
    acc_buffer_bytes_log2=14,
    command_queue_depth=16,
    load_queue_depth=3,
    token_queue_depth=2,
)

_EXTENDED = replace(_STOCK, extensions=tuple(extension.value for extension in Extension))
_NARROW = replace(
    _EXTENDED,
    block_in=8,
    block_out=8,
    uop_buffer_bytes_log2=10,
    inp_buffer_bytes_log2=12,
    wgt_buffer_bytes_log2=12,
    acc_buffer_bytes_log2=14,
)

_RECTANGULAR = replace(_NARROW, block_in=16, wgt_buffer_bytes_log2=13)
_WIDE = replace(_EXTENDED, block_in=32, inp_buffer_bytes_log2=16)

MACHINES = {
    "stock-0.0.1": Machine(_STOCK, 16),
    "stock-0.0.2": Machine(replace(_STOCK, revision="0.0.2"), 8),
    "small-0.0.1": Machine(_SMALL, 16),
    "small-0.0.2": Machine(replace(_SMALL, revision="0.0.2", command_queue_depth=5), 8),
    "4x8-0.0.2": Machine(_FOUR_BY_EIGHT, 16),
    "extended-0.0.1": Machine(_NARROW, 8),
    "extended-0.0.2": Machine(replace(_EXTENDED, revision="0.0.2"), 16),
    "1x16x8-0.0.2": Machine(replace(_RECTANGULAR, revision="0.0.2"), 8),
    "1x32x16-0.0.1": Machine(_WIDE, 16),
}
