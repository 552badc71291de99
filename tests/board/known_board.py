"""A board whose costs are known, for the virtual Ultra96: its clock is so slow that the simulator
keeps up with it, and no other board has its costs."""

from __future__ import annotations

from pathlib import Path

from edgepipe import boards
from edgepipe.virtual_board.fpga_model import FpgaOptions

CLOCK_HZ = 8_000_000
BOARD = f"""\
name = "known"
description = "a board whose costs are known"
part = ""
architecture = "aarch64"
cpu = "cortex-a53"
cores = 4
bitstream = ""

[accelerator]
clock_hz = {CLOCK_HZ}

[timing]
instruction_cycles = 21
alu_step_cycles = 3
alu_vector_step_cycles = 4
loop_cycles = 9
dma_row_cycles = 61
bus_bytes = 8
bus_efficiency_percent = 67
weight_efficiency_percent = 41
tensor_load_cycles = 15
store_row_cycles = 47
"""


def write(folder: Path) -> Path:
    """Write the board's file into a folder; return its path."""
    path = folder / "known.toml"
    path.write_text(BOARD)
    return path


def fpga(path: Path) -> FpgaOptions:
    """Return an FPGA that takes the time of the board at ``path``."""
    board = boards.load(str(path))
    return FpgaOptions(accelerator=board.accelerator, timing=board.timing)
