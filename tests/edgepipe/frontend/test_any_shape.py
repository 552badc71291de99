"""Operators on tensors of any shape become operators on pictures, with the same values."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from small_networks import Builder

from edgepipe.frontend.folding import infer_shapes
from edgepipe.frontend.rewrites.any_shape import pictures_of_any_shape

WINDOWS, HEADS, TOKENS, EACH = 4, 2, 3, 5
SHAPE = (WINDOWS, HEADS, TOKENS, EACH)


def numbers(b: Builder, *values: int) -> str:
    return b.constant(f"numbers{len(b.constants)}", np.array(values, np.int64))


def values(b: Builder, *shape: int) -> str:
    array = np.random.default_rng(len(b.constants)).uniform(0.5, 2, shape).astype(np.float32)
    return b.constant(f"values{len(b.constants)}", array)


def before_a_layer(b: Builder, x: str, *, rank: int = 4, each: int = EACH) -> onnx.ModelProto:
    """End a network whose input is ``image`` with a layer that reads ``x``."""
    b.node("MatMul", [x, b.constant("layer", np.eye(each, dtype=np.float32))], "y")
    return b.model([*SHAPE], {"y": rank})


def rewritten(model: onnx.ModelProto) -> dict[str, list[tuple[int, ...]]]:
    """Rewrite a copy and compare the values; map its operators to the shapes of their results."""
    after = onnx.ModelProto()
    after.CopyFrom(model)
    infer_shapes(after)
    pictures_of_any_shape(after)
    onnx.checker.check_model(after)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    picture = np.random.default_rng(0).normal(0, 1, shape).astype(np.float32)
    for one, other in zip(run(model, picture), run(after, picture), strict=True):
        np.testing.assert_array_equal(one, other)
    infer_shapes(after)
    shapes = {
        value.name: tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        for value in after.graph.value_info
    }
    found: dict[str, list[tuple[int, ...]]] = {}
    for node in after.graph.node:
        found.setdefault(node.op_type, []).append(shapes.get(node.output[0], ()))
    return found


def run(model: onnx.ModelProto, picture: np.ndarray) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, {"image": picture})


@pytest.mark.parametrize("kind", ["Relu", "Sigmoid", "HardSwish", "Erf", "Tanh"])
def test_a_function_is_computed_on_a_picture(kind: str) -> None:
    b = Builder()
    model = before_a_layer(b, b.node(kind, ["image"], "x"))
    model.opset_import[0].version = 14
    assert rewritten(model)[kind] == [(1, WINDOWS, HEADS * TOKENS * EACH, 1)]


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize(
    ("constant", "picture"),
    [
        ((), (1, WINDOWS, HEADS * TOKENS * EACH, 1)),
        ((1, 1), (1, WINDOWS, HEADS * TOKENS * EACH, 1)),
        ((EACH,), (1, WINDOWS * HEADS * TOKENS, EACH, 1)),
        ((HEADS, 1, 1), (1, WINDOWS, HEADS, TOKENS * EACH)),
        ((HEADS, TOKENS, EACH), (1, WINDOWS, HEADS * TOKENS * EACH, 1)),
        (SHAPE, (1, WINDOWS, HEADS * TOKENS * EACH, 1)),
    ],
)
def test_neighbouring_axes_with_the_same_constants_are_one(kind, constant, picture) -> None:
    b = Builder()
    model = before_a_layer(b, b.node(kind, ["image", values(b, *constant)], "x"))
    assert rewritten(model)[kind] == [picture]


def test_a_constant_for_every_second_axis_is_written_out() -> None:
    """Its axes cannot be made three, so it gets a value for each element."""
    b = Builder()
    x = b.node("Mul", ["image", values(b, WINDOWS, 1, TOKENS, 1)], "x")
    found = rewritten(before_a_layer(b, x))
    assert found["Mul"] == [(1, WINDOWS, HEADS * TOKENS * EACH, 1)]


@pytest.mark.parametrize("axis", range(4))
def test_tensors_of_other_extents_are_broadcast_as_pictures(axis: int) -> None:
    b = Builder()
    part = b.node("ReduceSum", ["image", numbers(b, axis)], "part", keepdims=1)
    model = before_a_layer(b, b.node("Mul", ["image", part], "x"))
    (found,) = rewritten(model)["Mul"]
    assert found[0] == 1
    assert np.prod(found) == np.prod(SHAPE)


def test_operators_behind_one_another_share_a_picture() -> None:
    b = Builder()
    x = b.node("Relu", ["image"], "x")
    model = before_a_layer(b, b.node("Sigmoid", [b.node("Neg", [x], "z")], "s"))
    assert len(rewritten(model)["Reshape"]) == 2


@pytest.mark.parametrize("axis", range(-1, 4))
def test_joined_tensors_are_joined_as_channels(axis: int) -> None:
    b = Builder()
    each = 2 * EACH + 3 if axis in (-1, 3) else EACH
    shape = list(SHAPE)
    shape[axis] = 3
    x = b.node("Concat", ["image", values(b, *shape), "image"], "x", axis=axis)
    (found,) = rewritten(before_a_layer(b, x, each=each))["Concat"]
    assert found[:2] == (1, 2 * SHAPE[axis] + 3)


@pytest.mark.parametrize("axis", range(3))
def test_copies_are_a_selection_of_channels(axis: int) -> None:
    b = Builder()
    part = b.node("ReduceMax", ["image"], "part", axes=[axis], keepdims=1)
    model = before_a_layer(b, b.node("Expand", [part, numbers(b, *SHAPE)], "x"))
    found = rewritten(model)
    assert "Expand" not in found
    assert found["Gather"][0][:2] == (1, SHAPE[axis])


@pytest.mark.parametrize("counts", [(3, 1, 1, 1), (1, 1, 4, 1), (1, 1, 1, 1)])
def test_repetitions_along_one_axis_are_a_selection_of_channels(counts) -> None:
    b = Builder()
    x = b.node("Tile", ["image", numbers(b, *counts)], "x")
    found = rewritten(before_a_layer(b, x))
    assert "Tile" not in found
    assert ("Gather" in found) == (max(counts) > 1)


def test_a_part_of_attention_stays() -> None:
    b = Builder()
    query = b.node("Mul", ["image", values(b)], "query")
    key = b.node("Transpose", ["image"], "key", perm=[0, 1, 3, 2])
    scores = b.node("MatMul", [query, key], "products")
    scores = b.node("Mul", [scores, values(b)], "scaled")
    scores = b.node("Add", [scores, values(b, TOKENS, TOKENS)], "biased")
    shares = b.node("Softmax", [scores], "shares")
    found = rewritten(before_a_layer(b, b.node("MatMul", [shares, "image"], "x")))
    assert "Reshape" not in found


def test_a_part_of_linear_attention_stays() -> None:
    b = Builder()
    key = b.node("Transpose", ["image"], "key", perm=[0, 1, 3, 2])
    context = b.node("MatMul", [key, "image"], "context")
    sums = b.node("Mul", [b.node("MatMul", ["image", context], "sums"), values(b)], "scaled")
    every = b.node("ReduceSum", [key, numbers(b, -1)], "every", keepdims=1)
    total = b.node("MatMul", ["image", every], "products")
    total = b.node("Add", [total, values(b)], "total")
    found = rewritten(before_a_layer(b, b.node("Div", [sums, total], "x")))
    assert "Reshape" not in found


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("Pow", id="a power whose exponents differ"),
        pytest.param("PRelu", id="slopes that differ"),
    ],
)
def test_constants_of_other_operators_stay(kind: str) -> None:
    b = Builder()
    x = b.node("Abs", ["image"], "positive")
    model = before_a_layer(b, b.node(kind, [x, values(b, EACH)], "x"))
    assert rewritten(model)[kind] == [SHAPE]


@pytest.mark.parametrize("counts", [(2, 2, 1, 1), (1, 3, 1, 2)])
def test_repetitions_along_several_axes_stay(counts) -> None:
    b = Builder()
    x = b.node("Tile", ["image", numbers(b, *counts)], "x")
    assert "Tile" in rewritten(before_a_layer(b, x, each=EACH * counts[-1]))


def test_nothing_that_is_joined_stays() -> None:
    b = Builder()
    empty = b.constant("empty", np.zeros((WINDOWS, 0, TOKENS, EACH), np.float32))
    bounds = [numbers(b, 0), numbers(b, 0), numbers(b, 1)]
    x = b.node("Concat", ["image", b.node("Slice", ["image", *bounds], "none"), empty], "x", axis=1)
    assert "Reshape" not in rewritten(before_a_layer(b, x))


def test_what_decodes_results_stays() -> None:
    b = Builder()
    b.node("Sigmoid", ["image"], "y")
    assert "Reshape" not in rewritten(b.model([*SHAPE], {"y": 4}))


def test_what_a_mean_of_places_is_computed_of_stays() -> None:
    """YOLOv8: the distances of all levels, as means of places that a softmax weighs."""
    b = Builder()
    x = b.node("Concat", ["image", "image"], "levels", axis=2)
    x = b.node("Softmax", [b.node("Transpose", [x], "last", perm=[0, 2, 1, 3])], "shares")
    assert "Reshape" not in rewritten(before_a_layer(b, x))


def test_what_the_corners_of_boxes_are_computed_of_stays() -> None:
    """YOLOv7: centres and sizes, times a matrix that gives corners."""
    b = Builder()
    x = b.node("Mul", ["image", b.constant("stride", np.full((HEADS, 1, 1), 8, np.float32))], "x")
    x = b.node("Slice", [x, numbers(b, 0), numbers(b, 4), numbers(b, 3)], "boxes")
    b.node("MatMul", [x, b.constant("corners", np.eye(4, dtype=np.float32))], "y")
    assert "Reshape" not in rewritten(b.model([*SHAPE], {"y": 4}))


def test_a_convolution_of_few_weights_is_a_layer() -> None:
    b = Builder()
    x = b.node("Reshape", [b.node("Relu", ["image"], "x"), numbers(b, 1, HEADS, -1, EACH)], "r")
    b.node("Conv", [x, values(b, 1, HEADS, 1, 1)], "y")
    found = rewritten(b.model([*SHAPE], {"y": 4}))
    assert found["Relu"] == [(1, WINDOWS, HEADS * TOKENS * EACH, 1)]


def test_whole_numbers_stay() -> None:
    b = Builder()
    x = b.node("Cast", ["image"], "whole", to=onnx.TensorProto.INT32)
    x = b.node("Add", [x, b.constant("one", np.int32(1))], "more")
    x = b.node("Cast", [x], "x", to=onnx.TensorProto.FLOAT)
    assert "Reshape" not in rewritten(before_a_layer(b, x))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 3), min_size=2, max_size=6),
    st.data(),
    st.sampled_from(["Add", "Mul", "Sub", "Div"]),
)
def test_any_shapes_give_the_same_values(shape, data, kind) -> None:
    kept = data.draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    constant = [size if keeps else 1 for size, keeps in zip(shape, kept, strict=True)]
    summed = [axis for axis in range(len(shape)) if data.draw(st.booleans())]
    assume(summed)
    b = Builder()
    x = b.node(kind, ["image", values(b, *constant)], "x")
    part = b.node("ReduceSum", [x, numbers(b, *summed)], "part", keepdims=1)
    x = b.node("Mul", [part, x] if data.draw(st.booleans()) else [x, part], "z")
    b.node("MatMul", [x, b.constant("layer", np.eye(shape[-1], dtype=np.float32))], "y")
    rewritten(b.model(shape, {"y": len(shape)}))
