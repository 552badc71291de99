"""Shares of a softmax that are mixed with constants: two products in place of one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest
from small_networks import Builder

from edgepipe.frontend.folding import infer_shapes
from edgepipe.frontend.rewrites.mixed_shares import unmix_shares

HEADS, TOKENS, CHANNELS = 2, 6, 4
SHAPE = (1, HEADS, TOKENS, TOKENS)
UNMIXED = ["MatMul", "Mul", "MatMul", "Add"]

Mix = Callable[[Builder, str], str]


def numbers(b: Builder, name: str, *values: int) -> str:
    return b.constant(name, np.array(values, np.int64))


def positive(b: Builder, name: str, *shape: int) -> str:
    values = np.random.default_rng(len(name)).uniform(0.2, 2, shape)
    return b.constant(name, values.astype(np.float32))


def attention(mix: Mix, *, axis: int = -1, opset: int = 13) -> onnx.ModelProto:
    """Return a network whose input is the scores; the values are computed from them, too."""
    b = Builder()
    values = b.node("Slice", ["image", *(numbers(b, n, v) for n, v in SLICE)], "values")
    mixed = mix(b, b.node("Softmax", ["image"], "shares", axis=axis))
    b.node("MatMul", [mixed, values], "y")
    return b.model([*SHAPE], {"y": 4}, opset=opset)


SLICE = (("begin", 0), ("end", CHANNELS), ("axis", 3))


def kinds_after(model: onnx.ModelProto) -> list[str]:
    """Return the operators behind the softmax after the rewrite; the values are those of before."""
    after = onnx.ModelProto()
    after.CopyFrom(model)
    infer_shapes(after)
    unmix_shares(after)
    onnx.checker.check_model(after)
    picture = np.random.default_rng(0).normal(0, 1, SHAPE).astype(np.float32)
    one, other = (
        onnxruntime.InferenceSession(m.SerializeToString()).run(None, {"image": picture})[0]
        for m in (model, after)
    )
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    return [node.op_type for node in after.graph.node if node.op_type not in ("Slice", "Softmax")]


def divided(b: Builder, mixed: str, *, keepdims: int = 1, least: bool = False) -> str:
    total = b.node("ReduceSum", [mixed, numbers(b, "last", -1)], "total", keepdims=keepdims)
    if not keepdims:
        total = b.node("Unsqueeze", [total, numbers(b, "axis_of_sums", 3)], "column")
    if least:
        total = b.node("Add", [total, b.constant("least", np.float32(1e-6))], "positive")
    return b.node("Div", [mixed, total], "divided")


def convit(b: Builder, shares: str, **more: object) -> str:
    seen = b.node("Mul", [positive(b, "gate", 1, HEADS, 1, 1), shares], "seen")
    mixed = b.node("Add", [seen, positive(b, "places", *SHAPE)], "mixed")
    return divided(b, mixed, **more)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("least", [False, True])
def test_shares_and_constants_are_multiplied_on_their_own(keepdims: int, least: bool) -> None:
    model = attention(lambda b, s: convit(b, s, keepdims=keepdims, least=least))
    assert kinds_after(model) == UNMIXED


def test_a_difference_from_constants_is_a_mixture() -> None:
    model = attention(lambda b, s: b.node("Sub", [positive(b, "ones", *SHAPE), s], "mixed"))
    assert kinds_after(model) == UNMIXED


def test_a_factor_of_the_same_rows_of_each_head_is_one_of_the_head() -> None:
    def mix(b: Builder, shares: str) -> str:
        gates = np.broadcast_to(np.float32([0.3, 0.6]).reshape(1, 2, 1, 1), (*SHAPE[:-1], 1))
        return b.node("Div", [shares, b.constant("gates", np.ascontiguousarray(gates))], "mixed")

    after = attention(mix)
    assert kinds_after(after) == ["MatMul", "Mul"]
    infer_shapes(after)
    unmix_shares(after)
    (factor,) = (i for i in after.graph.initializer if i.name.endswith("/factor"))
    assert tuple(factor.dims) == (1, HEADS, 1, 1)


def test_a_softmax_of_an_old_opset_over_the_last_axis_has_shares() -> None:
    model = attention(lambda b, s: b.node("Add", [s, positive(b, "c", *SHAPE)], "m"), opset=11)
    assert kinds_after(model) == UNMIXED


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(attention(lambda _, s: s), id="shares alone"),
        pytest.param(
            attention(lambda b, s: b.node("Mul", [s, positive(b, "c", TOKENS)], "mixed")),
            id="a factor for each column",
        ),
        pytest.param(
            attention(lambda b, s: b.node("Div", [positive(b, "c", 1), s], "mixed")),
            id="constants that shares divide",
        ),
        pytest.param(
            attention(lambda b, s: b.node("Add", [s, s], "mixed")), id="shares that are added"
        ),
        pytest.param(
            attention(lambda b, s: b.node("Add", [s, "image"], "mixed")), id="a tensor is added"
        ),
        pytest.param(
            attention(lambda b, s: b.node("Mul", [s, positive(b, "c", 1)], "mixed"), axis=2),
            id="shares of columns",
        ),
        pytest.param(
            attention(lambda b, s: b.node("Div", [s, b.constant("no", np.float32(0))], "mixed")),
            id="a quotient by zero",
        ),
    ],
)
def test_other_products_stay(model: onnx.ModelProto) -> None:
    infer_shapes(model)
    before = [node.op_type for node in model.graph.node]
    unmix_shares(model)
    assert [node.op_type for node in model.graph.node] == before
