"""Linear attention of all spellings becomes one, and what only looks like it stays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest
from small_networks import Builder

from edgepipe.frontend.folding import infer_shapes
from edgepipe.frontend.rewrites.einsums import plain_einsums
from edgepipe.frontend.rewrites.linear_attention import plain_linear_attention

HEADS, TOKENS, DEPTH = 2, 10, 4
SHAPE = (1, HEADS, TOKENS, DEPTH)
EPSILON = 1e-3
PLAIN = {"MatMul": 3, "ReduceSum": 1, "Add": 1, "Div": 1}
"""What all spellings become, beside transpositions."""


def integers(b: Builder, name: str, *values: int) -> str:
    return b.constant(name, np.array(values, np.int64))


def number(b: Builder, name: str, value: float) -> str:
    return b.constant(name, np.float32(value))


def turned(b: Builder, value: str, *, rank: int = 4) -> str:
    axes = [*range(rank - 2), rank - 1, rank - 2]
    return b.node("Transpose", [value], f"{value}_turned", perm=axes)


def tensors(b: Builder) -> tuple[str, str, str]:
    """Queries, keys and values [1, heads, tokens, depth]; queries and keys are positive."""
    query = b.node("Relu", ["image"], "query")
    key = b.node("Sigmoid", ["image"], "key")
    value = b.node("Tanh", ["image"], "value")
    return query, key, value


def sliced(b: Builder, x: str, name: str, begin: int, end: int, axis: int) -> str:
    bounds = [
        integers(b, f"{name}_{what}", given)
        for what, given in (("begin", begin), ("end", end), ("axis", axis))
    ]
    return b.node("Slice", [x, *bounds], name)


def divided(b: Builder, sums: str, totals: str, epsilon: float = EPSILON) -> str:
    if epsilon:
        totals = b.node("Add", [totals, number(b, "epsilon", epsilon)], "positive")
    return b.node("Div", [sums, totals], "y")


def padded(b: Builder, value: str, axis: int = 3, filled: float = 1.0, before: int = 0) -> str:
    amounts = [0] * 8
    amounts[axis], amounts[4 + axis] = before, 1 - before
    return b.node(
        "Pad", [value, integers(b, "amounts", *amounts), number(b, "one", filled)], "padded"
    )


def product(b: Builder, values: Callable[[Builder, str], str]) -> str:
    """Queries times keys times ``values``, which have one more column."""
    query, key, value = tensors(b)
    context = b.node("MatMul", [turned(b, key), values(b, value)], "context")
    return b.node("MatMul", [query, context], "all")


def of_padded(b: Builder, values: Callable[[Builder, str], str], first: int = 0) -> str:
    """The quotient of the columns of one product: EfficientViT's, in timm."""
    x = product(b, values)
    sums = sliced(b, x, "sums", first, first + DEPTH, 3)
    last = DEPTH * (1 - first)
    return divided(b, sums, sliced(b, x, "totals", last, last + 1, -1))


def padded_values(b: Builder) -> str:
    return of_padded(b, padded)


def ones_in_front(b: Builder) -> str:
    return of_padded(b, lambda b, value: padded(b, value, before=1), first=1)


def joined(b: Builder, value: str, *, first: bool = False) -> str:
    ones = b.constant("ones", np.ones((1, HEADS, TOKENS, 1), np.float32))
    return b.node("Concat", [ones, value] if first else [value, ones], "joined", axis=-1)


def joined_ones(b: Builder) -> str:
    return of_padded(b, joined)


def joined_in_front(b: Builder) -> str:
    return of_padded(b, lambda b, value: joined(b, value, first=True), first=1)


def split_columns(b: Builder) -> str:
    sizes = integers(b, "sizes", DEPTH, 1)
    b.node("Split", [product(b, padded), sizes], "sums", "totals", axis=3)
    return divided(b, "sums", "totals")


def without_epsilon(b: Builder) -> str:
    b.node("Split", [product(b, padded), integers(b, "sizes", DEPTH, 1)], "sums", "totals", axis=3)
    return divided(b, "sums", "totals", 0.0)


def turned_values(b: Builder) -> str:
    """The original EfficientViT: channels before tokens, values in front."""
    query, key, value = (turned(b, tensor) for tensor in tensors(b))
    context = b.node("MatMul", [padded(b, value, axis=2), turned(b, key)], "context")
    x = b.node("MatMul", [context, query], "all")
    return divided(b, sliced(b, x, "sums", 0, -1, 2), sliced(b, x, "totals", -1, 9999, 2))


def queries_times_keys_first(b: Builder) -> str:
    query, key, value = tensors(b)
    scores = b.node("MatMul", [query, turned(b, key)], "scores")
    totals = b.node("ReduceSum", [scores, integers(b, "axis", -1)], "totals", keepdims=1)
    return divided(b, b.node("MatMul", [scores, value], "sums"), totals)


def inverse_of_means(b: Builder) -> str:
    """FLatten and MLLA: keys and values are scaled, and the keys' mean takes their sum's place."""
    query, key, value = tensors(b)
    root = number(b, "root", TOKENS**-0.5)
    keys = b.node("Mul", [turned(b, key), root], "keys")
    context = b.node("MatMul", [keys, b.node("Mul", [value, root], "values")], "context")
    mean = b.node("ReduceMean", [key], "mean", axes=[2], keepdims=1)
    totals = b.node("MatMul", [query, turned(b, mean)], "totals")
    totals = b.node("Add", [number(b, "epsilon", EPSILON), totals], "positive")
    inverse = b.node("Div", [number(b, "unit", 1), totals], "inverse")
    return b.node("Mul", [b.node("MatMul", [query, context], "sums"), inverse], "y")


def sums_of_products(b: Builder) -> str:
    query, key, value = tensors(b)
    sums = b.node("MatMul", [query, b.node("MatMul", [turned(b, key), value], "context")], "sums")
    total = b.node("ReduceSum", [key, integers(b, "rows", 2)], "total", keepdims=1)
    products = b.node("Mul", [total, query], "products")
    totals = b.node("ReduceSum", [products, integers(b, "columns", 3)], "totals", keepdims=1)
    inverse = b.node(
        "Reciprocal",
        [b.node("Add", [totals, number(b, "epsilon", EPSILON)], "positive")],
        "inverse",
    )
    return b.node("Mul", [inverse, sums], "y")


def subscripts(b: Builder) -> str:
    """Performer's: sums by subscripts, and axes that are dropped and added again."""
    query, key, value = tensors(b)
    total = b.node("ReduceSum", [key, integers(b, "rows", -2)], "total", keepdims=0)
    totals = b.node("Einsum", [query, total], "totals", equation="...nd,...d->...n")
    totals = b.node("Add", [totals, number(b, "epsilon", EPSILON)], "positive")
    inverse = b.node("Reciprocal", [totals], "inverse")
    inverse = b.node("Unsqueeze", [inverse, integers(b, "last", 3)], "column")
    context = b.node("Einsum", [key, value], "context", equation="...nd,...ne->...de")
    sums = b.node("Einsum", [query, context], "sums", equation="...nd,...de->...ne")
    return b.node("Mul", [sums, inverse], "y")


def of_parts(b: Builder, sums: str, query: str, key: str, axis: int = 2) -> str:
    total = b.node("ReduceSum", [key, integers(b, "axis", axis)], "total", keepdims=1)
    return divided(b, sums, b.node("MatMul", [query, turned(b, total)], "totals"))


def plain_sums(b: Builder) -> tuple[str, str, str]:
    query, key, value = tensors(b)
    context = b.node("MatMul", [turned(b, key), value], "context")
    return b.node("MatMul", [query, context], "sums"), query, key


def scaled_totals(b: Builder) -> str:
    """Twice the queries in the totals alone."""
    sums, query, key = plain_sums(b)
    twice = b.node("Mul", [query, number(b, "two", 2)], "twice")
    return of_parts(b, sums, twice, key)


SPELLINGS: dict[str, Callable[[Builder], str]] = {
    make.__name__: make
    for make in (
        padded_values,
        ones_in_front,
        joined_ones,
        joined_in_front,
        split_columns,
        without_epsilon,
        turned_values,
        queries_times_keys_first,
        inverse_of_means,
        sums_of_products,
        subscripts,
        scaled_totals,
    )
}


def rewritten(make: Callable[[Builder], str]) -> onnx.ModelProto:
    """Return the graph after the rewrite; its values are those of before."""
    builder = Builder()
    make(builder)
    before = builder.model([*SHAPE], {"y": 4})
    after = onnx.ModelProto()
    after.CopyFrom(before)
    infer_shapes(after)
    plain_einsums(after)
    plain_linear_attention(after)
    onnx.checker.check_model(after)
    picture = np.random.default_rng(0).normal(0, 1, SHAPE).astype(np.float32)
    expected, found = (
        onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"image": picture})[0]
        for model in (before, after)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    return after


def kinds(model: onnx.ModelProto) -> Counter[str]:
    others = ("Relu", "Sigmoid", "Tanh", "Transpose")
    return Counter(node.op_type for node in model.graph.node if node.op_type not in others)


@pytest.mark.parametrize("name", SPELLINGS)
def test_linear_attention_becomes_a_quotient_by_the_sum_of_the_keys(name: str) -> None:
    expected = Counter(PLAIN)
    expected["Add"] -= name == "without_epsilon"
    expected["Mul"] += name in ("scaled_totals", "inverse_of_means")
    assert kinds(rewritten(SPELLINGS[name])) == expected


def filled_with_two(b: Builder) -> str:
    return of_padded(b, lambda b, value: padded(b, value, filled=2.0))


def filled_with_zero(b: Builder) -> str:
    return of_padded(b, lambda b, value: padded(b, value, filled=0.0))


def joined_twos(b: Builder) -> str:
    def values(b: Builder, value: str) -> str:
        twos = b.constant("twos", np.full((1, HEADS, TOKENS, 1), 2, np.float32))
        return b.node("Concat", [value, twos], "joined", axis=-1)

    return of_padded(b, values)


def a_value_for_ones(b: Builder) -> str:
    x = product(b, padded)
    return divided(b, sliced(b, x, "sums", 0, DEPTH, 3), sliced(b, x, "totals", 1, 2, 3))


def columns_with_the_ones(b: Builder) -> str:
    x = product(b, padded)
    return divided(b, sliced(b, x, "sums", 1, DEPTH + 1, 3), sliced(b, x, "totals", 4, 5, 3))


def another_query(b: Builder) -> str:
    sums, query, key = plain_sums(b)
    return of_parts(b, sums, b.node("Sigmoid", [query], "other"), key)


def another_key(b: Builder) -> str:
    sums, query, key = plain_sums(b)
    return of_parts(b, sums, query, b.node("Sigmoid", [key], "other"))


def epsilons_of_rows(b: Builder) -> str:
    sums, query, key = plain_sums(b)
    total = b.node("ReduceSum", [key, integers(b, "axis", 2)], "total", keepdims=1)
    totals = b.node("MatMul", [query, turned(b, total)], "totals")
    several = b.constant("epsilons", np.full((TOKENS, 1), EPSILON, np.float32))
    return b.node("Div", [sums, b.node("Add", [totals, several], "positive")], "y")


def totals_divided(b: Builder) -> str:
    sums, query, key = plain_sums(b)
    total = b.node("ReduceSum", [key, integers(b, "axis", 2)], "total", keepdims=1)
    totals = b.node("MatMul", [query, turned(b, total)], "totals")
    totals = b.node("Add", [totals, number(b, "epsilon", EPSILON)], "positive")
    return b.node("Div", [totals, sums], "y")


def scaled_by_zero(b: Builder) -> str:
    sums, query, key = plain_sums(b)
    return of_parts(b, b.node("Mul", [sums, number(b, "zero", 0)], "nothing"), query, key)


def layers(b: Builder) -> str:
    """What weights are multiplied with is no query."""
    query = tensors(b)[0]
    weight = b.constant("w", np.abs(b.normal(1, HEADS, DEPTH, DEPTH)))
    other = b.constant("x", np.abs(b.normal(1, HEADS, DEPTH, DEPTH)))
    x = b.node("MatMul", [b.node("MatMul", [query, weight], "one"), other], "two")
    totals = b.node("ReduceSum", ["one", integers(b, "axis", -1)], "totals", keepdims=1)
    return divided(b, x, totals)


@pytest.mark.parametrize(
    "make",
    [
        filled_with_two,
        filled_with_zero,
        joined_twos,
        a_value_for_ones,
        columns_with_the_ones,
        another_query,
        another_key,
        epsilons_of_rows,
        totals_divided,
        scaled_by_zero,
        layers,
    ],
)
def test_what_is_no_linear_attention_stays(make: Callable[[Builder], str]) -> None:
    builder = Builder()
    make(builder)
    before = builder.model([*SHAPE], {"y": 4})
    assert kinds(rewritten(make)) == kinds(before)


def test_a_matrix_that_is_squared_again_and_again_is_soon_read() -> None:
    """As an iteration for an inverse has it: the factors double with every product."""

    def squared(b: Builder) -> str:
        x = b.node("MatMul", ["image", turned(b, "image")], "x0")
        for index in range(1, 60):
            scaled = b.node("Mul", [x, number(b, f"n{index}", 0.01)], f"s{index}")
            x = b.node("MatMul", [scaled, scaled], f"x{index}")
        return divided(b, x, x)

    builder = Builder()
    squared(builder)
    assert kinds(rewritten(squared)) == kinds(builder.model([*SHAPE], {"y": 4}))
