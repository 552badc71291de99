"""A softmax is one operator on a picture, except where it weighs a tensor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from small_networks import Builder

from edgepipe.frontend.network import load_network
from edgepipe.frontend.onnx_passes import simplify
from edgepipe.quantize.graph import AttentionNode, ConvNode, FloatNode, Node, SoftmaxNode
from edgepipe.quantize.quantizer import understand

SHAPE = (1, 3, 6, 4)


def integers(b: Builder, name: str, *values: int) -> str:
    return b.constant(name, np.array(values, np.int64))


def start(b: Builder) -> str:
    return b.conv("image", "scores", (8, 3, 3, 3), pads=[1] * 4)


def over_rows_before_opset_13(b: Builder) -> str:
    """As PyTorch writes it: a softmax has one axis only if that is the last."""
    return b.node("Softmax", [start(b)], "shares", axis=3)


def over_channels_before_opset_13(b: Builder) -> str:
    x = b.node("Transpose", [start(b)], "last", perm=[0, 3, 2, 1])
    x = b.node("Softmax", [x], "shares", axis=3)
    return b.node("Transpose", [x], "first", perm=[0, 3, 2, 1])


def of_groups(b: Builder) -> str:
    x = b.node("Reshape", [start(b), integers(b, "five", 1, 2, 4, 6, 4)], "grouped")
    x = b.node("Softmax", [x], "shares", axis=2)
    return b.node("Reshape", [x, integers(b, "four", *SHAPE[:1], 8, 6, 4)], "flat")


def of_exponentials(b: Builder) -> str:
    x = b.node("Exp", [start(b)], "exponentials")
    total = b.node("ReduceSum", [x, integers(b, "axes", 1)], "total", keepdims=1)
    return b.node("Div", [x, total], "shares")


CASES = {
    over_rows_before_opset_13: (11, 3),
    over_channels_before_opset_13: (12, 3),
    of_groups: (13, 2),
    of_exponentials: (17, 1),
}


@pytest.mark.parametrize("case", CASES)
def test_a_softmax_between_layers_has_an_integer_form(case, tmp_path: Path) -> None:
    opset, axis = CASES[case]
    b = Builder(3)
    b.conv(case(b), "y", (4, 8, 1, 1))
    model = b.model([*SHAPE], {"y": 4}, opset=opset)
    onnx.save(model, tmp_path / "net.onnx")
    nodes = understand(load_network(tmp_path / "net.onnx")).nodes
    assert [node.axis for node in nodes if isinstance(node, SoftmaxNode)] == [axis]
    assert not [node for node in nodes if isinstance(node, FloatNode)]
    picture = np.random.default_rng(0).normal(0, 1, SHAPE).astype(np.float32)
    before = run(model, picture)
    simplify(model)
    np.testing.assert_allclose(run(model, picture), before, rtol=1e-4, atol=1e-6)


def run(model: onnx.ModelProto, picture: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return np.asarray(session.run(None, {"image": picture})[0])


def attended(b: Builder) -> str:
    """Weights of attention: their product with a tensor is a sum over the picture."""
    x = b.node("Reshape", [start(b), integers(b, "rows", 1, 8, 24)], "flat")
    weights = b.node("Softmax", [x], "shares", axis=2)
    turned = b.node("Transpose", [x], "turned", perm=[0, 2, 1])
    x = b.node("MatMul", [weights, turned], "attended")
    x = b.node("Reshape", [x, integers(b, "picture", 1, 8, 8, 1)], "square")
    return b.conv(x, "y", (4, 8, 1, 1))


def returned(b: Builder) -> str:
    """Probabilities that are a result as well as weights of a layer."""
    return b.conv(b.node("Softmax", [start(b)], "shares", axis=1), "y", (4, 8, 1, 1))


def nodes_of(b: Builder, outputs: list[str], folder: Path) -> dict[str, Node]:
    """Return the nodes that the quantiser finds in a network, by name."""
    onnx.save(b.model([*SHAPE], dict.fromkeys(outputs, 4)), folder / "net.onnx")
    return {node.name: node for node in understand(load_network(folder / "net.onnx")).nodes}


def test_a_softmax_stays_float_where_a_result_reads_it(tmp_path: Path) -> None:
    b = Builder(3)
    returned(b)
    shares = nodes_of(b, ["y", "shares"], tmp_path)["shares"]
    assert isinstance(shares, FloatNode)
    assert shares.binding.op == "nn.softmax"
    assert shares.reason == "stays float: a float operator or a result reads it"


def test_a_softmax_that_weighs_a_tensor_is_part_of_attention(tmp_path: Path) -> None:
    b = Builder(3)
    attended(b)
    nodes = nodes_of(b, ["y"], tmp_path)
    assert "shares" not in nodes
    (attention,) = (node for node in nodes.values() if isinstance(node, AttentionNode))
    assert (attention.query, attention.key, attention.value) == ("flat", None, "turned")


def distances(b: Builder) -> str:
    """YOLOv8's: a softmax over eight places, whose mean is the distance."""
    x = b.node("Reshape", [start(b), integers(b, "places", 1, 1, 8, 24)], "grouped")
    x = b.node("Transpose", [x], "turned", perm=[0, 2, 1, 3])
    x = b.node("Softmax", [x], "shares", axis=1)
    return b.node(
        "Conv",
        [x, b.constant("means", np.arange(8, dtype=np.float32)[None, :, None, None])],
        "means_of",
    )


@pytest.mark.parametrize("is_result", [True, False])
def test_a_layer_is_float_if_it_decodes_probabilities_for_results(
    is_result: bool, tmp_path: Path
) -> None:
    b = Builder(3)
    x = b.node("Mul", [distances(b), b.constant("stride", np.float32(8))], "y")
    outputs = ["y", "shares"]
    if not is_result:
        outputs[0] = b.conv(x, "next", (4, 1, 1, 1))
    nodes = nodes_of(b, outputs, tmp_path)
    if is_result:
        assert nodes["means_of"].reason == "stays float: it decodes float results"
    else:
        assert isinstance(nodes["y"], ConvNode)  # with the stride in its weights
