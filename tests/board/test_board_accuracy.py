"""``edgepipe accuracy`` on a board: the simulator's bits, or an error that says which differ."""

from __future__ import annotations

import re

import pytest

from edgepipe import boards
from edgepipe.accuracy import measurement
from edgepipe.bundle import storage
from edgepipe.cli.main import main
from edgepipe.virtual_board.fpga_model import FpgaOptions

pytestmark = [pytest.mark.board, pytest.mark.models]


@pytest.fixture(scope="module")
def command(board, resnet8, model_path):
    """Return the command that runs two pictures on the board, and compares no layers with float."""
    frames = resnet8.parent / "frames.npz"
    return [
        *("accuracy", str(resnet8), "--network", str(model_path("fmnist_resnet8"))),
        *("--calib", str(frames), "--data", str(frames), "--pictures", "2"),
        *("--layer-pictures", "0", "--device", "uio", "--allow-root", *board.options),
    ]


@pytest.fixture(scope="module", autouse=True)
def quantised_once():
    """Import and quantise the network for the first test only."""
    load_pair, pairs = measurement.load_pair, []

    def known(*arguments):
        if not pairs:
            pairs.append(load_pair(*arguments))
        return pairs[0]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(measurement, "load_pair", known)
        yield


@pytest.mark.systems
def test_every_tensor_between_stages_is_the_simulators(command, board, capsys):
    assert main(command) == 0
    assert (
        f"{board.host} (uio): every tensor between stages bit-equal to the simulator, 2 pictures"
        in capsys.readouterr().out
    )


@pytest.mark.systems
def test_one_wrong_bit_of_the_accelerator_is_found(command, board, virtual_board, resnet8, capsys):
    accelerator = boards.load("ultra96").accelerator
    virtual_board.load_fpga(FpgaOptions(accelerator=accelerator, faults=("wrong-bit=1",)))
    code = main(command)
    errors = capsys.readouterr().err
    assert code == 20, errors
    manifest = storage.read_manifest(resnet8)
    stage = next(stage for stage in manifest.stages if stage.kind == "vta")
    (name,) = stage.outputs
    found = re.search(
        rf"error: {board.host} \(uio\): layer {name} \(stage {stage.name}\) differs from the "
        r"simulator in picture 0, first at element \[0, 0, (\d+), (\d+)\]: (-?\d+) instead of "
        r"(-?\d+) \(1 of \d+ elements\)\n"
        rf"hint: examine the board: edgepipe doctor .*{board.host}",
        errors,
    )
    assert found, errors
    row, column, wrong, right = map(int, found.groups())
    _, _, height, width = manifest.tensor(name).shape
    assert row < height
    assert column < width
    assert (wrong % 256) ^ (right % 256) == 1
