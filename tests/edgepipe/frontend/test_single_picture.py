"""Inputs beside the picture, and batches: dropped, made one, or refused with a remedy."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from small_networks import Builder

from edgepipe.errors import FrontendError
from edgepipe.frontend.folding import run_model
from edgepipe.frontend.network import load_network

SHAPE = (1, 3, 8, 10)


def saved(model: onnx.ModelProto, folder: Path) -> Path:
    onnx.save(model, folder / "net.onnx")
    return folder / "net.onnx"


def with_inputs(model: onnx.ModelProto, **shapes: list[int | str]) -> onnx.ModelProto:
    for name, shape in shapes.items():
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    return model


def scaled() -> onnx.ModelProto:
    """Divide results by what PaddleDetection calls ``scale_factor``."""
    b = Builder()
    b.conv("image", "boxes", (4, 3, 1, 1))
    bounds = [b.constant(f"c{n}", np.array([n])) for n in (0, 1)]
    b.node("Slice", ["scale_factor", *bounds, b.constant("axis", np.array([1]))], "factor")
    b.node("Div", ["boxes", "factor"], "y")
    return b.model([*SHAPE], {"y": 4})


def test_an_input_that_nothing_reads_is_omitted_and_noted(tmp_path: Path) -> None:
    b = Builder()
    b.conv("image", "y", (4, 3, 1, 1))
    model = with_inputs(b.model([*SHAPE], {"y": 4}), im_shape=["n", 2])
    network = load_network(saved(model, tmp_path))
    assert network.notices == ("im_shape: nothing reads this input; it is omitted",)
    assert network.onnx_input == "image"


def test_another_input_is_refused_with_the_command_that_makes_it_constant(tmp_path: Path) -> None:
    path = saved(with_inputs(scaled(), scale_factor=["n", 2]), tmp_path)
    with pytest.raises(FrontendError) as raised:
        load_network(path)
    wanted = "inputs are image, scale_factor; expected exactly one picture input"
    assert str(raised.value) == f"{path}: {wanted}"
    start = (
        "make scale_factor constant, with the values that the network has for every picture; "
        "for ones: python -c "
    )
    assert raised.value.hint is not None
    assert raised.value.hint.startswith(start)
    script = shlex.split(raised.value.hint.removeprefix(start))
    subprocess.run([sys.executable, "-c", *script], check=True)
    assert load_network(tmp_path / "net-fixed.onnx").onnx_input == "image"


def batch_of(count: int, *, reshape: bool = False, constant: bool = False) -> onnx.ModelProto:
    b = Builder()
    x = b.conv("image", "wide", (4, 3, 1, 1))
    if constant:
        x = b.node("Add", [x, b.constant("rows", b.normal(count, 4, 8, 10))], "sum")
    if reshape:
        first = b.constant("first", np.array([count, 4, 80]))
        x = b.node("Reshape", [x, first], "flat")
        b.nodes.append(
            helper.make_node(
                "Constant",
                [],
                ["second"],
                value=onnx.numpy_helper.from_array(np.array([count, 4, 8, 10])),
            )
        )
        x = b.node("Reshape", [x, "second"], "picture")
    b.conv(x, "y", (2, 4, 3, 3))
    return b.model([count, *SHAPE[1:]], {"y": 4})


@pytest.mark.parametrize("reshape", [False, True])
def test_a_batch_of_pictures_becomes_one_picture(reshape: bool, tmp_path: Path) -> None:
    model = batch_of(4, reshape=reshape)
    network = load_network(saved(model, tmp_path))
    assert network.notices == ("image: batch of 4 pictures becomes 1",)
    assert network.input_shape == SHAPE
    pictures = np.random.default_rng(0).normal(0, 1, (4, *SHAPE[1:])).astype(np.float32)
    (expected,) = run_model(model, {"image": pictures})
    (found,) = run_model(network.onnx_model, {"image": pictures[2:3]})
    np.testing.assert_allclose(found, expected[2:3], rtol=1e-4, atol=1e-5)


def test_a_batch_that_constants_need_is_refused(tmp_path: Path) -> None:
    path = saved(batch_of(2, constant=True), tmp_path)
    with pytest.raises(FrontendError) as raised:
        load_network(path)
    wanted = "input image is a batch of 2 pictures; with one picture, the results are others"
    assert str(raised.value) == f"{path}: {wanted}"
    assert raised.value.hint == "export the network for one picture: with a batch size of 1"


def test_a_batch_that_cannot_run_with_one_picture_is_refused(tmp_path: Path) -> None:
    b = Builder()
    b.conv("image", "wide", (4, 3, 1, 1))
    shape = b.constant("shape", np.array([8, 2, 8, 10]))
    b.conv(b.node("Reshape", ["wide", shape], "apart"), "y", (2, 2, 1, 1))
    path = saved(b.model([4, *SHAPE[1:]], {"y": 4}), tmp_path)
    with pytest.raises(FrontendError, match="with one picture, onnxruntime cannot run it"):
        load_network(path)


def test_a_batch_that_is_too_large_to_try_is_refused(tmp_path: Path) -> None:
    path = saved(batch_of(2**40), tmp_path)
    with pytest.raises(FrontendError, match="it is not compared: together they are too large"):
        load_network(path)


def flattened(shape: list[int | str], opset: int) -> onnx.ModelProto:
    """Return a network that reads a picture of 240 values with other axes, as one row."""
    b = Builder()
    b.node("Reshape", ["image", b.constant("row", np.array([1, 240]))], "values")
    b.node("MatMul", ["values", b.constant("w", b.normal(240, 5))], "y")
    model = b.model([*SHAPE], {"y": 2})
    value = helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)
    model.graph.input[0].CopyFrom(value)
    model.opset_import[0].version = opset
    return model


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize(
    ("shape", "becomes", "picture"),
    [
        ([3, 8, 10], "[1, 3, 8, 10]", (1, 3, 8, 10)),
        ([8, 10, 3], "[1, 8, 10, 3]", (1, 3, 8, 10)),
        ([1, 12, 20], "[1, 1, 12, 20]", (1, 1, 12, 20)),
        (["n", 12, 20], "[n, 1, 12, 20]", (1, 1, 12, 20)),
        ([12, 20], "[1, 1, 12, 20]", (1, 1, 12, 20)),
    ],
)
def test_a_picture_that_lacks_axes_gets_them(
    shape: list[int | str], becomes: str, picture: tuple[int, ...], opset: int, tmp_path: Path
) -> None:
    """Loading compares the results with onnxruntime's."""
    found = ", ".join(map(str, shape))
    network = load_network(saved(flattened(shape, opset), tmp_path))
    assert network.notices[0] == f"image: input [{found}] becomes {becomes}"
    assert network.input_shape == picture


@pytest.mark.parametrize("shape", [[1, 240], [4, 6, 10], [2, 12, 10], [240], [1, 2, 120]])
def test_what_may_be_no_picture_keeps_its_axes(shape: list[int | str], tmp_path: Path) -> None:
    with pytest.raises(FrontendError, match=r"expected float\[1, channels, height, width\]$"):
        load_network(saved(flattened(shape, 17), tmp_path))
