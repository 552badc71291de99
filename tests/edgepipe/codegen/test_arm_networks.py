"""Whole networks, all of them placed on ARM: the bits of stock TVM, here and on aarch64."""

import subprocess

import numpy as np
import pytest
from arm_emulator import emulated_stage_command

from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.frontend.network import load_network
from edgepipe.frontend.preprocess import Preprocess
from edgepipe.quantize.quantizer import quantize
from edgepipe.runtime.arm_stage import ArmStage
from edgepipe.tvm_adapter import run_module

pytestmark = pytest.mark.models

GRAY = Preprocess(width=28, height=28, order="GRAY", mean=(0.286,), std=(0.353,), scale=1 / 255)
RGB = Preprocess(
    width=224,
    height=224,
    order="RGB",
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
    scale=1 / 255,
)
BGR = Preprocess(
    width=416,
    height=416,
    order="BGR",
    mean=(103.53, 116.28, 123.675),
    std=(57.375, 57.12, 58.395),
)
# Ranges do not matter for bit equality: networks are calibrated on noise.
NETWORKS = [
    ("fmnist_resnet8.onnx", GRAY),
    pytest.param("fmnist_resnet18.onnx", GRAY, marks=pytest.mark.slow),
    pytest.param("mobilenetv2_imagenet.onnx", RGB, marks=pytest.mark.slow),
    pytest.param("nanodet_g_coco_416.onnx", BGR, marks=pytest.mark.slow),
]


def noise(preprocess, count):
    rng = np.random.default_rng(3)
    shape = (count, 1, preprocess.height, preprocess.width, preprocess.channels)
    return list(rng.integers(0, 256, shape).astype(np.uint8))


def compiled(path, preprocess, folder, arches):
    frames = noise(preprocess, 3)
    network = quantize(load_network(path), iter(frames[:2]), preprocess)
    artifact = compile_arm_stage(network.module, arches=arches)
    artifact.write(folder)
    return network, artifact, {network.input_name: frames[2]}


@pytest.mark.parametrize(("name", "preprocess"), NETWORKS)
def test_a_network_gives_the_bits_of_stock_tvm(name, preprocess, model_path, tmp_path):
    network, _, frame = compiled(model_path(name), preprocess, tmp_path, ("x86_64",))
    expected = run_module(network.module, frame)
    with ArmStage(tmp_path) as stage:
        found = stage.run(frame)
    assert list(found) == list(expected)
    for output, array in expected.items():
        np.testing.assert_array_equal(found[output], array, err_msg=output)


@pytest.mark.cross
@pytest.mark.parametrize(("name", "preprocess"), NETWORKS)
def test_a_network_gives_the_same_bits_on_aarch64(name, preprocess, model_path, tmp_path):
    command = emulated_stage_command()
    folder = tmp_path / "stage"
    _, artifact, frame = compiled(model_path(name), preprocess, folder, ("x86_64", "aarch64"))
    with ArmStage(folder) as stage:
        expected = stage.run(frame)
    files = [tmp_path / tensor.name for tensor in (*artifact.inputs, *artifact.outputs)]
    files[0].write_bytes(next(iter(frame.values())).tobytes())
    done = subprocess.run(
        [*command, str(folder), "1", *map(str, files)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for tensor in artifact.outputs:
        found = np.fromfile(tmp_path / tensor.name, expected[tensor.name].dtype)
        np.testing.assert_array_equal(found, expected[tensor.name].ravel(), err_msg=tensor.name)
