"""Scores of attention: factors move beside the product, and columns of weights become rows."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from small_networks import Builder

from edgepipe.frontend.folding import infer_shapes
from edgepipe.frontend.rewrites.scores import plain_scores

HEADS, CHANNELS, TOKENS = 2, 4, 6
SHAPE = (1, HEADS, CHANNELS, TOKENS)


def numbers(b: Builder, name: str, *values: int) -> str:
    return b.constant(name, np.array(values, np.int64))


def factor(*shape: int) -> np.ndarray:
    return np.random.default_rng(2).uniform(0.5, 3, shape).astype(np.float32)


def products(b: Builder) -> str:
    """Channels beside channels, as XCiT and EdgeNeXt have them."""
    key = b.node("Transpose", ["image"], "key", perm=[0, 1, 3, 2])
    return b.node("MatMul", ["image", key], "products")


def tempered(values: np.ndarray, *, first: bool = True, softmax: bool = True) -> onnx.ModelProto:
    b = Builder()
    operands = [products(b), b.constant("temperature", values)]
    x = b.node("Mul", operands if first else operands[::-1], "scores")
    b.node("Softmax" if softmax else "Relu", [x], "weights")
    return b.model([*SHAPE], {"weights": 4})


def rewritten(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the graph after the rewrite; its values are those of before."""
    after = onnx.ModelProto()
    after.CopyFrom(model)
    infer_shapes(after)
    plain_scores(after)
    onnx.checker.check_model(after)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    picture = np.random.default_rng(0).normal(0, 1, shape).astype(np.float32)
    for one, other in zip(run(model, picture), run(after, picture), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    return after


def run(model: onnx.ModelProto, picture: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {"image": picture})


def is_read_by(model: onnx.ModelProto, value: str) -> list[str]:
    return [node.op_type for node in model.graph.node if value in node.input]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("shape", [(HEADS, 1, 1), (1, HEADS, 1, 1)])
def test_a_factor_of_each_head_is_applied_to_the_queries(first, shape) -> None:
    model = rewritten(tempered(factor(*shape), first=first))
    assert is_read_by(model, "temperature") == ["Mul"]
    (scaled,) = (node for node in model.graph.node if "temperature" in node.input)
    assert list(scaled.input) == ["image", "temperature"]
    assert is_read_by(model, scaled.output[0]) == ["MatMul"]
    assert is_read_by(model, "scores") == ["Softmax"]


def biased(*, constants: bool = True) -> onnx.ModelProto:
    """Swin v2's: a bias for each pair of places, and a mask, behind the temperature."""
    b = Builder()
    x = b.node("Mul", [products(b), b.constant("temperature", factor(HEADS, 1, 1))], "scores")
    bias = b.constant("bias", factor(HEADS, CHANNELS, CHANNELS)) if constants else "products"
    x = b.node("Add", [x, bias], "biased")
    x = b.node("Add", [b.constant("mask", factor(CHANNELS, CHANNELS)), x], "masked")
    b.node("Softmax", [x], "weights")
    return b.model([*SHAPE], {"weights": 4})


def test_a_factor_before_constants_that_are_added_is_applied_to_the_queries() -> None:
    model = rewritten(biased())
    (scaled,) = (node for node in model.graph.node if "temperature" in node.input)
    assert list(scaled.input) == ["image", "temperature"]
    assert is_read_by(model, "scores") == ["Add"]


def test_a_factor_before_a_tensor_that_is_added_stays() -> None:
    model = rewritten(biased(constants=False))
    (scaled,) = (node for node in model.graph.node if "temperature" in node.input)
    assert list(scaled.input) == ["products", "temperature"]


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(tempered(factor()), id="one factor for all"),
        pytest.param(tempered(factor(CHANNELS, 1)), id="factors of rows"),
        pytest.param(tempered(factor(CHANNELS)), id="factors of columns"),
        pytest.param(tempered(factor(HEADS, 1, 1), softmax=False), id="no softmax behind"),
    ],
)
def test_other_factors_stay(model) -> None:
    kinds = [node.op_type for node in model.graph.node]
    assert [node.op_type for node in rewritten(model).graph.node] == kinds


def test_products_that_others_read_stay() -> None:
    b = Builder()
    x = products(b)
    x = b.node("Mul", [x, b.constant("temperature", factor(HEADS, 1, 1))], "scores")
    b.node("Softmax", [x], "weights")
    b.node("Relu", ["products"], "relu")
    model = b.model([*SHAPE], {"weights": 4, "relu": 4})
    assert is_read_by(rewritten(model), "products") == ["Mul", "Relu"]


def test_products_with_a_constant_stay() -> None:
    b = Builder()
    x = b.node("MatMul", ["image", b.constant("key", factor(TOKENS, 5))], "products")
    x = b.node("Mul", [x, b.constant("temperature", factor(HEADS, 1, 1))], "scores")
    b.node("Softmax", [x], "weights")
    model = rewritten(b.model([*SHAPE], {"weights": 4}))
    assert is_read_by(model, "products") == ["Mul"]


def column(kind: str, *, pixels: int = 12, axis: int = -1, shared: bool = False) -> onnx.ModelProto:
    """GCNet: the softmax over all pixels weighs them, as a column beside the picture's matrix."""
    b = Builder()
    x = b.node("Softmax", ["image"], "weights", axis=axis)
    if kind == "Unsqueeze":
        x = b.node(kind, [x, numbers(b, "last", -1)], "column")
    else:
        x = b.node(kind, [x, numbers(b, "shape", 1, 1, pixels, 1)], "column")
    outputs = {"context": 4}
    values = b.constant("values", factor(1, 1, 5, pixels))
    b.node("MatMul", [values, x], "context")
    if shared:
        b.node("Relu", [x], "relu")
        outputs["relu"] = 4
    return b.model([1, 1, pixels], outputs)


@pytest.mark.parametrize("kind", ["Unsqueeze", "Reshape"])
def test_a_column_of_weights_is_a_transposed_row(kind) -> None:
    nodes = rewritten(column(kind)).graph.node
    assert [node.op_type for node in nodes][-4:] == ["Reshape", "Softmax", "Transpose", "MatMul"]
    (turned,) = (node for node in nodes if node.op_type == "Transpose")
    assert list(turned.attribute[0].ints) == [0, 1, 3, 2]
    assert list(turned.output) == ["column"]


def test_a_column_that_is_more_than_weights_stays() -> None:
    model = column("Reshape", shared=True)
    kinds = [node.op_type for node in model.graph.node]
    assert [node.op_type for node in rewritten(model).graph.node] == kinds


def test_a_softmax_over_another_axis_stays() -> None:
    model = column("Reshape", axis=1)
    kinds = [node.op_type for node in model.graph.node]
    assert [node.op_type for node in rewritten(model).graph.node] == kinds


def turned(
    kind: str = "Mul",
    values: object = 0.25,
    *,
    first: bool = True,
    shape: tuple[int, ...] = (4, 6, 5),
    shared: bool = False,
    reader: str = "MatMul",
) -> onnx.ModelProto:
    """Queries that are scaled and transposed before their product with keys."""
    b = Builder()
    count = len(shape)
    x = b.node("Reshape", ["image", numbers(b, "shape", *shape)], "query")
    operands = [x, b.constant("factor", np.asarray(values, np.float32))]
    x = b.node(kind, operands if first else operands[::-1], "scaled")
    x = b.node("Transpose", [x], "turned", perm=[*range(count - 2), count - 1, count - 2])
    x = b.node("Unsqueeze", [x, numbers(b, "front", 0)], "heads")
    b.node(reader, [x, "query"], "products")
    outputs = {"products": count + 1}
    if shared:
        b.node("Relu", ["turned"], "relu")
        outputs["relu"] = count
    return b.model([1, 1, 1, int(np.prod(shape))], outputs)


@pytest.mark.parametrize(
    ("kind", "first"), [("Mul", True), ("Mul", False), ("Div", True)], ids=lambda value: str(value)
)
def test_a_factor_of_queries_follows_their_moves(kind, first) -> None:
    model = rewritten(turned(kind, first=first))
    kinds = [node.op_type for node in model.graph.node]
    assert kinds == ["Reshape", "Transpose", "Unsqueeze", kind, "MatMul"]


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(turned(values=factor(6, 1)), id="several factors"),
        pytest.param(turned("Div", first=False), id="a divisor"),
        pytest.param(turned(shape=(1, 4, 5, 5)), id="a picture"),
        pytest.param(turned(shared=True), id="another reader"),
        pytest.param(turned(reader="Add", shape=(4, 5, 5)), id="no product"),
    ],
)
def test_other_factors_stay_before_moves(model) -> None:
    kinds = [node.op_type for node in model.graph.node]
    assert [node.op_type for node in rewritten(model).graph.node] == kinds
