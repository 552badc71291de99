"""The cores of a stage share a kernel in pieces small enough to finish together."""

import math

import numpy as np
import pytest
import tvm_ffi
from arm_layers import module_of, spec
from tvm import tirx

from bench.arm import STEMS, relax_stage
from edgepipe.codegen.arm import tensor_ir
from edgepipe.codegen.arm.layouts import Blocks
from edgepipe.codegen.arm.lowering import Lowering
from edgepipe.codegen.arm.neon import A64_NEON
from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.errors import CodegenError
from edgepipe.partition.operators import match_operators
from edgepipe.runtime.arm_stage import ArmStage
from edgepipe.tvm_adapter import read_main, run_module
from vta_stages.layers.records import Conv, Epilogue, MaxPool

# Pieces of a shared loop; a free thread takes one (cpp_runtime/src/stage/kernel_library.cc).
PARTS = 64


def convolution(inputs, outputs, extent, kernel, stride=1, groups=1):
    pad = kernel // 2
    size = (extent + 2 * pad - kernel) // stride + 1
    return Conv(
        name="y",
        input=spec("x", inputs, extent, extent),
        output=spec("y", outputs, size, size),
        weight=np.ones((outputs, inputs // groups, kernel, kernel), np.int8),
        epilogue=Epilogue(
            bias=np.zeros(outputs, np.int32), shift=np.full(outputs, 7, np.int32), low=0, high=127
        ),
        stride=(stride, stride),
        padding=(pad,) * 4,
        groups=groups,
    )


def shared_loops(layer):
    """Return how many iterations each shared loop of a layer's kernel has."""
    module = module_of([layer], [layer.input])
    lowering = Lowering(
        module=module,
        main=read_main(module),
        operators=match_operators(module),
        input_layouts={"x": Blocks(block=16)},
        output_layouts={"y": Blocks(block=16)},
    )
    lowering.run()
    (kernel,) = lowering.kernels.values()
    found = []

    def visit(loop):
        if loop.kind == tirx.ForKind.PARALLEL:
            found.append(int(loop.extent))

    tvm_ffi.structural_walk(kernel.build(A64_NEON), (tirx.For, visit))
    return found


LAYERS = {
    "ResNet-18 stem": convolution(3, 64, 224, 7, stride=2),
    "NanoDet stem": convolution(3, 32, 416, 3, stride=2),
    "ResNet-18 body": convolution(64, 64, 56, 3),
    "ResNet-18 end": convolution(512, 512, 7, 3),
    "pointwise": convolution(96, 24, 56, 1),
    "depthwise": convolution(144, 144, 56, 3, groups=144),
    "max pool": MaxPool(
        name="y",
        input=spec("x", 64, 112, 112),
        output=spec("y", 64, 56, 56),
        kernel=(3, 3),
        stride=(2, 2),
        padding=(1, 1, 1, 1),
    ),
}


def longest_share(iterations, threads):
    """Return the largest share of a thread if all threads are equally fast."""
    part = math.ceil(iterations / PARTS)
    return math.ceil(math.ceil(iterations / part) / threads) * part / iterations


@pytest.mark.parametrize("threads", [2, 3, 4])
@pytest.mark.parametrize("name", LAYERS)
def test_no_thread_has_a_tenth_more_than_its_share(name, threads):
    *staging, work = shared_loops(LAYERS[name])
    assert longest_share(work, threads) <= 1.1 / threads
    assert all(longest_share(rows, threads) <= 1.2 / threads for rows in staging)


def test_a_small_kernel_is_not_worth_waking_a_core_for():
    assert shared_loops(convolution(16, 16, 5, 3)) == []


@pytest.mark.parametrize("stem", STEMS, ids=lambda stem: stem.name.split()[0])
def test_real_first_convolutions_give_the_bits_of_stock_tvm(stem, variant, tmp_path):
    """Their register tiles have the maximum size."""
    module = relax_stage(stem.layer())
    frame = np.random.default_rng(2).integers(0, 256, (1, stem.extent, stem.extent, 3), np.uint8)
    expected = run_module(module, {"frame": frame})["features"]
    compile_arm_stage(module, arches=("x86_64",)).write(tmp_path)
    for threads in (1, 2, 3):
        with ArmStage(tmp_path, threads=threads) as stage:
            found = stage.run({"frame": frame})["features"]
        np.testing.assert_array_equal(found, expected, err_msg=f"{threads} threads")


def test_a_shared_loop_may_not_allocate_more_than_a_thread_has(monkeypatch):
    monkeypatch.setattr(tensor_ir, "LOOP_SCRATCH_BYTES", 64)
    with pytest.raises(CodegenError, match=r"a loop that cores share allocates \d+ bytes"):
        compile_arm_stage(relax_stage(STEMS[0].layer()), arches=("x86_64",))
