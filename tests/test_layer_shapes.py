"""Every layer shape of VTA's old test suite gives one result on all four ways to run it.

Stock TVM on integer Relax, the VTA program on the simulator, the ARM kernel on this machine, and
the ARM kernel for aarch64 under qemu-user.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from layer_shapes import SHAPES, layer

from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.quantize.emit import emit_layer
from edgepipe.runtime.arm_stage import ArmStage
from edgepipe.runtime.simulator import Simulator
from edgepipe.tvm_adapter import ModuleBuilder, run_module
from vta_stages import layout
from vta_stages.accelerator import Accelerator
from vta_stages.compiler import compile_program

STAGE_RUNNER = (
    Path(__file__).resolve().parent.parent / "build" / "aarch64" / "bin" / "edgepipe-arm-stage"
)

pytestmark = [pytest.mark.sim, pytest.mark.cross]


@pytest.mark.parametrize("shape", SHAPES)
def test_four_ways_to_run_a_layer_give_the_same_bits(shape, tmp_path):
    tested = layer(shape)
    source, target = tested.input, tested.output
    builder = ModuleBuilder()
    builder.param("x", (1, source.channels, source.height, source.width), "int8")
    emit_layer(builder, tested)
    module = builder.finish(["y"])
    picture = np.random.default_rng(len(shape)).integers(
        -128, 128, (1, source.channels, source.height, source.width), np.int8
    )
    expected = run_module(module, {"x": picture})["y"]
    assert np.unique(expected).size > min(100, expected.size // 2)  # the whole range is used

    assert np.array_equal(on_the_simulator(tested, picture), expected)
    compile_arm_stage(module).write(tmp_path)
    with ArmStage(tmp_path) as stage:
        assert np.array_equal(stage.run({"x": picture})["y"], expected)
    assert np.array_equal(on_aarch64(tmp_path, picture, target), expected)


def on_the_simulator(tested, picture):
    accelerator = Accelerator()
    program = compile_program(accelerator, [tested], ["x"], ["y"])
    with Simulator(accelerator) as simulator:
        ran = simulator.run_program(program, {"x": layout.pack_activation(accelerator, picture)})
    target = tested.output
    packed = layout.activation_shape(accelerator, target.channels, target.height, target.width)
    blocks = ran["y"].view(np.int8).reshape(packed)
    return layout.unpack_activation(accelerator, blocks, target.channels)


def on_aarch64(stage, picture, target):
    qemu = shutil.which("qemu-aarch64-static")
    assert qemu, "qemu-aarch64-static is missing; `make packages` installs it"
    assert STAGE_RUNNER.is_file(), f"{STAGE_RUNNER} is missing; `make test` builds it"
    picture.tofile(stage / "x.bin")
    subprocess.run(
        [
            *(qemu, "-L", "/usr/aarch64-linux-gnu"),
            *(STAGE_RUNNER, stage, "1", stage / "x.bin", stage / "y.bin"),
        ],
        env=os.environ | {"QEMU_CPU": "cortex-a53"},
        check=True,
        timeout=120,
        capture_output=True,
    )
    return np.fromfile(stage / "y.bin", np.int8).reshape(
        1, target.channels, target.height, target.width
    )
