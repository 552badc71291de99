"""An ARM stage's kernels for a board, run by qemu-user as its processor."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from needs import emulated
from numpy.typing import NDArray

Tensors = Mapping[str, NDArray[Any]]


def run_emulated(
    architecture: str, stage: Path, inputs: Tensors, like: Tensors, *, threads: int = 1
) -> dict[str, NDArray[Any]]:
    """Run the stage in a folder once; outputs have the names, shapes and dtypes of ``like``.

    Inputs and outputs are in the plan's order. The files are in the stage's folder.
    """
    command = emulated("edgepipe-arm-stage", architecture)
    read = [stage / f"{name}.in" for name in inputs]
    written = [stage / f"{name}.out" for name in like]
    for file, array in zip(read, inputs.values(), strict=True):
        array.tofile(file)
    done = subprocess.run(
        [*command, "--threads", str(threads), stage, "1", *read, *written],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return {
        name: np.fromfile(file, array.dtype).reshape(array.shape)
        for file, (name, array) in zip(written, like.items(), strict=True)
    }
