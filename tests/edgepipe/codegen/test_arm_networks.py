"""Whole networks placed on ARM give the bits of stock TVM, here and on boards."""

import numpy as np
import pytest
from emulated_stage import run_emulated
from levels import long

from bench import models
from edgepipe import description
from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.frontend.network import load_network
from edgepipe.quantize.quantizer import quantize
from edgepipe.runtime.arm_stage import ArmStage
from edgepipe.tvm_adapter import run_module

pytestmark = pytest.mark.models

# Ranges do not matter for bit equality: networks are calibrated on noise.
RESNET, MOBILENET, NANODET = "fmnist_resnet8", "mobilenetv2_imagenet", "nanodet_g_coco_416"


def noise(preprocess, count):
    rng = np.random.default_rng(3)
    shape = (count, 1, preprocess.height, preprocess.width, preprocess.channels)
    return list(rng.integers(0, 256, shape).astype(np.uint8))


def compiled(path, folder, arches):
    preprocess = description.load(models.description(path.stem)).preprocess
    frames = noise(preprocess, 3)
    network = quantize(load_network(path), iter(frames[:2]), preprocess)
    compile_arm_stage(network.module, arches=arches).write(folder)
    return network, {network.input_name: frames[2]}


@pytest.mark.parametrize("name", [RESNET, long(NANODET), long(MOBILENET)])
def test_a_network_gives_the_bits_of_stock_tvm(name, variant, model_path, tmp_path):
    network, frame = compiled(model_path(name), tmp_path, ("x86_64",))
    expected = run_module(network.module, frame)
    for threads in (1, 2, 3):
        with ArmStage(tmp_path, threads=threads) as stage:
            found = stage.run(frame)
        assert list(found) == list(expected)
        for output, array in expected.items():
            np.testing.assert_array_equal(found[output], array, err_msg=f"{output}, {threads}")


@pytest.mark.parametrize("name", [long(RESNET), long(NANODET), long(MOBILENET)])
def test_a_network_gives_the_same_bits_on_a_board(name, architecture, model_path, tmp_path):
    _, frame = compiled(model_path(name), tmp_path, ("x86_64", architecture))
    with ArmStage(tmp_path) as stage:
        expected = stage.run(frame)
    there = run_emulated(architecture, tmp_path, frame, expected, threads=3)
    for output, found in there.items():
        np.testing.assert_array_equal(found, expected[output], err_msg=output)
