"""Assignments to a part of a tensor: parts beside what is assigned."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_networks import Builder

from edgepipe.frontend.folding import infer_shapes
from edgepipe.frontend.rewrites.assignments import join_assigned_parts

SHAPE = (1, 4, 5, 6)


def assigned(indices: np.ndarray, shape: tuple[int, ...] = SHAPE, **more: str) -> onnx.ModelProto:
    """Return a network that assigns its input's negative to some of its elements."""
    b = Builder()
    picture = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    updates = -1 - picture.reshape(-1)[: np.prod(indices.shape[:-1] + shape[indices.shape[-1] :])]
    updates = updates.reshape(indices.shape[:-1] + shape[indices.shape[-1] :])
    x = b.node("Relu", ["image"], "x")
    operands = [x, b.constant("indices", indices.astype(np.int64)), b.constant("updates", updates)]
    b.node("ScatterND", operands, "y", **more)
    return b.model([*shape], {"y": len(shape)}, opset=18 if more else 13)


def box(*bounds: tuple[int, int]) -> np.ndarray:
    """Return the indices of a box, as torch makes them of slices."""
    grid = np.meshgrid(*(np.arange(*each) for each in bounds), indexing="ij")
    return np.stack(grid, -1)


def kinds_after(model: onnx.ModelProto) -> list[str]:
    """Return the operators after the rewrite; the result is that of before, bit by bit."""
    after = onnx.ModelProto()
    after.CopyFrom(model)
    infer_shapes(after)
    join_assigned_parts(after)
    onnx.checker.check_model(after)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    picture = np.random.default_rng(0).normal(0, 1, shape).astype(np.float32)
    one, other = (
        onnxruntime.InferenceSession(m.SerializeToString()).run(None, {"image": picture})[0]
        for m in (model, after)
    )
    np.testing.assert_array_equal(one, other)
    return [node.op_type for node in after.graph.node]


def test_an_assignment_to_all_elements_leaves_what_is_assigned() -> None:
    assert kinds_after(assigned(box((0, 1), (0, 4), (0, 5), (0, 6)))) == ["Reshape"]


def test_a_part_along_one_axis_is_joined_with_those_beside_it() -> None:
    found = kinds_after(assigned(box((0, 1), (1, 3))))
    assert found == ["Relu", "Reshape", "Slice", "Slice", "Concat"]


def test_a_part_at_the_end_has_one_beside_it() -> None:
    indices = box((0, 1), (2, 4))
    indices[..., 1] -= 4
    assert kinds_after(assigned(indices)) == ["Relu", "Reshape", "Slice", "Concat"]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), min_size=1, max_size=4))
def test_a_box_of_any_axes_is_joined(places: list[tuple[int, int]]) -> None:
    bounds = [
        (min(first, size - 1), min(first + count, size))
        for (first, count), size in zip(places, SHAPE, strict=False)
    ]
    assert "ScatterND" not in kinds_after(assigned(box(*bounds)))


@pytest.mark.parametrize(
    "indices",
    [
        pytest.param(np.zeros((2, 5)), id="of five axes"),
        pytest.param(np.array([[0, 7]]), id="beyond the end"),
    ],
)
def test_indices_that_are_wrong_stay(indices: np.ndarray) -> None:
    model = assigned(box((0, 1), (0, 2)))
    infer_shapes(model)
    (given,) = (i for i in model.graph.initializer if i.name == "indices")
    given.CopyFrom(onnx.numpy_helper.from_array(indices.astype(np.int64), "indices"))
    join_assigned_parts(model)
    assert "ScatterND" in [node.op_type for node in model.graph.node]


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(assigned(box((0, 1), (0, 2))[:, ::-1]), id="in another order"),
        pytest.param(assigned(np.array([[0, 1], [0, 3]])), id="every second"),
        pytest.param(assigned(box((0, 1), (0, 2)), reduction="add"), id="added"),
    ],
)
def test_other_updates_stay(model: onnx.ModelProto) -> None:
    assert "ScatterND" in kinds_after(model)
