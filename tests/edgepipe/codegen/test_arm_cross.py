"""The same kernels on boards, under qemu-user, compute the same bits as on this machine."""

import numpy as np
import pytest
from arm_layers import first_convolution, spec
from emulated_stage import run_emulated
from levels import every, long

from edgepipe.codegen.arm import tensor_ir
from edgepipe.codegen.arm.layouts import Blocks
from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.quantize.normal_forms import write_input_table, write_layer
from edgepipe.runtime.arm_stage import ArmStage
from edgepipe.tvm_adapter import ModuleBuilder, run_module
from vta_stages.layers.records import (
    Concat,
    Conv,
    Epilogue,
    Leaky,
    LeakySum,
    MaxPool,
    Pick,
    Product,
    Projection,
    Resize,
    Sum,
    Table,
    Term,
    TransposedConv,
)


def network(rng):
    """Every kind of operator once, from a camera frame to a float head; weights of -128 too."""

    def epilogue(channels, leaky=False):
        offset = rng.integers(0, 200, channels).astype(np.int32)
        return Epilogue(
            bias=rng.integers(-4000, 4000, channels).astype(np.int32),
            shift=rng.integers(5, 12, channels).astype(np.int32),
            low=-128,
            high=120,
            leaky=Leaky(offset=offset, steps=((2, LeakySum.TO_VALUE), (1, LeakySum.NOTHING)))
            if leaky
            else None,
        )

    def weights(low, *shape):
        return rng.integers(low, 128, shape).astype(np.int8)

    builder = ModuleBuilder()
    builder.param("frame", (1, 20, 24, 3), "uint8")
    write_input_table(builder, "image", "frame", rng.integers(-128, 128, (3, 256)).astype(np.int8))
    stem, wide, deep = spec("stem", 16, 10, 12), spec("wide", 20, 10, 12), spec("deep", 16, 10, 12)
    same = (1, 1, 1, 1)
    small, large = spec("small", 16, 5, 6), spec("large", 16, 10, 12)
    emphasis = Term(tensor=stem, factor=rng.integers(-99, 99, 16).astype(np.int32))
    for layer in (
        Conv(
            name="stem",
            input=spec("image", 3, 20, 24),
            output=stem,
            weight=weights(-127, 16, 3, 3, 3),
            epilogue=epilogue(16, leaky=True),
            stride=(2, 2),
            padding=same,
        ),
        Conv(
            name="wide",
            input=stem,
            output=wide,
            weight=weights(-127, 20, 16, 3, 3),
            epilogue=epilogue(20),
            padding=same,
        ),
        Conv(
            name="depthwise",
            input=wide,
            output=spec("depthwise", 20, 10, 12),
            weight=weights(-128, 20, 1, 3, 3),
            epilogue=epilogue(20),
            padding=same,
            groups=20,
        ),
        Conv(
            name="deep",
            input=spec("depthwise", 20, 10, 12),
            output=deep,
            weight=weights(-128, 16, 20, 1, 1),
            epilogue=epilogue(16),
            terms=(emphasis,),
            projections=(
                Projection(
                    tensor=spec("image", 3, 20, 24), weight=weights(-128, 16, 3), stride=(2, 2)
                ),
            ),
        ),
        MaxPool(name="small", input=deep, output=small, kernel=(2, 2), stride=(2, 2)),
        TransposedConv(
            name="large",
            input=small,
            output=large,
            weight=weights(-127, 16, 16, 4, 4),
            epilogue=epilogue(16),
            stride=(2, 2),
            padding=same,
        ),
        Resize(
            name="resized",
            input=small,
            output=spec("resized", 16, 10, 12),
            rows=np.eye(5, dtype=np.int32).repeat(2, axis=0) * 4,
            cols=np.eye(6, dtype=np.int32).repeat(2, axis=0) * 4,
            shift=4,
        ),
        Pick(
            name="part",
            input=spec("resized", 16, 10, 12),
            output=spec("part", 13, 10, 12),
            channels=tuple(range(3, 16)),
        ),
        Pick(
            name="shuffled",
            input=large,
            output=spec("shuffled", 16, 10, 12),
            channels=tuple(range(0, 16, 2)) + tuple(range(1, 16, 2)),
        ),
        Concat(
            name="joined",
            inputs=(wide, spec("shuffled", 16, 10, 12), spec("part", 13, 10, 12)),
            output=spec("joined", 49, 10, 12),
        ),
        Sum(
            name="total",
            output=spec("total", 16, 10, 12),
            terms=(emphasis, Term(tensor=large, factor=np.full(16, 50, np.int32))),
            epilogue=epilogue(16),
        ),
        Product(
            name="product",
            first=large,
            second=spec("resized", 16, 10, 12),
            output=spec("product", 16, 10, 12),
            factor=rng.integers(-9, 9, 16).astype(np.int32),
            epilogue=epilogue(16, leaky=True),
            terms=(emphasis,),
        ),
        Table(
            name="bent",
            input=spec("product", 16, 10, 12),
            output=spec("bent", 16, 10, 12),
            table=rng.integers(-128, 128, (1, 256)).astype(np.int8),
        ),
        Table(
            name="by_channel",
            input=spec("bent", 16, 10, 12),
            output=spec("by_channel", 16, 10, 12),
            table=rng.integers(-128, 128, (16, 256)).astype(np.int8),
        ),
    ):
        write_layer(builder, layer)
    builder.emit("float_total", "astype", "total", dtype="float32")
    builder.emit("head", "multiply", "float_total", np.float32(0.37))
    return builder.finish(["joined", "total", "head", "bent", "by_channel"])


@pytest.mark.parametrize("threads", [long(1), 3], ids="{0} threads".format)
def test_every_operator_gives_the_same_bits_on_a_board(
    architecture, threads, tmp_path, monkeypatch
):
    if threads > 1:
        monkeypatch.setattr(tensor_ir, "LEAST_SHARED", 0)
    rng = np.random.default_rng(7)
    module = network(rng)
    frame = rng.integers(0, 256, (1, 20, 24, 3)).astype(np.uint8)
    artifact = compile_arm_stage(
        module, output_layouts={"joined": Blocks(block=16)}, arches=("x86_64", architecture)
    )
    folder = tmp_path / "stage"
    artifact.write(folder)
    with ArmStage(folder) as stage:
        expected = stage.run({"frame": frame})
    reference = run_module(module, {"frame": frame})
    for name in ("total", "head", "bent", "by_channel"):
        np.testing.assert_array_equal(expected[name], reference[name])
    found_there = run_emulated(architecture, folder, {"frame": frame}, expected, threads=threads)
    for name, found in found_there.items():
        np.testing.assert_array_equal(found, expected[name], err_msg=name)


@pytest.mark.parametrize("kernel", every(2, [1, 3, 5, 7, 11]), ids="{0}x{0}".format)
@pytest.mark.parametrize("channels", [1, 3])
def test_first_convolutions_of_every_run_length_give_the_same_bits_on_a_board(
    architecture, kernel, channels, tmp_path
):
    module, frame = first_convolution(kernel, channels)
    expected = run_module(module, {"frame": frame})
    compile_arm_stage(module, arches=(architecture,)).write(tmp_path)
    found = run_emulated(architecture, tmp_path, {"frame": frame}, expected)
    np.testing.assert_array_equal(found["features"], expected["features"])
