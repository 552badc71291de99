"""The simulator gives the bits recorded from the HLS sources, compiled for a PC."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edgepipe.runtime.simulator import Simulator, describe
from vta_stages.accelerator import Accelerator

VECTORS = Path(__file__).parents[2] / "data" / "vta_vectors"
FILES = sorted(VECTORS.glob("*/*.npz"))


def test_all_vectors_are_here() -> None:
    assert len(FILES) == 72


@pytest.mark.sim
@pytest.mark.parametrize("kernel", describe(Accelerator()).kernels)
@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_recorded_vector_gives_the_recorded_bits(file: Path, kernel: str) -> None:
    vector = np.load(file)
    simulator = Simulator(Accelerator(revision=file.parent.name), kernel=kernel)
    after = simulator.run_image(vector["insns"], vector["dram_before"])
    np.testing.assert_array_equal(after, vector["dram_after"])
