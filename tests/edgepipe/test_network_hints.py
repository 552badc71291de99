"""The hints of errors on the way from a network to its results, each checked by its text."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import small_networks
from onnx import TensorProto, helper, numpy_helper
from provoked_hints import hint_of
from tvm import relax

import edgepipe
from edgepipe import boards, media, resources
from edgepipe.bundle import storage
from edgepipe.codegen.arm.stage import compile_arm_stage
from edgepipe.codegen.stages import vta_program
from edgepipe.errors import EdgepipeError
from edgepipe.frontend.network import load_network
from edgepipe.partition.operators import match_operators
from edgepipe.partition.placement import PlacedOperator, Segment
from edgepipe.partition.split import split
from edgepipe.progress import Silent
from edgepipe.quantize.quantizer import quantize
from edgepipe.run import RunOptions, run_bundle
from edgepipe.tvm_adapter import ModuleBuilder

Fail = Callable[[Path], object]


def saved(folder: Path, model: onnx.ModelProto) -> Path:
    onnx.save(model, folder / "net.onnx")
    return folder / "net.onnx"


def over_2_gib(folder: Path) -> object:
    path = saved(folder, small_networks.classifier())
    os.truncate(path, 2**31)
    return load_network(path)


def unknown_to_the_importer(folder: Path) -> object:
    return load_network(saved(folder, small_networks.unknown_to_the_importer()))


def data_dependent(folder: Path) -> object:
    """The number of nonzero values is known only when the network runs."""
    builder = small_networks.Builder()
    builder.node("NonZero", ["image"], "places")
    graph_output = builder.node("Cast", ["places"], "y", to=TensorProto.FLOAT)
    return load_network(saved(folder, builder.model([1, 3, 16, 16], {graph_output: 2})))


def with_weight(value: float) -> onnx.ModelProto:
    model = small_networks.classifier()
    (weight,) = (w for w in model.graph.initializer if w.name == "dense.w")
    array = np.full(tuple(weight.dims), value, np.float32)
    weight.CopyFrom(numpy_helper.from_array(array, "dense.w"))
    return model


def infinite(folder: Path) -> object:
    network = load_network(saved(folder, with_weight(np.inf)))
    return quantize(network, small_networks.frames(1), small_networks.PREPROCESS)


def without_a_description(folder: Path, where: Path | None = None) -> object:
    model = saved(folder, small_networks.classifier())
    return edgepipe.build(
        model,
        board="host",
        calibration=folder,
        output=folder / "net.edgepipe",
        description=where,
    )


def tuple_between_stages(_: Path) -> object:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            parts = builder.emit(relax.op.split(x, 2, axis=1), "parts")
            y = builder.emit_output(relax.op.negative(parts[0]), "y")
        builder.emit_func_output(y)
    return split(builder.get(), ["parts"])


def without_a_linker(_: Path) -> object:
    builder = ModuleBuilder()
    builder.param("x", (1, 60), "float32")
    builder.emit("y", "negative", "x")
    return compile_arm_stage(builder.finish(["y"]))


def calibrated(folder: Path, change: Callable[[onnx.ModelProto], object]) -> object:
    """Quantise the classifier after a change to the ONNX network that only onnxruntime reads."""
    network = load_network(saved(folder, small_networks.classifier()))
    model = onnx.ModelProto()
    model.CopyFrom(network.onnx_model)
    change(model)
    changed = dataclasses.replace(network, onnx_model=model)
    return quantize(changed, small_networks.frames(1), small_networks.PREPROCESS)


def of_another_version(model: onnx.ModelProto) -> None:
    model.ir_version = 999


def with_wrong_indices(model: onnx.ModelProto) -> None:
    """Read channel 99 of 8, which shows only when the network runs."""
    (relu,) = (node for node in model.graph.node if node.op_type == "Relu")
    relu.op_type = "Gather"
    relu.attribute.append(helper.make_attribute("axis", 1))
    relu.input.append("channels")
    channels = np.full(8, 99, np.int64)
    model.graph.initializer.append(numpy_helper.from_array(channels, "channels"))


def truncated_file(folder: Path) -> object:
    bundle = small_networks.build_small_bundle(folder)
    manifest = storage.read_manifest(bundle)
    entry = dataclasses.replace(manifest.files[0], bytes=manifest.files[0].bytes + 1)
    return storage.read_file(bundle, entry)


def packed_into_a_file(folder: Path) -> object:
    bundle = small_networks.build_small_bundle(folder)
    return storage.pack(bundle, folder / "net.onnx" / "again.edgepipe")


def options(folder: Path, **changes: Any) -> RunOptions:
    bundle = small_networks.build_small_bundle(folder)
    media.write_picture(folder / "a.png", np.zeros((16, 16, 3), np.uint8))
    return RunOptions(bundle=bundle, source=folder / "a.png", **changes)


def program_without_input(folder: Path) -> object:
    """Compile a VTA stage that names an input which none of its layers reads."""
    network = load_network(saved(folder, small_networks.classifier()))
    quantized = quantize(network, small_networks.frames(2), small_networks.PREPROCESS)
    operators = match_operators(quantized.module)
    first = next(o for o in operators if o.kind == "conv")
    names = [operator.name for operator in operators]
    stage = split(quantized.module, [names[names.index(first.name) - 1], first.name])[1]
    placed = PlacedOperator(operator=first, device="vta", reason="")
    return vta_program(
        Segment(device="vta", operators=(placed,)),
        dataclasses.replace(stage, inputs=(*stage.inputs, "unread")),
        boards.load("ultra96"),
        Silent(),
    )


CASES: dict[str, tuple[Fail, str]] = {
    "a network over 2 GiB": (
        over_2_gib,
        "expected an ONNX network (*.onnx) in a single protobuf file",
    ),
    "an operator that cannot be imported": (
        unknown_to_the_importer,
        "replace or decompose the named operators (for example with onnxsim), "
        "or export with a different opset",
    ),
    "a shape that depends on data": (
        data_dependent,
        "simplify the network with fixed input sizes, for example with onnxsim",
    ),
    "an infinite weight": (
        infinite,
        "correct the weights, or mean, std and scale in the description",
    ),
    "a tuple between stages": (
        tuple_between_stages,
        "cut after the operators that unpack it",
    ),
    "a network that onnxruntime does not know": (
        lambda f: calibrated(f, of_another_version),
        "a newer onnxruntime may know the operator or the ONNX version",
    ),
    "a network that fails in onnxruntime": (
        lambda f: calibrated(f, with_wrong_indices),
        "check that onnxruntime runs the network without edgepipe",
    ),
    "a VTA program that cannot be compiled": (program_without_input, "place the operator on arm"),
    "a file of another size in a bundle": (
        truncated_file,
        "the bundle was truncated or modified; build or copy it again",
    ),
    "a bundle below a file": (
        packed_into_a_file,
        "free some space, fix the permissions, or choose another path",
    ),
    "no picture": (
        lambda f: run_bundle(options(f, frames=0)),
        "run at least 1 picture",
    ),
    "results in a file's place": (
        lambda f: run_bundle(options(f, output=f / "net.onnx")),
        "free some space, fix the permissions, or choose another folder",
    ),
    "a video of no size": (
        lambda f: media.VideoWriter(f / "none" / "a.mp4", 10.0).write(
            np.zeros((16, 16, 3), np.uint8)
        ),
        "free some disk space, or leave out the video",
    ),
    "no installed headers": (
        lambda _: resources.cmake_dir(),
        "install edgepipe with `pip install .`, or the C++ part alone with "
        "`cmake --install build/host --prefix FOLDER`",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_error_has_this_hint(name: str, tmp_path: Path) -> None:
    fail, hint = CASES[name]
    assert hint_of(lambda: fail(tmp_path)) == hint


def test_a_network_without_a_description_gets_the_command_that_drafts_it(tmp_path: Path) -> None:
    model = tmp_path / "net.onnx"
    assert hint_of(lambda: without_a_description(tmp_path)) == (
        f"draft one: `edgepipe init {model}`, or name one that is elsewhere"
    )
    where = tmp_path / "my net.toml"
    assert hint_of(lambda: without_a_description(tmp_path, where)) == (
        f"draft one: `edgepipe init {model} -o '{where}'`, or name one that is elsewhere"
    )


def test_a_linker_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    linker = tmp_path / "cc"
    linker.write_text("#!/bin/sh\necho 'no space left' >&2; exit 1\n")
    linker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EdgepipeError, match="failed: no space left") as caught:
        without_a_linker(tmp_path)
    assert caught.value.hint == (
        f"check that {linker} works and that there is space for temporary files"
    )


def test_a_missing_linker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EdgepipeError, match="no linker, looked for") as caught:
        without_a_linker(tmp_path)
    assert caught.value.hint == "sudo apt-get install gcc"
