"""Every layer shape of VTA's old test suite gives one result on all four ways to run it.

Stock TVM on integer Relax, the VTA program on the simulator, the ARM kernel on this machine, and
the ARM kernel for a board, aarch64 or armhf, under qemu-user.
"""

from __future__ import annotations

import numpy as np
import pytest
from emulated_stage import run_emulated
from layer_shapes import SHAPES, layer, picture
from levels import every

from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.quantize.normal_forms import write_layer
from edgepipe.runtime.arm_stage import ArmStage
from edgepipe.runtime.simulator import Simulator
from edgepipe.tvm_adapter import ModuleBuilder, run_module
from vta_stages.accelerator import Accelerator
from vta_stages.compiler import compile_program
from vta_stages.isa import layout

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("shape", every(6, SHAPES))
def test_four_ways_to_run_a_layer_give_the_same_bits(shape, architecture, tmp_path):
    tested = layer(shape)
    source = tested.input
    builder = ModuleBuilder()
    builder.param("x", (1, source.channels, source.height, source.width), "int8")
    write_layer(builder, tested)
    module = builder.finish(["y"])
    frame = picture(tested)
    reference = run_module(module, {"x": frame})
    expected = reference["y"]
    assert np.unique(expected).size > min(100, expected.size // 2)  # the whole range is used

    assert np.array_equal(on_the_simulator(tested, frame), expected)
    compile_arm_stage(module, arches=("x86_64", architecture)).write(tmp_path)
    with ArmStage(tmp_path) as stage:
        assert np.array_equal(stage.run({"x": frame})["y"], expected)
    found = run_emulated(architecture, tmp_path, {"x": frame}, reference)
    assert np.array_equal(found["y"], expected)


def on_the_simulator(tested, frame):
    accelerator = Accelerator()
    program = compile_program(accelerator, [tested], ["x"], ["y"])
    with Simulator(accelerator) as simulator:
        ran = simulator.run_program(program, {"x": layout.pack_activation(accelerator, frame)})
    target = tested.output
    packed = layout.activation_shape(accelerator, target.channels, target.height, target.width)
    blocks = ran["y"].view(np.int8).reshape(packed)
    return layout.unpack_activation(accelerator, blocks, target.channels)
