"""Arithmetic with a constant between two reshapes moves in front of them, or everything stays."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from small_networks import Builder

from edgepipe.frontend.folding import infer_shapes
from edgepipe.frontend.onnx_graph import remove_unread
from edgepipe.frontend.rewrites.between_reshapes import arithmetic_before_reshapes

WINDOWS, HEADS, TOKENS = 4, 2, 3
SHAPE = (WINDOWS, HEADS, TOKENS, TOKENS)
MASK = (1, WINDOWS, 1, TOKENS, TOKENS)


def numbers(b: Builder, name: str, *values: int) -> str:
    return b.constant(name, np.array(values, np.int64))


def added(
    kind: str, constant: np.ndarray, *, first: bool = True, outputs: tuple[str, ...] = ("weights",)
) -> onnx.ModelProto:
    """What moved windows do to their scores: a mask for each window, the same for all heads."""
    b = Builder()
    x = b.node("Reshape", ["image", numbers(b, "by_picture", 1, *SHAPE)], "inner")
    operands = [x, b.constant("mask", constant)]
    x = b.node(kind, operands if first else operands[::-1], "masked")
    x = b.node("Reshape", [x, numbers(b, "by_window", *SHAPE)], "scores")
    b.node("Softmax", [x], "weights")
    ranks = {"weights": 4, "inner": 5, "masked": 5}
    return b.model([*SHAPE], {name: ranks[name] for name in outputs})


def rewritten(model: onnx.ModelProto) -> Counter[str]:
    """Apply the rewrite to a copy, compare the values, and return the operators that are left."""
    after = onnx.ModelProto()
    after.CopyFrom(model)
    infer_shapes(after)
    arithmetic_before_reshapes(after)
    remove_unread(after.graph)
    onnx.checker.check_model(after)
    picture = np.random.default_rng(0).normal(0, 1, SHAPE).astype(np.float32)
    for one, other in zip(run(model, picture), run(after, picture), strict=True):
        np.testing.assert_array_equal(one, other)
    return Counter(node.op_type for node in after.graph.node if node.op_type != "Identity")


def run(model: onnx.ModelProto, picture: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {"image": picture})


def mask(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).normal(2, 1, shape).astype(np.float32)


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("shape", [MASK, (), (1,), (TOKENS, TOKENS), (WINDOWS, 1, 1, TOKENS)])
def test_reshapes_that_undo_each_other_are_dropped(kind, first, shape) -> None:
    left = rewritten(added(kind, mask(*shape), first=first))
    assert left == {kind: 1, "Softmax": 1}


@pytest.mark.parametrize("seen", ["inner", "masked"])
def test_values_that_are_outputs_stay(seen) -> None:
    left = rewritten(added("Add", mask(*MASK), outputs=("weights", seen)))
    assert left == {"Reshape": 2, "Add": 1, "Softmax": 1}


def test_a_constant_that_makes_the_tensor_larger_stays() -> None:
    b = Builder()
    x = b.node("Reshape", ["image", numbers(b, "one", 1, *SHAPE)], "inner")
    x = b.node("Add", [x, b.constant("two", mask(2, 1, 1, 1, 1))], "masked")
    x = b.node("Reshape", [x, numbers(b, "all", 2 * WINDOWS, *SHAPE[1:])], "scores")
    b.node("Softmax", [x], "weights")
    left = rewritten(b.model([*SHAPE], {"weights": 4}))
    assert left == {"Reshape": 2, "Add": 1, "Softmax": 1}


def test_another_shape_behind_stays() -> None:
    b = Builder()
    x = b.node("Reshape", ["image", numbers(b, "one", 1, *SHAPE)], "inner")
    x = b.node("Add", [x, b.constant("mask", mask(*MASK))], "masked")
    x = b.node("Reshape", [x, numbers(b, "flat", WINDOWS, -1)], "scores")
    b.node("Softmax", [x], "weights")
    left = rewritten(b.model([*SHAPE], {"weights": 2}))
    assert left == {"Reshape": 2, "Add": 1, "Softmax": 1}


def test_a_power_is_no_arithmetic_of_this_kind() -> None:
    model = added("Pow", np.float32(2))
    assert rewritten(model) == {"Reshape": 2, "Pow": 1, "Softmax": 1}


def test_two_tensors_stay() -> None:
    b = Builder()
    x = b.node("Reshape", ["image", numbers(b, "one", 1, *SHAPE)], "inner")
    x = b.node("Add", [x, x], "twice")
    x = b.node("Reshape", [x, numbers(b, "back", *SHAPE)], "scores")
    b.node("Softmax", [x], "weights")
    left = rewritten(b.model([*SHAPE], {"weights": 4}))
    assert left == {"Reshape": 2, "Add": 1, "Softmax": 1}
