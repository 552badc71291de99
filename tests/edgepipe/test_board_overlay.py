"""The overlays of ``board/`` compile and contain the names that the driver looks for."""

import subprocess
from pathlib import Path

import needs
import pytest

from edgepipe.doctor import checks, memory

BOARD = Path(__file__).parents[2] / "board"


@pytest.mark.parametrize(("board", "address"), [("ultra96", "a0000000"), ("pynq-z2", "43c00000")])
def test_an_overlay_compiles_and_has_the_drivers_names(board, address):
    dtc = needs.installed("dtc", "device-tree-compiler")
    overlay = BOARD / f"{board}-overlay.dts"
    done = subprocess.run(
        [dtc, "-@", "-I", "dts", "-O", "dtb", overlay], capture_output=True, check=True
    )
    assert done.stderr == b""
    names = (f"{checks.REGISTERS}@{address}", memory.BUFFER, "generic-uio", "ikwzm,u-dma-buf")
    for name in names:
        assert name.encode() + b"\0" in done.stdout
