"""Whole ARM stages: fused input table, generic tails, layouts at the boundary, files and errors."""

import dataclasses
import json
from itertools import pairwise

import numpy as np
import pytest
from arm_layers import module_of, packed, spec

from edgepipe.codegen.arm import kernels
from edgepipe.codegen.arm.chains import MOST_INSIDE
from edgepipe.codegen.arm.layouts import Blocks, FoldedBlocks
from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.errors import CodegenError, RuntimeFailure
from edgepipe.quantize.normal_forms import write_input_table, write_layer
from edgepipe.runtime.arm_stage import ArmStage
from edgepipe.tvm_adapter import ModuleBuilder, run_module
from vta_stages.layers.records import (
    Conv,
    Epilogue,
    MaxPool,
    Pick,
    PixelAffine,
    Product,
    Projection,
    Quotient,
    Sum,
    Table,
    Term,
)

RNG = np.random.default_rng(20)
FRAME = RNG.integers(0, 256, (1, 21, 30, 3)).astype(np.uint8)
TABLE = RNG.integers(-128, 128, (3, 256)).astype(np.int8)


def epilogue(channels, shift=8):
    return Epilogue(
        bias=RNG.integers(-999, 999, channels).astype(np.int32),
        shift=np.full(channels, shift, np.int32),
        low=-128,
        high=127,
    )


def first_convolution(reads="image"):
    return Conv(
        name="features",
        input=spec(reads, 3, 21, 30),
        output=spec("features", 20, 11, 15),
        weight=RNG.integers(-127, 128, (20, 3, 3, 3)).astype(np.int8),
        epilogue=epilogue(20),
        stride=(2, 2),
        padding=(1, 1, 1, 1),
    )


@pytest.fixture
def frame_stage():
    """A builder that has bound ``image``, the int8 picture of the camera's ``frame``."""
    builder = ModuleBuilder()
    builder.param("frame", FRAME.shape, "uint8")
    write_input_table(builder, "image", "frame", TABLE)
    return builder


def run(folder, module, inputs, **options):
    artifact = compile_arm_stage(module, arches=("x86_64",), **options)
    artifact.write(folder)
    with ArmStage(folder) as stage:
        return artifact, stage.run(inputs)


def calls(artifact):
    return [call["kernel"] for call in json.loads(artifact.files["plan.json"])["calls"]]


def test_the_first_convolution_is_one_kernel_from_camera_bytes_to_accelerator_blocks(
    frame_stage, variant, tmp_path
):
    write_layer(frame_stage, first_convolution())
    module = frame_stage.finish(["features"])
    artifact, found = run(
        tmp_path, module, {"frame": FRAME}, output_layouts={"features": Blocks(block=16)}
    )
    assert calls(artifact) == ["convolution_0"]
    assert found["features"].shape == (2, 11, 15, 1, 16)
    expected = packed(Blocks(block=16), run_module(module, {"frame": FRAME})["features"])
    expected[1, ..., 4:] = 0  # padding lanes
    np.testing.assert_array_equal(found["features"], expected)


def folded_blocks(picture, factor):
    """Return int8[1, c, h, w] folded, in blocks of 16 channels, zero in the padding lanes."""
    _, channels, height, width = picture.shape
    blocks = -(-channels * factor**2 // 16)
    result = np.zeros((blocks, height // factor, width // factor, 1, 16), np.int8)
    for c, y, x in np.ndindex(channels, height, width):
        lane = (y % factor * factor + x % factor) * channels + c
        result[lane // 16, y // factor, x // factor, 0, lane % 16] = picture[0, c, y, x]
    return result


@pytest.mark.parametrize("factor", [2, 4])
def test_a_camera_picture_is_folded_where_its_table_is_applied(factor, tmp_path):
    frame = RNG.integers(0, 256, (1, 12, 16, 3)).astype(np.uint8)
    builder = ModuleBuilder()
    builder.param("frame", frame.shape, "uint8")
    write_input_table(builder, "image", "frame", TABLE)
    module = builder.finish(["image"])
    layout = FoldedBlocks(block=16, factor=factor, channels=3)
    artifact, found = run(tmp_path, module, {"frame": frame}, output_layouts={"image": layout})
    assert len(calls(artifact)) == 1
    expected = run_module(module, {"frame": frame})["image"]
    np.testing.assert_array_equal(found["image"], folded_blocks(expected, factor))


@pytest.mark.parametrize("factor", [2, 4])
@pytest.mark.parametrize("channels", [3, 8])
def test_other_pictures_are_folded_by_a_copy_and_read_by_a_fallback(channels, factor, tmp_path):
    """The picture is a sum here; in networks it is what floating point makes of the camera's."""
    picture = spec("x", channels, 12, 16)
    layout = FoldedBlocks(block=16, factor=factor, channels=channels)
    term = Term(tensor=picture, factor=np.full(channels, 3, np.int32))
    total = Sum(
        name="total",
        output=dataclasses.replace(picture, name="total"),
        terms=(term,),
        epilogue=epilogue(channels),
    )
    last = Conv(
        name="last",
        input=dataclasses.replace(picture, name="total"),
        output=spec("last", 12, 6, 8),
        weight=RNG.integers(-127, 128, (12, channels, 3, 3)).astype(np.int8),
        epilogue=epilogue(12),
        stride=(2, 2),
        padding=(1, 1, 1, 1),
    )
    value = RNG.integers(-128, 128, (1, channels, 12, 16)).astype(np.int8)
    writes, reads = module_of([total], [picture]), module_of([last], [total.output])
    _, found = run(tmp_path / "0", writes, {"x": value}, output_layouts={"total": layout})
    expected = run_module(writes, {"x": value})["total"]
    np.testing.assert_array_equal(found["total"], folded_blocks(expected, factor))
    given = {"total": found["total"]}
    _, found = run(tmp_path / "1", reads, given, input_layouts={"total": layout})
    np.testing.assert_array_equal(found["last"], run_module(reads, {"total": expected})["last"])


def test_a_projection_is_a_kernel_whose_sums_the_convolution_adds(frame_stage, tmp_path):
    write_layer(frame_stage, first_convolution())
    last = Conv(
        name="last",
        input=spec("features", 20, 11, 15),
        output=spec("last", 12, 11, 15),
        weight=RNG.integers(-127, 128, (12, 20, 1, 1)).astype(np.int8),
        epilogue=epilogue(12),
        terms=(),
        projections=(
            Projection(
                tensor=spec("image", 3, 21, 30),
                weight=RNG.integers(-127, 128, (12, 3)).astype(np.int8),
                stride=(2, 2),
            ),
        ),
    )
    write_layer(frame_stage, last)
    module = frame_stage.finish(["last"])
    artifact, found = run(
        tmp_path, module, {"frame": FRAME}, output_layouts={"last": Blocks(block=16)}
    )
    kernels_called = [c.split("_")[0] for c in calls(artifact)]
    assert kernels_called == ["input", "convolution", "convolution", "convolution"]
    expected = packed(Blocks(block=16), run_module(module, {"frame": FRAME})["last"])
    expected[0, ..., 12:] = 0  # padding lanes
    np.testing.assert_array_equal(found["last"], expected)


def test_a_sum_that_a_projection_reads_has_a_kernel_of_its_own(frame_stage, tmp_path):
    """Each of its elements goes into many sums, also if it has the size of the result."""
    first = first_convolution()
    write_layer(frame_stage, first)
    picture = first.output
    doubled = dataclasses.replace(picture, name="doubled")
    term = Term(tensor=picture, factor=np.full(20, 2, np.int32))
    write_layer(
        frame_stage, Sum(name="doubled", output=doubled, terms=(term,), epilogue=epilogue(20))
    )
    last = Conv(
        name="last",
        input=picture,
        output=dataclasses.replace(picture, name="last"),
        weight=RNG.integers(-127, 128, (20, 20, 1, 1)).astype(np.int8),
        epilogue=epilogue(20),
        projections=(
            Projection(tensor=doubled, weight=RNG.integers(-127, 128, (20, 20)).astype(np.int8)),
        ),
    )
    write_layer(frame_stage, last)
    module = frame_stage.finish(["last"])
    artifact, found = run(tmp_path, module, {"frame": FRAME})
    kernels_called = [c.split("_")[0] for c in calls(artifact)]
    assert kernels_called[:3] == ["convolution", "sum", "convolution"]
    np.testing.assert_array_equal(found["last"], run_module(module, {"frame": FRAME})["last"])


def bent(name, source):
    """A table after a tensor of the first convolution's size."""
    table = RNG.integers(-128, 128, (1, 256)).astype(np.int8)
    picture = [spec(tensor, 20, 11, 15) for tensor in (source, name)]
    return Table(name=name, input=picture[0], output=picture[1], table=table)


def test_tables_end_the_kernels_before_them(frame_stage, tmp_path):
    features, gated = spec("features", 20, 11, 15), spec("gated", 20, 11, 15)
    gate = Product(
        name="gated",
        first=spec("active", 20, 11, 15),
        second=spec("active", 20, 11, 15),
        output=gated,
        factor=np.full(20, 50, np.int32),
        epilogue=epilogue(20),
        terms=(Term(tensor=features, factor=np.full(20, 30, np.int32)),),
    )
    write_layer(frame_stage, first_convolution())
    for layer in (bent("active", "features"), gate, bent("last", "gated"), bent("end", "last")):
        write_layer(frame_stage, layer)
    module = frame_stage.finish(["last", "end"])
    artifact, found = run(tmp_path, module, {"frame": FRAME})
    # The product reads "features", too, and "last" is an output: their tables are kernels.
    expected = ["convolution", "lookup", "product", "copy", "lookup", "copy"]
    assert [c.split("_")[0] for c in calls(artifact)] == expected
    for name, array in run_module(module, {"frame": FRAME}).items():
        np.testing.assert_array_equal(found[name], array)


def total(name, *sources, shift=8):
    """A sum of tensors of the first convolution's size."""
    factors = [RNG.integers(-99, 100, 20).astype(np.int32) for _ in sources]
    terms = [
        Term(tensor=spec(source, 20, 11, 15), factor=factor)
        for source, factor in zip(sources, factors, strict=True)
    ]
    output = spec(name, 20, 11, 15)
    return Sum(name=name, output=output, terms=tuple(terms), epilogue=epilogue(20, shift))


def test_a_chain_of_sums_products_and_tables_is_one_kernel(frame_stage, tmp_path):
    gated = Product(
        name="gated",
        first=spec("bent", 20, 11, 15),
        second=spec("mixed", 20, 11, 15),
        output=spec("gated", 20, 11, 15),
        factor=np.full(20, 50, np.int32),
        epilogue=epilogue(20, shift=12),
    )
    last = Conv(
        name="last",
        input=spec("features", 20, 11, 15),
        output=spec("last", 8, 11, 15),
        weight=RNG.integers(-127, 128, (8, 20, 1, 1)).astype(np.int8),
        epilogue=epilogue(8),
    )
    layers = (
        first_convolution(),
        *(bent("bent", "features"), total("mixed", "features", "features"), gated),
        *(bent("curved", "gated"), total("chained", "curved", "features"), last),
    )
    for layer in layers:
        write_layer(frame_stage, layer)
    module = frame_stage.finish(["chained", "last"])
    artifact, found = run(
        tmp_path, module, {"frame": FRAME}, output_layouts={"chained": Blocks(block=16)}
    )
    expected = ["convolution", "sum", "convolution", "copy"]
    assert [c.split("_")[0] for c in calls(artifact)] == expected
    wanted = run_module(module, {"frame": FRAME})
    np.testing.assert_array_equal(found["last"], wanted["last"])
    chained = packed(Blocks(block=16), wanted["chained"])
    chained[1, ..., 4:] = 0  # padding lanes
    np.testing.assert_array_equal(found["chained"], chained)


def test_a_gated_half_of_the_channels_is_one_kernel(frame_stage, tmp_path):
    """Picks that begin at a whole vector, quotients and constants for each pixel are part of it."""
    half, row = spec("half", 8, 11, 15), np.ones((1, 1, 11, 1), np.int32)
    picks = [
        Pick(
            name=name,
            input=spec("features", 20, 11, 15),
            output=spec(name, 8, 11, 15),
            channels=tuple(range(first, first + 8)),
        )
        for name, first in (("half", 0), ("other", 8))
    ]
    table = RNG.integers(-128, 128, (1, 256)).astype(np.int8)
    gate = Table(name="gate", input=picks[1].output, output=spec("gate", 8, 11, 15), table=table)
    divided = Quotient(
        name="divided",
        first=half,
        second=gate.output,
        output=spec("divided", 8, 11, 15),
        table=RNG.integers(-999, 999, (1, 256)).astype(np.int32),
        epilogue=epilogue(8),
    )
    placed = PixelAffine(
        name="placed",
        input=divided.output,
        output=spec("placed", 8, 11, 15),
        factor=200 * row,
        bias=np.arange(165, dtype=np.int32).reshape(1, 1, 11, 15),
        epilogue=epilogue(8),
    )
    for layer in (first_convolution(), *picks, gate, divided, placed):
        write_layer(frame_stage, layer)
    module = frame_stage.finish(["placed"])
    artifact, found = run(tmp_path, module, {"frame": FRAME})
    assert [c.split("_")[0] for c in calls(artifact)] == ["convolution", "affine", "copy"]
    np.testing.assert_array_equal(found["placed"], run_module(module, {"frame": FRAME})["placed"])


def test_a_long_chain_is_several_kernels(frame_stage, tmp_path):
    """One kernel for a chain of 60 took minutes to compile."""
    names = ["features", *(f"sum{index}" for index in range(MOST_INSIDE + 2))]
    layers = [total(name, source, shift=6) for source, name in pairwise(names)]
    for layer in (first_convolution(), *layers):
        write_layer(frame_stage, layer)
    module = frame_stage.finish(names[-1:])
    artifact, found = run(tmp_path, module, {"frame": FRAME})
    expected = ["convolution", "sum", "sum", "copy"]
    assert [c.split("_")[0] for c in calls(artifact)] == expected
    np.testing.assert_array_equal(found[names[-1]], run_module(module, {"frame": FRAME})[names[-1]])


def test_a_convolution_computes_what_it_adds(frame_stage, tmp_path):
    bends = bent("bent", "features")
    body = Conv(
        name="body",
        input=spec("features", 20, 11, 15),
        output=spec("body", 20, 11, 15),
        weight=RNG.integers(-127, 128, (20, 20, 3, 3)).astype(np.int8),
        epilogue=epilogue(20),
        padding=(1, 1, 1, 1),
        terms=(Term(tensor=spec("bent", 20, 11, 15), factor=np.full(20, 70, np.int32)),),
    )
    for layer in (first_convolution(), bends, body):
        write_layer(frame_stage, layer)
    module = frame_stage.finish(["body"])
    artifact, found = run(tmp_path, module, {"frame": FRAME})
    assert [c.split("_")[0] for c in calls(artifact)] == ["convolution", "convolution", "copy"]
    np.testing.assert_array_equal(found["body"], run_module(module, {"frame": FRAME})["body"])


def test_a_table_that_several_operators_read_is_applied_once(frame_stage, tmp_path):
    image = spec("image", 3, 21, 30)
    write_layer(frame_stage, first_convolution())
    pool = MaxPool(
        name="pool", input=image, output=spec("pool", 3, 10, 15), kernel=(2, 2), stride=(2, 2)
    )
    write_layer(frame_stage, pool)
    module = frame_stage.finish(["features", "pool"])
    artifact, found = run(tmp_path, module, {"frame": FRAME})
    assert calls(artifact)[0].startswith("input_table")
    for name, array in run_module(module, {"frame": FRAME}).items():
        np.testing.assert_array_equal(found[name], array)


def test_a_float_head_is_fused_and_written_straight_to_the_output(frame_stage, tmp_path):
    write_layer(frame_stage, first_convolution())
    frame_stage.emit("wide", "astype", "features", dtype="float32")
    frame_stage.emit("scaled", "multiply", "wide", np.float32(0.125))
    frame_stage.emit("turned", "permute_dims", "scaled", axes=[0, 2, 3, 1])
    frame_stage.emit("scores", "reshape", "turned", (1, 165, 20))
    module = frame_stage.finish(["scores"])
    artifact, found = run(tmp_path, module, {"frame": FRAME})
    assert [c.split("_")[0] for c in calls(artifact)] == ["convolution", "copy", "generic"]
    expected = run_module(module, {"frame": FRAME})["scores"]
    np.testing.assert_array_equal(found["scores"], expected)


def test_a_float_operator_between_quantised_ones(frame_stage, tmp_path):
    write_layer(frame_stage, first_convolution())
    frame_stage.emit("features_float", "astype", "features", dtype="float32")
    frame_stage.emit("gate", "clip", "features_float", -30, 40)
    frame_stage.emit("gate_int8", "astype", "gate", dtype="int8")
    gate = Term(tensor=spec("gate_int8", 20, 11, 15), factor=np.full(20, 3, np.int32))
    features = Term(tensor=spec("features", 20, 11, 15), factor=np.full(20, -2, np.int32))
    total = Sum(
        name="total",
        output=spec("total", 20, 11, 15),
        terms=(gate, features),
        epilogue=epilogue(20, shift=1),
    )
    write_layer(frame_stage, total)
    module = frame_stage.finish(["total"])
    _, found = run(tmp_path, module, {"frame": FRAME})
    np.testing.assert_array_equal(found["total"], run_module(module, {"frame": FRAME})["total"])


def test_an_output_that_is_a_view_of_an_input_is_copied(tmp_path):
    builder = ModuleBuilder()
    builder.param("x", (1, 4, 3, 5), "int8")
    builder.emit("flat", "reshape", "x", (1, 60))
    module = builder.finish(["flat", "x"])
    x = RNG.integers(-128, 128, (1, 4, 3, 5)).astype(np.int8)
    _, found = run(tmp_path, module, {"x": x})
    np.testing.assert_array_equal(found["flat"], x.reshape(1, 60))
    np.testing.assert_array_equal(found["x"], x)


def test_temporaries_share_memory_once_they_are_dead(tmp_path):
    builder = ModuleBuilder()
    builder.param("x0", (1, 16, 8, 8), "int8")
    for i in range(6):
        pool = MaxPool(
            name=f"x{i + 1}",
            input=spec(f"x{i}", 16, 8, 8),
            output=spec(f"x{i + 1}", 16, 8, 8),
            kernel=(3, 3),
            stride=(1, 1),
            padding=(1, 1, 1, 1),
        )
        write_layer(builder, pool)
    artifact = compile_arm_stage(builder.finish(["x6"]), arches=("x86_64",))
    plan = json.loads(artifact.files["plan.json"])
    assert plan["workspace_bytes"] == 2 * 16 * 8 * 8
    # Equal operators share one kernel, except the two that read or write other layouts.
    assert len(set(calls(artifact))) == 3


def test_the_same_stage_is_the_same_bytes(frame_stage):
    write_layer(frame_stage, first_convolution())
    module = frame_stage.finish(["features"])
    assert compile_arm_stage(module).files == compile_arm_stage(module).files


def test_kernels_need_no_library_but_libc(frame_stage, tmp_path):
    write_layer(frame_stage, first_convolution())
    for name, content in compile_arm_stage(frame_stage.finish(["features"])).files.items():
        if name.endswith(".so"):
            assert b"libtvm" not in content
            assert str(tmp_path.parent).encode() not in content


def test_an_unknown_architecture(frame_stage):
    with pytest.raises(CodegenError, match="architecture 'riscv' is unknown") as error:
        compile_arm_stage(frame_stage.finish(["image"]), arches=("riscv",))
    assert error.value.hint == "known architectures: x86_64, aarch64, armhf"


def test_a_layout_for_a_tensor_that_does_not_exist(frame_stage):
    with pytest.raises(CodegenError, match="layout for output 'boxes': the stage has no such"):
        compile_arm_stage(frame_stage.finish(["image"]), output_layouts={"boxes": Blocks()})


def test_a_layout_for_a_tensor_that_is_not_a_picture():
    builder = ModuleBuilder()
    builder.param("x", (1, 60), "float32")
    builder.emit("y", "negative", "x")
    with pytest.raises(
        CodegenError, match=r"y: float32\[1, 60\] cannot be in layout vta"
    ) as caught:
        compile_arm_stage(builder.finish(["y"]), output_layouts={"y": Blocks()})
    assert caught.value.hint == "use layout nchw for it"


def test_every_variant_has_its_own_kernels_and_all_share_the_weights(frame_stage):
    write_layer(frame_stage, first_convolution())
    files = compile_arm_stage(frame_stage.finish(["features"])).files
    assert list(files) == [
        "kernels-aarch64.so",
        "kernels-x86_64-avx2.so",
        "kernels-x86_64-avx512vnni.so",
        "plan.json",
        "weights.bin",
    ]
    assert files["kernels-x86_64-avx512vnni.so"] != files["kernels-x86_64-avx2.so"]
    listed = json.loads(files["plan.json"])["architectures"]["x86_64"]
    assert [library["kernels"] for library in listed] == [
        "kernels-x86_64-avx512vnni.so",
        "kernels-x86_64-avx2.so",
    ]


@pytest.mark.parametrize(
    ("architecture", "package"),
    [("aarch64", "gcc-aarch64-linux-gnu"), ("armhf", "gcc-arm-linux-gnueabihf")],
)
def test_a_missing_cross_compiler_names_the_package(
    architecture, package, frame_stage, monkeypatch
):
    monkeypatch.setattr(kernels, "which", lambda name: None)
    with pytest.raises(
        CodegenError, match=f"kernels for {architecture}: no linker, looked for"
    ) as error:
        compile_arm_stage(frame_stage.finish(["image"]), arches=(architecture,))
    assert error.value.hint == f"sudo apt-get install {package}"


def test_a_wrong_array_is_refused_before_it_runs(frame_stage, tmp_path):
    with pytest.raises(RuntimeFailure, match=r"frame: found int8\[1, 2\], expected uint8"):
        run(tmp_path, frame_stage.finish(["image"]), {"frame": np.zeros((1, 2), np.int8)})


def test_weights_of_another_stage_are_refused(frame_stage, tmp_path):
    compile_arm_stage(frame_stage.finish(["image"]), arches=("x86_64",)).write(tmp_path)
    (tmp_path / "weights.bin").write_bytes(b"short")
    with pytest.raises(RuntimeFailure, match=r"weights.bin has 5 bytes, expected 768"):
        ArmStage(tmp_path)


def test_an_impossible_number_of_threads(frame_stage, tmp_path):
    compile_arm_stage(frame_stage.finish(["image"]), arches=("x86_64",)).write(tmp_path)
    with pytest.raises(RuntimeFailure, match="found 0 threads, expected 1 to 64"):
        ArmStage(tmp_path, threads=0)
