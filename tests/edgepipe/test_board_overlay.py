"""``board/ultra96-overlay.dts`` compiles and names what the driver looks for."""

import subprocess
from pathlib import Path

from needs import installed

from edgepipe.doctor import checks

OVERLAY = Path(__file__).parents[2] / "board" / "ultra96-overlay.dts"


def test_the_overlay_compiles_and_has_the_drivers_names():
    dtc = installed("dtc", "device-tree-compiler")
    done = subprocess.run(
        [dtc, "-@", "-I", "dts", "-O", "dtb", OVERLAY], capture_output=True, check=True
    )
    assert done.stderr == b""
    names = (f"{checks.REGISTERS}@a0000000", checks.BUFFER, "generic-uio", "ikwzm,u-dma-buf")
    for name in names:
        assert name.encode() + b"\0" in done.stdout
