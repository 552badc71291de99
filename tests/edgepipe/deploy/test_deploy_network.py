"""Build a network, deploy it with the real edgepipe-run, and run its golden input on the board."""

import json
import subprocess

import numpy as np
import onnx
import pytest
from needs import lacking
from onnx import TensorProto, helper, numpy_helper
from small_networks import with_wrong_golden

from edgepipe import boards
from edgepipe.deploy import deployment, payload
from edgepipe.deploy.deployment import DeployOptions
from edgepipe.deploy.session import GoldenError
from edgepipe.errors import DeployError
from edgepipe.recipe import BuildOptions, build_bundle

pytestmark = pytest.mark.sim

DESCRIPTION = """
[preprocess]
width = 8
height = 8
order = "RGB"
mean = [127.0, 127.0, 127.0]
std = [64.0, 64.0, 64.0]

[postprocess]
kind = "none"
"""


def write_network(path):
    """Write two 3x3 convolutions, float32[1, 3, 8, 8] to float32[1, 16, 8, 8]."""
    random = np.random.default_rng(7)

    def conv(name, source, inputs, outputs):
        weights = random.standard_normal((outputs, inputs, 3, 3)).astype(np.float32) / 8
        weight = numpy_helper.from_array(weights, f"{name}_weight")
        node = helper.make_node("Conv", [source, weight.name], [name], name, pads=[1] * 4)
        return node, weight

    first, first_weight = conv("first", "image", 3, 16)
    second, second_weight = conv("second", "first_relu", 16, 16)
    graph = helper.make_graph(
        [first, helper.make_node("Relu", ["first"], ["first_relu"], "first_relu"), second],
        "two",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("second", TensorProto.FLOAT, [1, 16, 8, 8])],
        [first_weight, second_weight],
    )
    opset = helper.make_opsetid("", 13)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("network")
    write_network(folder / "two.onnx")
    (folder / "two.toml").write_text(DESCRIPTION)
    frames = np.random.default_rng(1).integers(0, 256, (8, 8, 8, 3), dtype=np.uint8)
    np.savez(folder / "frames.npz", frames=frames)
    output = folder / "two.edgepipe"
    build_bundle(
        BuildOptions(
            model=folder / "two.onnx",
            board=boards.load("host"),
            calibration=folder / "frames.npz",
            output=output,
        )
    )
    return output


@pytest.fixture
def options():
    try:
        payload.find_runtime("x86_64", ())
    except DeployError as error:
        lacking(error)
    return DeployOptions(operator="tester@host", golden_timeout_s=60)


def test_the_golden_run_on_the_board_is_bit_equal_and_the_release_runs(board, bundle, options):
    outcome = deployment.deploy(board.target(), deployment.open_source(bundle), options)
    assert (outcome.result, outcome.release) == ("deployed", 1)
    release = board.root / "current"
    ran = subprocess.run(
        [release / "bin/edgepipe-run", release / "bundle", "--golden", "--frames", "3"],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0
    assert len(ran.stdout.splitlines()) == 3
    assert all(json.loads(line) for line in ran.stdout.splitlines())


def test_one_wrong_bit_in_the_golden_output_keeps_the_old_release(board, bundle, options, tmp_path):
    deployment.deploy(board.target(), deployment.open_source(bundle), options)
    altered = with_wrong_golden(bundle, tmp_path / "altered")
    with pytest.raises(GoldenError, match="release 1 is still current") as caught:
        deployment.deploy(board.target(), deployment.open_source(altered), options)
    assert "second" in str(caught.value)
    assert (board.root / "current").readlink().name == "1"
