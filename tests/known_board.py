"""A board whose costs are known, and which no other board has.

Its clock is so slow that the simulator keeps up with it: on this machine, and on the virtual
Ultra96.
"""

from __future__ import annotations

from pathlib import Path

from edgepipe import boards
from edgepipe.virtual_board.fpga_model import FpgaOptions

CLOCK_HZ = 8_000_000  # of the virtual Ultra96


def text(
    *,
    architecture: str = "aarch64",
    cpu: str = "cortex-a53",
    cores: int = 4,
    clock_hz: int = CLOCK_HZ,
    launch_cycles: int = 0,
) -> str:
    """Return the board's file."""
    return f"""\
name = "known"
description = "a board whose costs are known"
part = ""
architecture = "{architecture}"
cpu = "{cpu}"
cores = {cores}
bitstream = ""

[accelerator]
clock_hz = {clock_hz}

[timing]
instruction_cycles = 21
alu_step_cycles = 3
alu_vector_step_cycles = 4
loop_cycles = 9
dma_row_cycles = 61
bus_bytes = 8
bus_efficiency_percent = 67
weight_efficiency_percent = 41
launch_cycles = {launch_cycles}
tensor_load_cycles = 15
store_row_cycles = 47
"""


def write(folder: Path) -> Path:
    """Write the file of the board on the virtual Ultra96 into a folder; return its path."""
    path = folder / "known.toml"
    path.write_text(text())
    return path


def fpga(path: Path) -> FpgaOptions:
    """Return an FPGA that takes the time of the board at ``path``."""
    board = boards.load(str(path))
    return FpgaOptions(accelerator=board.accelerator, timing=board.timing)
