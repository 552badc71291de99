"""``board/ultra96-overlay.dts`` compiles and names what the driver looks for."""

import shutil
import subprocess
from pathlib import Path

import pytest

from edgepipe.doctor import checks

OVERLAY = Path(__file__).parents[2] / "board" / "ultra96-overlay.dts"


@pytest.mark.skipif(shutil.which("dtc") is None, reason="no dtc (Debian: device-tree-compiler)")
def test_the_overlay_compiles_and_has_the_drivers_names():
    done = subprocess.run(
        ["dtc", "-@", "-I", "dts", "-O", "dtb", OVERLAY], capture_output=True, check=True
    )
    assert done.stderr == b""
    names = (f"{checks.REGISTERS}@a0000000", checks.BUFFER, "generic-uio", "ikwzm,u-dma-buf")
    for name in names:
        assert name.encode() + b"\0" in done.stdout
