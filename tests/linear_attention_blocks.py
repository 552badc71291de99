"""Linear attention between two convolutions, as exporters write it: all of it is int8.

Each function reads the pictures ``u`` and ``v``, float[1, 8, 12, 16], and returns the name of a
picture with the result. The tokens are the pixels.
"""

from __future__ import annotations

from ordinary_operators import CHANNELS, HEIGHT, WIDTH, Maker, Parts
from small_networks import Builder

TOKENS = HEIGHT * WIDTH
HEADS, EACH = 2, 4
SHAPE = (1, HEADS, TOKENS, EACH)
EPSILON = 1e-5


def _picture(p: Parts, x: str) -> str:
    return p("Reshape", x, p.integers(1, CHANNELS, HEIGHT, WIDTH))


def _last_turned(p: Parts, x: str) -> str:
    return p("Transpose", x, perm=[0, 1, 3, 2])


def _three(p: Parts, u: str) -> tuple[str, str, str]:
    """Queries, keys and values [1, heads, channels, tokens]."""
    both = p("Conv", u, p.values(p.normal(3 * CHANNELS, CHANNELS, 1, 1) * 0.5))
    query, key, value = p.split(both, 1, *[CHANNELS] * 3)
    shape = p.integers(1, HEADS, EACH, TOKENS)
    query, key, value = (p("Reshape", x, shape) for x in (query, key, value))
    return query, key, value


def _divided(p: Parts, sums: str, totals: str, epsilon: float = EPSILON) -> str:
    return p("Div", sums, p("Add", totals, p.number(epsilon)))


def efficientvit(b: Builder, u: str, v: str) -> str:
    """timm's EfficientViT: a column of ones, whose product is the divisor of the others."""
    p = Parts(b, "efficientvit")
    both = p("Conv", u, p.values(p.normal(3 * CHANNELS, CHANNELS, 1, 1)))
    x = p("Reshape", both, p.integers(1, HEADS, 3 * EACH, TOKENS))
    query, key, value = p.split(_last_turned(p, x), 3, EACH, EACH, EACH)
    padded = p("Pad", value, p.integers(0, 0, 0, 0, 0, 0, 0, 1), p.number(1))
    context = p("MatMul", _last_turned(p, p("Relu", key)), padded)
    sums, total = p.split(p("MatMul", p("Relu", query), context), 3, EACH, 1)
    return _picture(p, _last_turned(p, _divided(p, sums, total)))


def channels_first(b: Builder, u: str, v: str) -> str:
    """The original EfficientViT: a row of ones, and the values in front."""
    p = Parts(b, "channels_first")
    query, key, value = _three(p, u)
    padded = p("Pad", value, p.integers(0, 0, 0, 0, 0, 0, 1, 0), p.number(1))
    context = p("MatMul", padded, _last_turned(p, p("Relu", key)))
    sums, total = p.split(p("MatMul", context, p("Relu", query)), 2, EACH, 1)
    return _picture(p, _divided(p, sums, total))


def heads_as_batch(b: Builder, u: str, v: str) -> str:
    """Queries of one convolution and keys of another, with heads as the batch of matrices."""
    p = Parts(b, "batch")
    query, key, value = _three(p, u)[0], *_three(p, v)[1:]
    query, key, value = (
        p("Reshape", x, p.integers(HEADS, EACH, TOKENS))
        for x in (p("Relu", query), p("Relu", key), value)
    )
    query, value = (p("Transpose", x, perm=[0, 2, 1]) for x in (query, value))
    total = p("ReduceSum", key, p.integers(2), keepdims=1)
    sums = p("MatMul", query, p("MatMul", key, value))
    x = _divided(p, sums, p("MatMul", query, total), 1e-3)
    return _picture(p, p("Transpose", x, perm=[0, 2, 1]))


def elu_of_keys(b: Builder, u: str, v: str) -> str:
    """FLatten's: elu + 1, which is positive, and the inverse of a product with the keys' mean."""
    p = Parts(b, "elu")
    query, key, value = _three(p, u)
    query, key = (p("Add", p("Elu", x), p.number(1)) for x in (query, key))
    query, value, root = _last_turned(p, query), _last_turned(p, value), p.number(TOKENS**-0.5)
    mean = p("ReduceMean", key, axes=[-1], keepdims=1)
    totals = p("Add", p("MatMul", query, mean), p.number(1e-6))
    context = p("MatMul", p("Mul", key, root), p("Mul", value, root))
    x = p("Mul", p("MatMul", query, context), p("Div", p.number(1), totals))
    return p("Add", _picture(p, _last_turned(p, x)), v)


def by_subscripts(b: Builder, u: str, v: str) -> str:
    """Performer's: sums by subscripts, after a softmax of the queries."""
    p = Parts(b, "performer")
    query, key, value = (_last_turned(p, x) for x in _three(p, u))
    query, key = p("Softmax", query, axis=-1), p("Softmax", key, axis=-1)
    total = p("ReduceSum", key, p.integers(-2), keepdims=0)
    totals = p("Einsum", query, total, equation="...nd,...d->...n")
    column = p("Unsqueeze", p("Reciprocal", totals), p.integers(3))
    context = p("Einsum", key, value, equation="...nd,...ne->...de")
    sums = p("Einsum", query, context, equation="...nd,...de->...ne")
    return _picture(p, _last_turned(p, p("Mul", sums, column)))


def three_at_once(b: Builder, u: str, v: str) -> str:
    """FLatten's: heads as the batch, and one sum by subscripts of three tensors."""
    p = Parts(b, "three")
    query, key, value = (
        p("Transpose", p("Reshape", x, p.integers(HEADS, EACH, TOKENS)), perm=[0, 2, 1])
        for x in (*(p("Relu", x) for x in _three(p, u)[:2]), v)
    )
    total = p("ReduceSum", key, p.integers(1), keepdims=0)
    totals = p("Einsum", query, total, equation="b i c, b c -> b i")
    inverse = p("Div", p.number(1), p("Add", totals, p.number(1e-3)))
    context = p("Einsum", key, value, equation="b j c, b j d -> b c d")
    x = p("Einsum", query, context, inverse, equation="b i c, b c d, b i -> b i d")
    return _picture(p, p("Transpose", x, perm=[0, 2, 1]))


BLOCKS: dict[str, Maker] = {
    make.__name__: make
    for make in (
        efficientvit,
        channels_first,
        heads_as_batch,
        elu_of_keys,
        by_subscripts,
        three_at_once,
    )
}
