"""A network built for the PYNQ-Z2 runs on its 32-bit processor, bit for bit: `make board`."""

import subprocess

import numpy as np
import pytest
from needs import emulated

from edgepipe import boards
from edgepipe.bundle import storage
from edgepipe.recipe import BuildOptions, build_bundle

pytestmark = [pytest.mark.armhf, pytest.mark.sim, pytest.mark.models]


@pytest.fixture(scope="module")
def bundle(model_path, fashion_mnist, tmp_path_factory):
    """Return the bundle of a small ResNet for Fashion-MNIST, built for the PYNQ-Z2."""
    frames, _ = fashion_mnist("train")
    folder = tmp_path_factory.mktemp("resnet8")
    np.savez(folder / "frames.npz", frames=frames[:32])
    output = folder / "resnet8.edgepipe"
    build_bundle(
        BuildOptions(
            model=model_path("fmnist_resnet8"),
            board=boards.load("pynq-z2"),
            calibration=folder / "frames.npz",
            output=output,
        )
    )
    return output


def test_the_golden_run_as_a_cortex_a9_is_bit_equal(bundle):
    assert "armhf" in storage.read_manifest(bundle).architectures
    command = [*emulated("edgepipe-run", "armhf"), bundle, "--golden", "--frames", "2"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "golden: 2 frames x 1 outputs are bit-equal" in ran.stderr
