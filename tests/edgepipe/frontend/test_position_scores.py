"""Scores with positions that depend on the queries: one product of longer vectors."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from small_networks import Builder

from edgepipe.frontend.folding import infer_shapes
from edgepipe.frontend.rewrites.position_scores import join_position_scores

HEADS, DEPTH, ROWS, COLUMNS = 2, 4, 3, 5
TOKENS = ROWS * COLUMNS
SHAPE = (1, HEADS, TOKENS, DEPTH)


def numbers(b: Builder, name: str, *values: int) -> str:
    return b.constant(name, np.array(values, np.int64))


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape[-1]).normal(0, 1, shape).astype(np.float32)


def positions(b: Builder, kind: str) -> str:
    """Return what the queries say of the keys' rows, columns, or of all keys."""
    size = {"rows": ROWS, "columns": COLUMNS, "all": TOKENS}[kind]
    made = b.node("MatMul", ["image", b.constant(f"w_{kind}", weights(DEPTH, size))], kind)
    axes = {"rows": (ROWS, 1), "columns": (1, COLUMNS), "all": (ROWS, COLUMNS)}[kind]
    shape = numbers(b, f"{kind}/shape", 1, HEADS, TOKENS, *axes)
    return b.node("Reshape", [made, shape], f"{kind}/added")


def scores(b: Builder, *, factor: float = 0.5, behind: bool = False) -> str:
    key = b.node("Transpose", ["image"], "key", perm=[0, 1, 3, 2])
    query, by = "image", b.constant("factor", np.float32(factor))
    if not behind:
        query = b.node("Mul", ["image", by], "query")
    made = b.node("MatMul", [query, key], "product")
    return b.node("Mul", [made, by], "scaled") if behind else made


def summed(*kinds: str, behind: bool = False, bias: bool = False) -> onnx.ModelProto:
    """Return a network with a softmax of scores and positions, in the order of SAM's code."""
    b = Builder()
    shape = numbers(b, "places", 1, HEADS, TOKENS, ROWS, COLUMNS)
    x = b.node("Reshape", [scores(b, behind=behind), shape], "by_places")
    for kind in kinds:
        x = b.node("Add", [x, positions(b, kind)], f"with_{kind}")
    x = b.node("Reshape", [x, numbers(b, "flat", 1, HEADS, TOKENS, TOKENS)], "sums")
    if bias:
        x = b.node("Add", [b.constant("bias", weights(HEADS, 1, TOKENS)), x], "biased")
    b.node("Softmax", [x], "y", axis=-1)
    return b.model([*SHAPE], {"y": 4})


def as_a_mask() -> onnx.ModelProto:
    """Positions are added to each other first: a mask of ``scaled_dot_product_attention``."""
    b = Builder()
    mask = b.node("Add", [positions(b, "rows"), positions(b, "columns")], "mask")
    mask = b.node("Reshape", [mask, numbers(b, "flat", 1, HEADS, TOKENS, TOKENS)], "flat_mask")
    x = b.node("Add", [scores(b), mask], "sums")
    b.node("Softmax", [x], "y", axis=3)
    return b.model([*SHAPE], {"y": 4})


def rewritten(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the graph after the rewrite; its values are those of before."""
    after = onnx.ModelProto()
    after.CopyFrom(model)
    infer_shapes(after)
    join_position_scores(after)
    onnx.checker.check_model(after)
    picture = np.random.default_rng(0).normal(0, 1, SHAPE).astype(np.float32)
    one, other = (
        onnxruntime.InferenceSession(m.SerializeToString()).run(None, {"image": picture})[0]
        for m in (model, after)
    )
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    return after


def before_softmax(model: onnx.ModelProto) -> onnx.NodeProto:
    (softmax,) = (node for node in model.graph.node if node.op_type == "Softmax")
    return next(node for node in model.graph.node if node.output[0] == softmax.input[0])


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(summed("rows", "columns"), id="rows and columns"),
        pytest.param(summed("columns"), id="columns"),
        pytest.param(summed("rows", "columns", behind=True), id="a factor behind the product"),
        pytest.param(as_a_mask(), id="a mask"),
    ],
)
def test_positions_become_elements_of_the_queries(model: onnx.ModelProto) -> None:
    after = rewritten(model)
    assert before_softmax(after).op_type == "MatMul"
    assert [node.op_type for node in after.graph.node].count("Concat") == 2


def test_constants_are_still_added_to_the_scores() -> None:
    added = before_softmax(rewritten(summed("rows", bias=True)))
    assert added.op_type == "Add"


def test_a_sum_for_each_key_stays() -> None:
    after = rewritten(summed("all"))
    assert "Concat" not in [node.op_type for node in after.graph.node]


def test_sums_of_a_tensor_with_itself_are_followed_once() -> None:
    """Otherwise, each of them would double the time."""
    b = Builder()
    x = scores(b)
    for index in range(60):
        x = b.node("Add", [x, x], f"twice{index}")
    b.node("Softmax", [x], "y", axis=-1)
    after = rewritten(b.model([*SHAPE], {"y": 4}))
    assert "Concat" not in [node.op_type for node in after.graph.node]


def test_sums_that_are_results_stay() -> None:
    model = summed("rows", "columns")
    model.graph.output.append(onnx.helper.make_tensor_value_info("sums", 1, None))
    infer_shapes(model)
    before = [node.op_type for node in model.graph.node]
    join_position_scores(model)
    assert [node.op_type for node in model.graph.node] == before


def test_scores_without_positions_stay() -> None:
    after = rewritten(summed(bias=True))
    assert "Concat" not in [node.op_type for node in after.graph.node]
