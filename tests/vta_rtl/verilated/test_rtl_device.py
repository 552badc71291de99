"""The board's driver on the Verilated accelerator: ``--device rtl:LIBRARY``."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from needs import BUILD, built
from small_networks import build_small_bundle

from edgepipe import boards
from edgepipe.bitstream.fingerprint import EXIT_CODES
from edgepipe.doctor import hardware
from edgepipe.recipe import BuildOptions, build_bundle
from vta_rtl.registers.register_table import configuration_hash
from vta_stages.accelerator import Accelerator

pytestmark = [pytest.mark.sim, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[3] / "examples"
SIDE = 16


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle for the Ultra96, whose accelerator has revision 0.0.1."""
    return build_small_bundle(tmp_path_factory.mktemp("rtl"), "ultra96", SIDE)


def run(
    bundle: Path, device: str, *options: str, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    command = [built("edgepipe-run"), bundle, "--device", device, "--no-pin", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder)


def test_a_bundle_gives_its_golden_outputs_through_registers_and_interrupt(
    bundle: Path, libraries: dict[str, Path]
) -> None:
    ran = run(bundle, f"rtl:{libraries['0.0.1']}", "--golden", "--device-timeout", "60")
    assert ran.returncode == 0, ran.stderr


def test_a_real_network_gives_its_golden_outputs(
    libraries: dict[str, Path], tmp_path: Path
) -> None:
    """ResNet-8: its first convolution on this processor, its other layers on the accelerator."""
    options = BuildOptions(
        model=EXAMPLES / "fmnist_resnet8.onnx",
        board=boards.load("ultra96"),
        calibration=EXAMPLES / "calibration",
        output=tmp_path / "resnet8.edgepipe",
    )
    stages = [stage.kind for stage in build_bundle(options).stages]
    assert stages == ["arm", "vta", "arm"]
    device = f"rtl:{libraries['0.0.1']}"
    ran = run(options.output, device, "--golden", "--frames", "2", "--device-timeout", "60")
    assert ran.returncode == 0, ran.stderr
    assert "golden: 2 frames" in ran.stderr


def test_a_library_of_another_revision_is_refused(bundle: Path, libraries: dict[str, Path]) -> None:
    ran = run(bundle, f"rtl:{libraries['0.0.2']}", "--golden")
    assert ran.returncode == EXIT_CODES["encoding revision"]
    assert "the FPGA has instructions of revision 0.0.2, expected 0.0.1" in ran.stderr
    assert "hint: name the accelerator in the board's file as the bitstream has it" in ran.stderr


@pytest.mark.parametrize("revision", ["0.0.1", "0.0.2"])
def test_the_doctor_says_what_the_hardware_is(
    revision: str, libraries: dict[str, Path], tmp_path: Path
) -> None:
    accelerator = tmp_path / "accelerator.json"
    accelerator.write_text(json.dumps(Accelerator().values()))
    command = [built("edgepipe-vta-run"), f"--accelerator={accelerator}", "--registers"]
    ran = subprocess.run(
        [*command, f"--rtl={libraries[revision]}"], capture_output=True, text=True, check=True
    )
    found = hardware.parse(ran.stdout, "rtl")
    assert (found.own, found.revision, found.error) == (True, revision, "")
    assert found.capabilities == ("counters", "window", "errors", "interrupt", "abort")
    if revision == "0.0.1":
        assert found.configuration == configuration_hash(Accelerator(), 16)
        assert found.differs == ""
    else:
        assert "instructions of revision 0.0.2, expected 0.0.1" in found.differs


def test_a_run_that_takes_too_long_is_aborted_and_its_cycles_are_reported(
    bundle: Path, libraries: dict[str, Path]
) -> None:
    ran = run(bundle, f"rtl:{libraries['0.0.1']}", "--golden", "--device-timeout", "0.001")
    assert ran.returncode != 0
    assert "; nothing of the program is left in the accelerator" in ran.stderr
    assert " cycles, fetch busy " in ran.stderr


@pytest.mark.parametrize(
    ("library", "said", "hint"),
    [
        (
            Path("gone.so"),
            "RTL library gone.so: cannot be loaded",
            "hint: check its path, and that it is built for this machine",
        ),
        (
            BUILD / "host/lib/libedgepipe_c.so",
            "lacks functions of a Verilated accelerator",
            "hint: build it with vta_rtl.verilated.driver_library",
        ),
    ],
)
def test_another_library_is_refused(bundle: Path, library: Path, said: str, hint: str) -> None:
    ran = run(bundle, f"rtl:{library}", "--golden")
    assert ran.returncode != 0
    assert said in ran.stderr
    assert hint in ran.stderr


def test_a_name_without_a_folder_is_a_file_here(bundle: Path) -> None:
    library = BUILD / "host/lib/libedgepipe_c.so"
    ran = run(bundle, f"rtl:{library.name}", "--golden", folder=library.parent)
    assert "libedgepipe_c.so: lacks functions" in ran.stderr
