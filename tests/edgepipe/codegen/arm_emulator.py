"""Where the aarch64 stage runner and its emulator are."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "build" / "aarch64" / "bin" / "edgepipe-arm-stage"
EMULATOR = ("qemu-aarch64-static", "-cpu", "cortex-a53", "-L", "/usr/aarch64-linux-gnu")


def emulated_stage_command() -> tuple[str, ...]:
    """Return the command that runs a stage on an emulated Cortex-A53; skips where it is lacking."""
    lacking = None
    if shutil.which(EMULATOR[0]) is None:
        lacking = f"{EMULATOR[0]} is not installed"
    elif not PROGRAM.is_file():
        lacking = f"{PROGRAM.name} is not built for aarch64: make build/aarch64/.built"
    if lacking is not None and os.environ.get("CI"):
        pytest.fail(lacking)
    if lacking is not None:
        pytest.skip(lacking)
    return (*EMULATOR, str(PROGRAM))
