"""Constants that load_network computes before the import, in the forms that exporters write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from small_networks import Builder

from edgepipe.errors import FAULT, FrontendError
from edgepipe.frontend import folding
from edgepipe.frontend import network as network_module
from edgepipe.frontend.network import Network, load_network
from edgepipe.tvm_adapter import read_main, run_module


def saved(model: onnx.ModelProto, folder: Path) -> Path:
    onnx.save(model, folder / "net.onnx")
    return folder / "net.onnx"


def flattened_by_its_shape() -> onnx.ModelProto:
    """Write ``x.view(x.size(0), -1)`` as PyTorch does."""
    b = Builder()
    x = b.conv("image", "conv", (4, 3, 3, 3))
    b.node("Shape", [x], "shape")
    b.node("Constant", [], "first", value_int=0)
    b.node("Gather", ["shape", "first"], "batch")
    b.node("Unsqueeze", ["batch", b.constant("axes", np.array([0], np.int64))], "batches")
    b.node("Constant", [], "rest", value_ints=[-1])
    b.node("Concat", ["batches", "rest"], "wanted", axis=0)
    b.node("Reshape", [x, "wanted"], "flat")
    b.node("Gemm", ["flat", b.constant("dense", b.normal(5, 4 * 6 * 6))], "y", transB=1)
    return b.model(["n", 3, 8, 8], {"y": 2})


def resized_to_another_tensor() -> onnx.ModelProto:
    """Write ``interpolate(x, size=image.shape[2:])`` as PyTorch and Paddle do."""
    b = Builder()
    x = b.conv("image", "conv", (4, 3, 3, 3), strides=[2, 2], pads=[1] * 4)
    for name, values in (("two", [2]), ("four", [4]), ("zero", [0])):
        b.constant(name, np.array(values, np.int64))
    b.node("Shape", ["image"], "image_shape")
    b.node("Slice", ["image_shape", "two", "four"], "size")
    b.node("Shape", [x], "x_shape")
    b.node("Slice", ["x_shape", "zero", "two"], "channels")
    b.node("Concat", ["channels", "size"], "wanted", axis=0)
    b.node("Resize", [x, "", "", "wanted"], "y", mode="nearest", nearest_mode="floor")
    b.nodes[-1].attribute.append(
        helper.make_attribute("coordinate_transformation_mode", "asymmetric")
    )
    return b.model([1, 3, "h", "w"], {"y": 4})


def branch_on_a_constant() -> onnx.ModelProto:
    """Write ``squeeze`` as PyTorch does: a branch that depends on a static shape."""
    b = Builder()
    x = b.conv("image", "conv", (4, 3, 8, 8))
    b.node("Shape", [x], "shape")
    b.node("Gather", ["shape", b.constant("three", np.array(3, np.int64))], "width")
    b.node("Equal", ["width", b.constant("one", np.array(1, np.int64))], "is_one")
    axes = b.constant("axes", np.array([3], np.int64))
    squeeze = helper.make_node("Squeeze", [x, axes], ["inner"])
    same = helper.make_node("Identity", [x], ["inner"])
    branches = {
        f"{name}_branch": helper.make_graph(
            [node], name, [], [helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)]
        )
        for name, node in (("then", squeeze), ("else", same))
    }
    b.node("If", ["is_one"], "squeezed", **branches)
    b.node("Relu", ["squeezed"], "y")
    return b.model([1, 3, 8, 8], {"y": 3})


def computed_in_the_format_of_2017() -> onnx.ModelProto:
    """Compute a constant as Caffe2's exporter does: there, every initialiser is an input, too."""
    b = Builder()
    x = b.conv("image", "conv", (4, 3, 3, 3))
    shape = b.constant("shape", np.array([1, 4, 1, 1], np.int64))
    b.node("Mul", [x, b.node("Reshape", [b.constant("flat", b.normal(4)), shape], "by")], "scaled")
    b.node("Dropout", ["scaled"], "kept", "mask")
    b.node("Relu", ["kept"], "y")
    model = b.model([1, 3, 8, 8], {"y": 4})
    for constant in model.graph.initializer:
        model.graph.input.append(
            helper.make_tensor_value_info(constant.name, constant.data_type, list(constant.dims))
        )
    model.ir_version = 3
    return model


def channels_last() -> onnx.ModelProto:
    """Write an input as TensorFlow does."""
    b = Builder()
    b.node("Transpose", ["image"], "first", perm=[0, 3, 1, 2])
    x = b.conv("first", "conv", (4, 3, 3, 3))
    b.node("Relu", [x], "y")
    return b.model(["n", "h", "w", 3], {"y": 4})


def constant_input() -> onnx.ModelProto:
    """List a constant among the inputs, as opset 8 and below must."""
    b = Builder()
    x = b.conv("image", "conv", (4, 3, 3, 3))
    b.node("Mul", [x, b.constant("scale", b.normal(1, 4, 1, 1))], "scaled")
    b.node("Relu", ["scaled"], "y")
    model = b.model([1, 3, 8, 8], {"y": 4})
    scale = helper.make_tensor_value_info("scale", TensorProto.FLOAT, [1, 4, 1, 1])
    model.graph.input.insert(0, scale)
    return model


MODELS = (
    flattened_by_its_shape,
    resized_to_another_tensor,
    branch_on_a_constant,
    channels_last,
    constant_input,
    computed_in_the_format_of_2017,
)


@pytest.mark.parametrize("make", MODELS)
def test_what_exporters_write_is_imported(
    make: Callable[[], onnx.ModelProto], tmp_path: Path
) -> None:
    model = make()
    network = load_network(saved(model, tmp_path), (3, 8, 8))
    assert network.input_shape == (1, 3, 8, 8)
    picture = np.random.default_rng(0).normal(0, 1, (1, 3, 8, 8)).astype(np.float32)
    given = np.moveaxis(picture, 1, 3) if make is channels_last else picture
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, {"image": given})
    (found,) = run_module(network.module, {network.input_name: picture}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert not operators(network) & {"shape_of", "take", "strided_slice", "if", "tensor_to_shape"}


def operators(network: Network) -> set[str]:
    return {binding.op for binding in read_main(network.module).bindings}


def test_each_dynamic_dimension_is_fixed_with_a_notice(tmp_path: Path) -> None:
    network = load_network(saved(channels_last(), tmp_path), (3, 8, 12))
    assert network.input_shape == (1, 3, 8, 12)
    assert network.notices == (
        "image: dynamic batch dimension 'n' fixed to 1",
        "image: dynamic height 'h' fixed to 8",
        "image: dynamic width 'w' fixed to 12",
    )


def test_random_values_are_not_folded(tmp_path: Path) -> None:
    b = Builder()
    x = b.conv("image", "conv", (4, 3, 3, 3))
    b.node("RandomNormal", [], "noise", shape=[1, 4, 6, 6])
    b.node("Add", [x, "noise"], "y")
    with pytest.raises(FrontendError, match=r"RandomNormal 'noise' .* is random$") as caught:
        load_network(saved(b.model([1, 3, 8, 8], {"y": 4}), tmp_path))
    assert caught.value.hint == "store its value in the network as an initialiser"


def test_a_constant_that_is_too_large_to_be_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folding, "_MOST_BYTES", 8 * 100)
    b = Builder()
    x = b.conv("image", "conv", (4, 3, 3, 3))
    b.node("ConstantOfShape", [b.constant("size", np.array([1, 4, 6, 6], np.int64))], "filled")
    b.node("Add", [x, "filled"], "y")
    with pytest.raises(FrontendError) as caught:
        load_network(saved(b.model([1, 3, 8, 8], {"y": 4}), tmp_path))
    assert str(caught.value).endswith(
        "ConstantOfShape 'filled' does not depend on the picture, and has 144 elements, "
        "expected at most 100"
    )
    assert caught.value.hint == "split the layer that reads it, or make it smaller"


def test_a_wrong_fold_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(model: onnx.ModelProto) -> None:
        next(node for node in model.graph.node if node.op_type == "Relu").op_type = "Neg"

    monkeypatch.setattr(network_module, "simplify", wrong)
    with pytest.raises(FrontendError, match="output 'y' is no longer what onnxruntime") as caught:
        load_network(saved(constant_input(), tmp_path))
    assert caught.value.hint == FAULT


def test_a_network_that_onnxruntime_refuses(tmp_path: Path) -> None:
    b = Builder()
    x = b.conv("image", "conv", (4, 3, 3, 3))
    b.node("Reshape", [x, b.constant("shape", np.array([1, 5, 7], np.int64))], "y")
    with pytest.raises(FrontendError, match="onnxruntime cannot run the network: ") as caught:
        load_network(saved(b.model([1, 3, 8, 8], {"y": 3}), tmp_path))
    assert "\n" not in str(caught.value)
    assert caught.value.hint == (
        "correct the network until onnxruntime runs it, or use a newer onnxruntime"
    )


def test_a_picture_of_another_size_than_the_network_reads(tmp_path: Path) -> None:
    with pytest.raises(FrontendError) as caught:
        load_network(saved(constant_input(), tmp_path), (3, 8, 16))
    assert str(caught.value).endswith(
        "the description gives 3x8x16 (channels, height, width), the network reads 3x8x8"
    )
    assert caught.value.hint == "correct width, height and order in the description"


def test_a_file_of_a_newer_onnx_is_read(tmp_path: Path) -> None:
    model = constant_input()
    model.ir_version = 13  # onnxruntime 1.20 reads 10
    assert load_network(saved(model, tmp_path)).onnx_model.ir_version == 10


def test_an_input_of_an_unknown_type(tmp_path: Path) -> None:
    model = constant_input()
    model.graph.input[1].type.tensor_type.elem_type = 99
    with pytest.raises(FrontendError, match=r"is type 99\[1, 3, 8, 8\]|not a valid ONNX model"):
        load_network(saved(model, tmp_path))


def test_a_damaged_name_is_refused_without_a_word_from_onnxruntime(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """It tried the same a second time, and printed so."""
    b = Builder()
    b.node("Relu", ["image"], "y")
    text = b.model([1, 3, 4, 4], {"y": 4}).SerializeToString()
    model = onnx.ModelProto.FromString(text.replace(b"Relu", b"\xff\xfflu"))
    with pytest.raises(folding.CannotRunError):
        folding.run_model(model, {"image": np.zeros((1, 3, 4, 4), np.float32)})
    assert capfd.readouterr() == ("", "")
