"""load_network: its results, the names it keeps, and the error for each bad file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import quantised_networks
import small_networks
from onnx import TensorProto, helper

from edgepipe.errors import FrontendError
from edgepipe.frontend.network import load_network, operator_names
from edgepipe.tvm_adapter import read_main, run_module


def saved(model: onnx.ModelProto, folder: Path, name: str = "net.onnx") -> Path:
    path = folder / name
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("make", [small_networks.detector, small_networks.classifier])
def test_imported_network_computes_what_onnxruntime_computes(
    make: Callable[[], onnx.ModelProto], tmp_path: Path
) -> None:
    network = load_network(saved(make(), tmp_path))
    picture = np.random.default_rng(0).normal(0, 1, network.input_shape).astype(np.float32)
    session = onnxruntime.InferenceSession(network.onnx_model.SerializeToString())
    expected = session.run(None, {network.onnx_input: picture})
    found = run_module(network.module, {network.input_name: picture})
    assert tuple(found) == network.output_names
    for name, reference in zip(network.output_names, expected, strict=True):
        np.testing.assert_allclose(found[name], reference, rtol=1e-4, atol=1e-5)


def test_variables_carry_the_onnx_names(tmp_path: Path) -> None:
    network = load_network(saved(small_networks.detector(), tmp_path))
    names = {binding.name for binding in read_main(network.module).bindings}
    assert {"stem_leaky", "body_concat", "up_resize", "head_split_1", "scores"} <= names
    assert network.values["stem_leaky"] == "stem/leaky:0"
    assert network.output_names == ("scores", "distances")


def test_dynamic_batch_is_fixed_and_noted(tmp_path: Path) -> None:
    network = load_network(saved(small_networks.classifier("n"), tmp_path))
    assert network.input_shape == (1, 3, 16, 16)
    assert network.notices == ("image: dynamic batch dimension 'n' fixed to 1",)
    assert load_network(saved(small_networks.classifier(1), tmp_path)).notices == ()


def test_batch_norm_is_folded(tmp_path: Path) -> None:
    network = load_network(saved(small_networks.classifier(), tmp_path))
    ops = {binding.op for binding in read_main(network.module).bindings}
    assert ops <= {
        *("nn.conv2d", "add", "subtract", "multiply", "divide", "maximum", "minimum"),
        *("nn.relu", "mean", "reshape", "matmul"),
    }


def test_operator_names_are_unique_and_never_look_like_parts() -> None:
    names = operator_names(["Conv__145:0", "/a/b.1/Conv_output_0", "a_b.1_Conv", "x:1", "::"])
    assert list(names.values()) == ["Conv_145", "a_b.1_Conv", "a_b.1_Conv_2", "x_1", "value"]


def one_node(op: str, shape: list[int | str], kind: int = TensorProto.FLOAT) -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info("y", kind, [None] * 4)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_each_bad_file_is_named_and_explained(tmp_path: Path) -> None:
    text = tmp_path / "text.onnx"
    text.write_text("this is not a network")
    cut = saved(small_networks.classifier(), tmp_path, "cut.onnx")
    cut.write_bytes(cut.read_bytes()[:500])
    empty = tmp_path / "empty.onnx"
    empty.write_bytes(b"")
    cases = [
        (tmp_path / "missing.onnx", "missing.onnx: no such file"),
        (text, "text.onnx: not an ONNX file, or damaged"),
        (cut, "cut.onnx: "),
        (empty, "empty.onnx: contains no ONNX graph"),
        (
            saved(one_node("Relu", [1, 3, "h", 16]), tmp_path, "dynamic.onnx"),
            "dynamic.onnx: input x has the dynamic shape [1, 3, h, 16]; "
            "its height and width are unknown",
        ),
        (
            saved(one_node("Relu", [2, 8, 8]), tmp_path, "rank.onnx"),
            "rank.onnx: input x is float[2, 8, 8], expected float[1, channels, height, width]",
        ),
        (
            saved(one_node("NonZero", [1, 3, 8, 8]), tmp_path, "nonzero.onnx"),
            "nonzero.onnx: onnxruntime cannot run the network: ",
        ),
    ]
    for path, message in cases:
        with pytest.raises(FrontendError) as caught:
            load_network(path)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)


def test_nodes_in_any_order_are_read(tmp_path: Path) -> None:
    """AMD Quark appends the factors of average pools at the end, and onnxruntime reads that."""
    model = small_networks.classifier()
    network = load_network(saved(model, tmp_path))
    nodes = list(reversed(model.graph.node))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    other = load_network(saved(model, tmp_path))
    picture = np.random.default_rng(0).normal(0, 1, network.input_shape).astype(np.float32)
    expected = run_module(network.module, {network.input_name: picture})
    for name, values in run_module(other.module, {other.input_name: picture}).items():
        np.testing.assert_array_equal(values, expected[name])


def test_an_output_of_unknown_rank_is_read(tmp_path: Path) -> None:
    """PyTorch omits the shape then, and onnxruntime runs such files."""
    model = small_networks.classifier("n")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    network = load_network(saved(model, tmp_path))
    reference = load_network(saved(small_networks.classifier("n"), tmp_path))
    assert read_main(network.module).outputs == read_main(reference.module).outputs


def test_a_network_with_a_cycle_is_refused(tmp_path: Path) -> None:
    model = small_networks.classifier()
    model.graph.node[0].input[0] = model.graph.node[2].output[0]
    with pytest.raises(FrontendError) as caught:
        load_network(saved(model, tmp_path))
    assert "net.onnx: not a valid ONNX model: Nodes in a graph must be topologically sorted" in str(
        caught.value
    )


def test_a_tflite_file_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    path = tmp_path / "my net.tflite"
    path.write_bytes(b"\x1c\x00\x00\x00TFL3" + bytes(64))
    with pytest.raises(FrontendError) as caught:
        load_network(path)
    assert str(caught.value) == f"{path}: a TensorFlow Lite network, expected ONNX"
    assert caught.value.hint == (
        "convert it (pip install tf2onnx tensorflow): python -m tf2onnx.convert "
        f"--tflite '{path}' --opset 13 --output '{tmp_path / 'my net.onnx'}'"
    )


def test_ranges_of_a_quantised_network_have_the_names_of_its_variables(tmp_path: Path) -> None:
    network = load_network(saved(quantised_networks.like_tflite(), tmp_path))
    assert network.input_shape == (1, 3, 16, 16)
    assert set(network.given) == {"image", "first_relu", "result"}
    assert network.given["image"].step == 1 / 128
    assert network.notices[1] == "result: int8 output becomes float"
    names = {binding.name for binding in read_main(network.module).bindings}
    assert {"first_relu", "second", "result"} <= names


def test_unknown_operator_is_named(tmp_path: Path) -> None:
    model = one_node("Bernoulli", [1, 3, 8, 8])
    with pytest.raises(FrontendError, match=r"cannot be imported: .*Bernoulli") as caught:
        load_network(saved(model, tmp_path))
    assert caught.value.hint is not None


def test_outputs_must_be_separate_tensors(tmp_path: Path) -> None:
    twin = one_node("Relu", [1, 3, 8, 8])
    twin.graph.node.append(helper.make_node("Identity", ["y"], ["z"]))
    twin.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [None] * 4))
    with pytest.raises(FrontendError, match="outputs 'y' and 'z' are the same tensor"):
        load_network(saved(twin, tmp_path))
    with pytest.raises(FrontendError, match="output 'y' is the input itself"):
        load_network(saved(one_node("Identity", [1, 3, 8, 8]), tmp_path))


@pytest.mark.models
@pytest.mark.parametrize(
    ("name", "operators"),
    [
        ("nanodet_g_coco_416", ("Conv_145", "PartitionedCall_onnx_tf_prefix_LeakyRelu_1")),
        ("mobilenetv2_imagenet", ("features.0.0.relu6", "logits")),
        ("fmnist_resnet8", ("conv1_Conv", "logits")),
    ],
)
def test_names_of_real_networks(
    model_path: Callable[[str], Path], name: str, operators: tuple[str, ...]
) -> None:
    network = load_network(model_path(name))
    names = {binding.name for binding in read_main(network.module).bindings}
    assert set(operators) <= names


def test_a_tensor_without_elements_is_refused(tmp_path: Path) -> None:
    """A slice behind the border leaves nothing; ONNX allows it."""
    numbers = {"starts": [16], "ends": [20], "axes": [3]}
    model = onnx.parser.parse_model(
        """
        <ir_version: 8, opset_import: ["" : 13]>
        net (float[1, 3, 16, 16] image) => (float[1, 3, 16, 16] y, float[1, 3, 16, 0] z)
        {
            y = Relu(image)
            z = Slice(y, starts, ends, axes)
        }
        """
    )
    for name, values in numbers.items():
        tensor = onnx.numpy_helper.from_array(np.array(values, np.int64), name)
        model.graph.initializer.append(tensor)
    with pytest.raises(FrontendError, match="has no elements: its shape is") as raised:
        load_network(saved(model, tmp_path))
    hint = "check the slice or crop that it depends on, and the size of the input"
    assert raised.value.hint == hint


def test_last_bits_that_a_network_enlarges_are_no_difference(tmp_path: Path) -> None:
    """The normalisation is rewritten, which changes last bits, and the sines multiply them."""
    b = small_networks.Builder(3)
    x = b.conv("image", "stem", (4, 3, 3, 3), pads=[1, 1, 1, 1])
    parts = [b.constant(f"bn{i}", np.float32([v] * 4)) for i, v in enumerate((1.1, 0.3, 0.2, 0.7))]
    x = b.node("BatchNormalization", [x, *parts], "normed")
    fast = b.constant("fast", np.float32([80]))
    for index in range(2):
        x = b.node("Mul", [x, fast], f"fast{index}")
        x = b.node("Sin", [x], f"sine{index}")
    onnx.save(b.model([1, 3, 16, 16], {x: 4}), tmp_path / "net.onnx")
    assert load_network(tmp_path / "net.onnx").output_names == ("sine1",)
