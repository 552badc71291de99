"""Attention between two convolutions, as exporters write it: all of it is computed in int8.

Each function reads the pictures ``u`` and ``v``, float[1, 8, 12, 16], and returns the name of a
picture with the result. The tokens are the pixels, or those of windows of the picture.
"""

from __future__ import annotations

import numpy as np
from ordinary_operators import CHANNELS, HEIGHT, WIDTH, Maker, Parts
from small_networks import Builder

TOKENS = HEIGHT * WIDTH
HEADS, EACH = 2, 4
DOWN, ACROSS = HEIGHT // 4, WIDTH // 4
WINDOW = 16  # pixels of a window of 4x4
SHARP = 3.0
"""The standard deviation of weights of queries and keys: with it, few tokens get most weight."""


def _tokens(p: Parts, x: str) -> str:
    x = p("Reshape", x, p.integers(1, CHANNELS, TOKENS))
    return p("Transpose", x, perm=[0, 2, 1])


def _picture(p: Parts, x: str) -> str:
    x = p("Transpose", x, perm=[0, 2, 1])
    return p("Reshape", x, p.integers(1, CHANNELS, HEIGHT, WIDTH))


def _linear(p: Parts, x: str, after: int, scale: float = 1.0) -> str:
    weight = p.values(p.normal(CHANNELS, after) * scale / CHANNELS**0.5)
    return p("Add", p("MatMul", x, weight), p.weights(after))


def scaled_dot_product(b: Builder, u: str, v: str) -> str:
    """``F.scaled_dot_product_attention``: queries and keys are each scaled by a root."""
    p = Parts(b, "sdpa")
    x, root = _tokens(p, u), float(EACH**-0.25)
    heads = p.integers(1, TOKENS, HEADS, EACH)
    query, key, value = (
        p("Reshape", _linear(p, x, CHANNELS, scale), heads) for scale in (SHARP, SHARP, 1)
    )
    query = p("Mul", p("Transpose", query, perm=[0, 2, 1, 3]), p.number(root))
    key = p("Mul", p("Transpose", key, perm=[0, 2, 3, 1]), p.number(root))
    weights = p("Softmax", p("MatMul", query, key), axis=-1)
    x = p("MatMul", weights, p("Transpose", value, perm=[0, 2, 1, 3]))
    x = p("Transpose", x, perm=[0, 2, 1, 3])
    return _picture(p, p("Reshape", x, p.integers(1, TOKENS, CHANNELS)))


def multihead(b: Builder, u: str, v: str) -> str:
    """``nn.MultiheadAttention`` with tokens first: one projection, and heads as a batch."""
    p = Parts(b, "multihead")
    x = p("Transpose", _tokens(p, u), perm=[1, 0, 2])
    x = _linear(p, x, 3 * CHANNELS, 1.7)
    x = p("Unsqueeze", p("Reshape", x, p.integers(TOKENS, 1, 3, CHANNELS)), p.integers(0))
    x = p("Squeeze", p("Transpose", x, perm=[3, 1, 2, 0, 4]), p.integers(3))
    shape = p.integers(TOKENS, HEADS, EACH)
    query, key, value = (
        p("Transpose", p("Reshape", p("Gather", x, p.integer(i), axis=0), shape), perm=[1, 0, 2])
        for i in range(3)
    )
    query = p("Div", query, p.number(EACH**0.5))
    scores = p("MatMul", query, p("Transpose", key, perm=[0, 2, 1]))
    x = p("MatMul", p("Softmax", scores, axis=-1), value)
    x = p("Reshape", p("Transpose", x, perm=[1, 0, 2]), p.integers(TOKENS, CHANNELS))
    x = p("Gemm", x, p.weights(CHANNELS, CHANNELS), p.weights(CHANNELS), transB=1)
    x = p("Reshape", x, p.integers(TOKENS, 1, CHANNELS))
    return _picture(p, p("Transpose", x, perm=[1, 0, 2]))


def position_sensitive(b: Builder, u: str, v: str) -> str:
    """YOLO11's C2PSA: values before weights, and a convolution of the values is added."""
    p = Parts(b, "psa")
    half = EACH // 2
    before = p("Conv", u, p.values(p.normal(2 * CHANNELS, CHANNELS, 1, 1)))
    x = p("Reshape", before, p.integers(1, HEADS, 2 * EACH, TOKENS))
    query, key, value = p.split(x, 2, half, half, EACH)
    scores = p("MatMul", p("Transpose", query, perm=[0, 1, 3, 2]), key)
    weights = p("Softmax", p("Mul", scores, p.number(half**-0.5)), axis=-1)
    x = p("MatMul", value, p("Transpose", weights, perm=[0, 1, 3, 2]))
    picture = p.integers(1, CHANNELS, HEIGHT, WIDTH)
    values = p("Reshape", value, picture)
    near = p("Conv", values, p.weights(CHANNELS, 1, 3, 3), group=CHANNELS, pads=[1] * 4)
    return p("Add", p("Reshape", x, picture), near)


def of_patches(b: Builder, u: str, v: str) -> str:
    """MobileViT: attention among the pixels at one place of all patches of 2x2."""
    p = Parts(b, "patches")
    rows, columns = HEIGHT // 2, WIDTH // 2
    x = p("Reshape", u, p.integers(CHANNELS * rows, 2, columns, 2))
    x = p("Transpose", x, perm=[0, 2, 1, 3])
    x = p("Transpose", p("Reshape", x, p.integers(1, CHANNELS, TOKENS // 4, 4)), perm=[0, 3, 2, 1])
    x = p("Reshape", x, p.integers(4, TOKENS // 4, CHANNELS))
    x = p("Reshape", _linear(p, x, 3 * CHANNELS, 1.7), p.integers(4, TOKENS // 4, 3, HEADS, EACH))
    x = p("Transpose", x, perm=[2, 0, 3, 1, 4])
    query, key, value = (p("Gather", x, p.integer(index), axis=0) for index in range(3))
    scores = p("MatMul", query, p("Transpose", key, perm=[0, 1, 3, 2]))
    weights = p("Softmax", p("Mul", scores, p.number(EACH**-0.5)), axis=-1)
    x = p("Transpose", p("MatMul", weights, value), perm=[0, 2, 1, 3])
    x = _linear(p, p("Reshape", x, p.integers(4, TOKENS // 4, CHANNELS)), CHANNELS)
    x = p("Transpose", p("Reshape", x, p.integers(1, 4, TOKENS // 4, CHANNELS)), perm=[0, 3, 2, 1])
    x = p(
        "Transpose", p("Reshape", x, p.integers(CHANNELS * rows, columns, 2, 2)), perm=[0, 2, 1, 3]
    )
    return p("Reshape", x, p.integers(1, CHANNELS, HEIGHT, WIDTH))


def with_positions(b: Builder, u: str, v: str) -> str:
    """Swin's windows of 4x4: a constant for each pair of places is added to the scores."""
    p = Parts(b, "windows")
    down, across, size = HEIGHT // 4, WIDTH // 4, 16
    x = p("Transpose", u, perm=[0, 2, 3, 1])
    x = p("Reshape", x, p.integers(1, down, 4, across, 4, CHANNELS))
    x = p("Transpose", x, perm=[0, 1, 3, 2, 4, 5])
    x = p("Reshape", x, p.integers(down * across, size, CHANNELS))
    parts = p.split(_linear(p, x, 3 * CHANNELS, 1.7), 2, *[CHANNELS] * 3)
    heads = p.integers(down * across, size, HEADS, EACH)
    query, key, value = (
        p("Transpose", p("Reshape", part, heads), perm=[0, 2, 1, 3]) for part in parts
    )
    query = p("Mul", query, p.number(EACH**-0.5))
    scores = p("MatMul", query, p("Transpose", key, perm=[0, 1, 3, 2]))
    scores = p("Add", scores, p.values(p.normal(1, HEADS, size, size)))
    x = p("MatMul", p("Softmax", scores, axis=-1), value)
    x = p(
        "Reshape", p("Transpose", x, perm=[0, 2, 1, 3]), p.integers(down * across, size, CHANNELS)
    )
    x = p("Reshape", _linear(p, x, CHANNELS), p.integers(1, down, across, 4, 4, CHANNELS))
    x = p("Transpose", x, perm=[0, 1, 3, 2, 4, 5])
    x = p("Reshape", x, p.integers(1, HEIGHT, WIDTH, CHANNELS))
    return p("Transpose", x, perm=[0, 3, 1, 2])


def non_local(b: Builder, u: str, v: str) -> str:
    """A non-local block: three convolutions, and no heads."""
    p = Parts(b, "nonlocal")
    query, key, value = (
        p("Conv", x, p.values(p.normal(CHANNELS, CHANNELS, 1, 1))) for x in (u, v, v)
    )
    flat = p.integers(1, CHANNELS, TOKENS)
    query, value = (p("Transpose", p("Reshape", x, flat), perm=[0, 2, 1]) for x in (query, value))
    weights = p("Softmax", p("MatMul", query, p("Reshape", key, flat)), axis=-1)
    return p("Add", _picture(p, p("MatMul", weights, value)), u)


def _norm(p: Parts, x: str) -> str:
    """Write a layer normalisation as torch's older exporter does."""
    x = p("Sub", x, p("ReduceMean", x, axes=[-1]))
    variance = p("ReduceMean", p("Pow", x, p.number(2)), axes=[-1])
    x = p("Div", x, p("Sqrt", p("Add", variance, p.number(1e-5))))
    return p("Add", p("Mul", x, p.weights(CHANNELS)), p.weights(CHANNELS))


def transformer_layer(b: Builder, u: str, v: str) -> str:
    """A vision transformer's: what attention and a perceptron return is added to the tokens."""
    p = Parts(b, "vit")
    x = p("Add", _tokens(p, u), p.values(p.normal(1, TOKENS, CHANNELS)))
    heads = p.integers(1, TOKENS, HEADS, EACH)
    normal = _norm(p, x)
    query, key, value = (
        p("Transpose", p("Reshape", _linear(p, normal, CHANNELS, scale), heads), perm=perm)
        for scale, perm in ((SHARP, [0, 2, 1, 3]), (SHARP, [0, 2, 3, 1]), (1, [0, 2, 1, 3]))
    )
    scores = p("Div", p("MatMul", query, key), p.number(EACH**0.5))
    y = p("Transpose", p("MatMul", p("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
    y = p("Reshape", y, p.integers(1, TOKENS, CHANNELS))
    x = p("Add", x, _linear(p, y, CHANNELS))
    y = p("MatMul", p("Relu", _linear(p, _norm(p, x), CHANNELS)), p.weights(CHANNELS, CHANNELS))
    return _picture(p, p("Add", x, p("Add", y, p.weights(CHANNELS))))


def reduced_keys(b: Builder, u: str, v: str) -> str:
    """SegFormer's: keys and values are those of a smaller picture, and the tokens are added."""
    p = Parts(b, "segformer")
    x = _tokens(p, u)
    small = p("Conv", u, p.weights(CHANNELS, CHANNELS, 4, 4), strides=[4, 4])
    few = TOKENS // 16
    small = p("Reshape", small, p.integers(1, CHANNELS, few))
    small = _norm(p, p("Transpose", small, perm=[0, 2, 1]))
    query = p("Reshape", _linear(p, x, CHANNELS, SHARP), p.integers(1, TOKENS, HEADS, EACH))
    query = p("Transpose", query, perm=[0, 2, 1, 3])
    both = p("Reshape", _linear(p, small, 2 * CHANNELS, 2), p.integers(1, few, 2, HEADS, EACH))
    both = p("Transpose", both, perm=[2, 0, 3, 1, 4])
    key, value = (p("Gather", both, p.integer(index), axis=0) for index in range(2))
    scores = p("MatMul", query, p("Transpose", key, perm=[0, 1, 3, 2]))
    weights = p("Softmax", p("Mul", scores, p.number(EACH**-0.5)), axis=-1)
    y = p("Transpose", p("MatMul", weights, value), perm=[0, 2, 1, 3])
    y = p("Reshape", y, p.integers(1, TOKENS, CHANNELS))
    return _picture(p, p("Add", x, _linear(p, y, CHANNELS)))


def moved_windows(b: Builder, u: str, v: str) -> str:
    """Swin's: windows of a picture that is moved by two pixels, with a mask for each of them."""
    p = Parts(b, "moved")
    down, across, size = HEIGHT // 4, WIDTH // 4, 16
    x = p("Transpose", u, perm=[0, 2, 3, 1])
    for axis, length in ((1, HEIGHT), (2, WIDTH)):
        x = p("Concat", *reversed(p.split(x, axis, 2, length - 2)), axis=axis)
    x = p("Reshape", x, p.integers(1, down, 4, across, 4, CHANNELS))
    x = p("Transpose", x, perm=[0, 1, 3, 2, 4, 5])
    x = p("Reshape", x, p.integers(down * across, size, CHANNELS))
    heads = p.integers(down * across, size, HEADS, EACH)
    query, key, value = (
        p("Transpose", p("Reshape", part, heads), perm=[0, 2, 1, 3])
        for part in p.split(_linear(p, x, 3 * CHANNELS, 1.7), 2, *[CHANNELS] * 3)
    )
    scores = p(
        "MatMul", p("Mul", query, p.number(EACH**-0.5)), p("Transpose", key, perm=[0, 1, 3, 2])
    )
    scores = p("Add", scores, p.values(p.normal(1, HEADS, size, size)))
    scores = p("Reshape", scores, p.integers(1, down * across, HEADS, size, size))
    mask = p.normal(1, down * across, 1, size, size) > 1
    scores = p("Add", scores, p.values(mask * -100.0))
    scores = p("Reshape", scores, p.integers(down * across, HEADS, size, size))
    x = p("Transpose", p("MatMul", p("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
    x = _linear(p, p("Reshape", x, p.integers(down * across, size, CHANNELS)), CHANNELS)
    x = p("Reshape", x, p.integers(1, down, across, 4, 4, CHANNELS))
    x = p(
        "Reshape",
        p("Transpose", x, perm=[0, 1, 3, 2, 4, 5]),
        p.integers(1, HEIGHT, WIDTH, CHANNELS),
    )
    for axis, length in ((1, HEIGHT), (2, WIDTH)):
        x = p("Concat", *reversed(p.split(x, axis, length - 2, 2)), axis=axis)
    return p("Add", u, p("Transpose", x, perm=[0, 3, 1, 2]))


def _normalised_linear(p: Parts, x: str, after: int, scale: float = 1.0) -> str:
    """LeViT's: a batch normalisation of rows behind a linear layer."""
    weight = p.values(p.normal(CHANNELS, after) * scale / CHANNELS**0.5)
    x = p("Reshape", p("MatMul", x, weight), p.integers(TOKENS, after))
    numbers = [p.values(1 + 0.1 * p.normal(after)), p.weights(after), p.weights(after)]
    x = p("BatchNormalization", x, *numbers, p.values(1 + 0.1 * p.normal(after) ** 2))
    return p("Reshape", x, p.integers(1, TOKENS, after))


def function_of_attention(b: Builder, u: str, v: str) -> str:
    """LeViT's: a hard-swish between attention and the next layer, all with tokens."""
    p = Parts(b, "levit")
    x = _tokens(p, u)
    both = _normalised_linear(p, x, 3 * CHANNELS, 1.7)
    both = p("Reshape", both, p.integers(1, TOKENS, HEADS, 3 * EACH))
    query, key, value = p.split(both, 3, EACH, EACH, EACH)
    query, value = (p("Transpose", each, perm=[0, 2, 1, 3]) for each in (query, value))
    scores = p("MatMul", query, p("Transpose", key, perm=[0, 2, 3, 1]))
    scores = p("Add", p("Mul", scores, p.number(EACH**-0.5)), p.weights(HEADS, TOKENS, TOKENS))
    y = p("Transpose", p("MatMul", p("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
    y = p("Reshape", y, p.integers(1, TOKENS, CHANNELS))
    y = p("Mul", y, p("HardSigmoid", y, alpha=1 / 6, beta=0.5))
    x = p("Add", x, _normalised_linear(p, y, CHANNELS))
    y = _normalised_linear(p, x, CHANNELS)
    y = p(
        "Div",
        p("Mul", y, p("Clip", p("Add", y, p.number(3)), p.number(0), p.number(6))),
        p.number(6),
    )
    return _picture(p, p("Add", x, _normalised_linear(p, y, CHANNELS)))


def covariance(b: Builder, u: str, v: str) -> str:
    """Channels mixed by their own covariance, as bilinear pooling and self-correlation have it."""
    p = Parts(b, "covariance")
    flat = p.integers(1, CHANNELS, TOKENS)
    x = p("Reshape", u, flat)
    x = p("MatMul", x, p("Transpose", p("Reshape", v, flat), perm=[0, 2, 1]))
    x = p("MatMul", p("Mul", x, p.number(1 / TOKENS)), p("Reshape", u, flat))
    return p("Add", p("Reshape", x, p.integers(1, CHANNELS, HEIGHT, WIDTH)), v)


def global_context(b: Builder, u: str, v: str) -> str:
    """GCNet: one mean of all pixels, weighed by a softmax over them, is added to each."""
    p = Parts(b, "context")
    values = p("Reshape", u, p.integers(1, 1, CHANNELS, TOKENS))
    mask = p("Conv", u, p.values(p.normal(1, CHANNELS, 1, 1)))
    mask = p("Softmax", p("Reshape", mask, p.integers(1, 1, TOKENS)), axis=2)
    x = p("MatMul", values, p("Unsqueeze", mask, p.integers(3)))
    x = p("Reshape", x, p.integers(1, CHANNELS, 1, 1))
    x = p("Conv", x, p.values(p.normal(CHANNELS, CHANNELS, 1, 1)))
    return p("Add", u, x)


def cross_covariance(b: Builder, u: str, v: str) -> str:
    """XCiT's and EdgeNeXt's: attention among channels, whose lengths over the tokens are one."""
    p = Parts(b, "xca")
    x = _linear(p, _tokens(p, u), 3 * CHANNELS)
    x = p("Reshape", x, p.integers(1, TOKENS, 3, HEADS, EACH))
    x = p("Transpose", x, perm=[2, 0, 3, 4, 1])
    query, key, value = (p("Gather", x, p.integer(index), axis=0) for index in range(3))
    shape = p.integers(1, HEADS, EACH, TOKENS)
    query, key = (
        p("Div", each, p("Expand", p("Clip", p("ReduceL2", each, axes=[-1]), least), shape))
        for each, least in ((query, p.number(1e-12)), (key, p.number(1e-12)))
    )
    scores = p("MatMul", query, p("Transpose", key, perm=[0, 1, 3, 2]))
    scores = p("Mul", scores, p.values(np.array([[[2.0]], [[3.0]]])))
    x = p("MatMul", p("Softmax", scores, axis=-1), value)
    x = p("Reshape", p("Transpose", x, perm=[0, 3, 1, 2]), p.integers(1, TOKENS, CHANNELS))
    return _picture(p, _linear(p, x, CHANNELS))


def _attended(p: Parts, x: str, tokens: int, queries: str = "", rows: int = 0) -> str:
    """Attention of all tokens [1, n, c] among each other, or of a few that ``queries`` are."""
    query, key, value = (
        p(
            "Transpose",
            p("Reshape", _linear(p, each, CHANNELS, scale), p.integers(1, count, HEADS, EACH)),
            perm=perm,
        )
        for each, count, scale, perm in (
            (queries or x, rows or tokens, SHARP, [0, 2, 1, 3]),
            (x, tokens, SHARP, [0, 2, 3, 1]),
            (x, tokens, 1.0, [0, 2, 1, 3]),
        )
    )
    scores = p("Mul", p("MatMul", query, key), p.number(EACH**-0.5))
    y = p("Transpose", p("MatMul", p("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
    return _linear(p, p("Reshape", y, p.integers(1, rows or tokens, CHANNELS)), CHANNELS)


def _gated(p: Parts, u: str, row: str) -> str:
    """Add a row [1, c] to every pixel, by way of a linear layer."""
    row = p("Gemm", row, p.weights(CHANNELS, CHANNELS), p.weights(CHANNELS))
    return p("Add", u, p("Reshape", row, p.integers(1, CHANNELS, 1, 1)))


def class_token(b: Builder, u: str, v: str) -> str:
    """ViT's: a constant token before the others, which alone is read at the end."""
    p = Parts(b, "class_token")
    x = p("Concat", p.values(p.normal(1, 1, CHANNELS)), _tokens(p, u), axis=1)
    x = p("Add", x, p.values(p.normal(1, TOKENS + 1, CHANNELS)))
    x = p("Add", x, _attended(p, _norm(p, x), TOKENS + 1))
    return _gated(p, u, p("Gather", _norm(p, x), p.integer(0), axis=1))


def class_attention(b: Builder, u: str, v: str) -> str:
    """CaiT's and XCiT's: only the class token is a query, and joins the other tokens again."""
    p = Parts(b, "class_attention")
    tokens, first = _tokens(p, u), p.values(p.normal(1, 1, CHANNELS))
    x = _norm(p, p("Concat", first, tokens, axis=1))
    row, rest = (
        p("Slice", x, p.integers(begin), p.integers(end), p.integers(1))
        for begin, end in ((0, 1), (1, TOKENS + 1))
    )
    x = p("Concat", _attended(p, x, TOKENS + 1, row, 1), rest, axis=1)
    return _gated(p, u, p("Gather", _norm(p, x), p.integer(0), axis=1))


def mean_of_tokens(b: Builder, u: str, v: str) -> str:
    """LeViT's and EfficientFormer's: the classes are those of the mean of all tokens."""
    p = Parts(b, "mean_of_tokens")
    x = _tokens(p, u)
    x = p("Add", x, _attended(p, _norm(p, x), TOKENS))
    return _gated(p, u, p("ReduceMean", _norm(p, x), axes=[1], keepdims=0))


def batch_of_windows(b: Builder, u: str, v: str) -> str:
    """MaxViT's: layers on windows [n, 4, 4, c], and at the end the mean of channels last."""
    p = Parts(b, "windows")
    down, across, size = HEIGHT // 4, WIDTH // 4, 16
    x = p("Transpose", u, perm=[0, 2, 3, 1])
    cut = p("Reshape", x, p.integers(1, down, 4, across, 4, CHANNELS))
    cut = p("Transpose", cut, perm=[0, 1, 3, 2, 4, 5])
    cut = _linear(p, p("Reshape", cut, p.integers(-1, 4, 4, CHANNELS)), 3 * CHANNELS, 1.7)
    cut = p("Reshape", cut, p.integers(down * across, size, 3, HEADS, EACH))
    cut = p("Transpose", cut, perm=[2, 0, 3, 1, 4])
    query, key, value = (p("Gather", cut, p.integer(index), axis=0) for index in range(3))
    scores = p("MatMul", query, p("Transpose", key, perm=[0, 1, 3, 2]))
    y = p("MatMul", p("Softmax", p("Mul", scores, p.number(0.5)), axis=-1), value)
    y = p("Reshape", p("Transpose", y, perm=[0, 2, 1, 3]), p.integers(-1, 4, 4, CHANNELS))
    y = p("Reshape", _linear(p, y, CHANNELS), p.integers(1, down, across, 4, 4, CHANNELS))
    y = p("Transpose", y, perm=[0, 1, 3, 2, 4, 5])
    x = p("Add", x, p("Reshape", y, p.integers(1, HEIGHT, WIDTH, CHANNELS)))
    return _gated(p, u, p("ReduceMean", _norm(p, x), axes=[1, 2], keepdims=0))


def by_subscripts(b: Builder, u: str, v: str) -> str:
    """torchvision's MaxViT: windows [1, n, t, c], whose attention is two sums by subscripts."""
    p = Parts(b, "subscripts")
    down, across, size = HEIGHT // 4, WIDTH // 4, 16
    x = p("Reshape", u, p.integers(1, CHANNELS, down, 4, across, 4))
    x = p("Transpose", x, perm=[0, 2, 4, 3, 5, 1])
    x = p("Reshape", x, p.integers(1, down * across, size, CHANNELS))
    heads = p.integers(1, down * across, size, HEADS, EACH)
    query, key, value = (
        p("Transpose", p("Reshape", part, heads), perm=[0, 1, 3, 2, 4])
        for part in p.split(_linear(p, x, 3 * CHANNELS, 1.7), 3, *[CHANNELS] * 3)
    )
    key = p("Mul", key, p.number(EACH**-0.5))
    scores = p("Einsum", query, key, equation="B G H I D, B G H J D -> B G H I J")
    scores = p("Add", scores, p.values(p.normal(1, 1, HEADS, size, size)))
    y = p("Einsum", p("Softmax", scores, axis=-1), value, equation="BGHIJ,BGHJD->BGHID")
    y = p("Transpose", y, perm=[0, 1, 3, 2, 4])
    y = p("Reshape", y, p.integers(1, down * across, size, CHANNELS))
    x = p("Add", x, _linear(p, y, CHANNELS))
    x = p("Reshape", x, p.integers(1, down, across, 4, 4, CHANNELS))
    x = p("Transpose", x, perm=[0, 5, 1, 3, 2, 4])
    return p("Reshape", x, p.integers(1, CHANNELS, HEIGHT, WIDTH))


def _windows(p: Parts, u: str) -> str:
    """Cut a picture into tokens of windows, [n, 16, c]."""
    x = p("Transpose", u, perm=[0, 2, 3, 1])
    x = p("Reshape", x, p.integers(1, DOWN, 4, ACROSS, 4, CHANNELS))
    x = p("Transpose", x, perm=[0, 1, 3, 2, 4, 5])
    return p("Reshape", x, p.integers(DOWN * ACROSS, WINDOW, CHANNELS))


def _whole(p: Parts, x: str) -> str:
    """Join tokens of windows to a picture again."""
    x = p("Reshape", x, p.integers(1, DOWN, ACROSS, 4, 4, CHANNELS))
    x = p("Transpose", x, perm=[0, 1, 3, 2, 4, 5])
    x = p("Reshape", x, p.integers(1, HEIGHT, WIDTH, CHANNELS))
    return p("Transpose", x, perm=[0, 3, 1, 2])


def _of_heads(p: Parts, x: str, scale: float) -> str:
    """Return a linear layer on tokens of windows, split into heads [n, h, t, d]."""
    x = p("Reshape", _linear(p, x, CHANNELS, scale), p.integers(-1, WINDOW, HEADS, EACH))
    return p("Transpose", x, perm=[0, 2, 1, 3])


def _merged(p: Parts, x: str, tokens: int = WINDOW) -> str:
    x = p("Transpose", x, perm=[0, 2, 1, 3])
    return _linear(p, p("Reshape", x, p.integers(-1, tokens, CHANNELS)), CHANNELS)


def cosines_of_windows(b: Builder, u: str, v: str) -> str:
    """Swin v2's: cosines times a temperature for each head, and a constant for each pair."""
    p = Parts(b, "cosines")
    x = _windows(p, u)
    query, key, value = (_of_heads(p, x, 1.7) for _ in range(3))
    query, key = (
        p("Div", each, p("Expand", p("Clip", p("ReduceL2", each, axes=[-1]), least), shape))
        for each in (query, key)
        for least, shape in [(p.number(1e-12), p.integers(DOWN * ACROSS, HEADS, WINDOW, EACH))]
    )
    scores = p("MatMul", query, p("Transpose", key, perm=[0, 1, 3, 2]))
    scores = p("Mul", scores, p.values(np.array([[[4.0]], [[7.0]]])))
    scores = p("Add", scores, p.values(p.normal(1, HEADS, WINDOW, WINDOW)))
    return _whole(p, _merged(p, p("MatMul", p("Softmax", scores, axis=-1), value)))


def keys_of_pooled_signals(b: Builder, u: str, v: str) -> str:
    """NextViT's: a pool of one axis, and a batch normalisation, of tokens [1, c, n]."""
    p = Parts(b, "signals")
    x = p("Reshape", u, p.integers(1, CHANNELS, TOKENS))
    y = p("AveragePool", x, kernel_shape=[4], strides=[4])
    ones = p.values(1 + 0.2 * p.normal(CHANNELS) ** 2)
    moments = (p.weights(CHANNELS), p.weights(CHANNELS), ones)
    y = p("BatchNormalization", y, ones, *moments)
    x, y = (p("Transpose", each, perm=[0, 2, 1]) for each in (x, y))
    return _picture(p, p("Add", x, _attended(p, y, TOKENS // 4, x, TOKENS)))


def largest_queries(b: Builder, u: str, v: str) -> str:
    """Hiera's: the largest of four queries in each window asks, and the result is a fourth."""
    p = Parts(b, "largest")
    x = _windows(p, u)
    query, key, value = (_of_heads(p, x, scale) for scale in (SHARP, SHARP, 1.0))
    query = p("Reshape", query, p.integers(DOWN * ACROSS, HEADS, 4, WINDOW // 4, EACH))
    query = p("ReduceMax", query, axes=[2], keepdims=0)
    scores = p("MatMul", query, p("Transpose", key, perm=[0, 1, 3, 2]))
    x = p("MatMul", p("Softmax", p("Mul", scores, p.number(0.5)), axis=-1), value)
    x = _merged(p, x, WINDOW // 4)
    x = p("Reshape", x, p.integers(1, DOWN, ACROSS, 2, 2, CHANNELS))
    x = p("Transpose", x, perm=[0, 5, 1, 3, 2, 4])
    x = p("Reshape", x, p.integers(1, CHANNELS, HEIGHT // 2, WIDTH // 2))
    return p("ConvTranspose", x, p.weights(CHANNELS, CHANNELS, 2, 2), strides=[2, 2])


def queries_of_all_windows(b: Builder, u: str, v: str) -> str:
    """GCViT's: the same queries for every window, with a factor for each channel and head."""
    p = Parts(b, "global")
    x = _windows(p, u)
    key, value = (_of_heads(p, x, scale) for scale in (SHARP, 1.0))
    pooled = p("MaxPool", v, kernel_shape=[3, 4], strides=[3, 4])
    pooled = p("Reshape", pooled, p.integers(1, HEADS, EACH, WINDOW))
    query = p("Transpose", pooled, perm=[0, 1, 3, 2])
    query = p("Mul", query, p.values(1 + p.normal(HEADS, 1, EACH) ** 2))
    query = p("Tile", query, p.integers(DOWN * ACROSS, 1, 1, 1))
    scores = p("MatMul", query, p("Transpose", key, perm=[0, 1, 3, 2]))
    scores = p("Add", scores, p.values(p.normal(1, HEADS, WINDOW, WINDOW)))
    return _whole(p, _merged(p, p("MatMul", p("Softmax", scores, axis=-1), value)))


def layers_between_tokens(b: Builder, u: str, v: str) -> str:
    """CoaT's: the tokens but the first are a picture for a while, and the heads are weighed."""
    p = Parts(b, "between")
    x = p("Concat", p.values(p.normal(1, 1, CHANNELS)), _tokens(p, u), axis=1)
    first, rest = (
        p("Slice", x, p.integers(begin), p.integers(end), p.integers(1))
        for begin, end in ((0, 1), (1, TOKENS + 1))
    )
    y = p("Conv", _picture(p, rest), p.weights(CHANNELS, 1, 3, 3), group=CHANNELS, pads=[1] * 4)
    x = p("Concat", first, _tokens(p, p("Add", y, _picture(p, rest))), axis=1)
    x = p("Add", x, _attended(p, _norm(p, x), TOKENS + 1))
    heads = p("Reshape", x, p.integers(1, TOKENS + 1, HEADS, EACH))
    heads = p("Transpose", heads, perm=[0, 2, 1, 3])
    heads = p("Mul", heads, p.values(1 + p.normal(1, HEADS, 1, EACH) ** 2))
    x = p("Reshape", p("Transpose", heads, perm=[0, 2, 1, 3]), p.integers(1, -1, CHANNELS))
    return _gated(p, u, p("Gather", _norm(p, x), p.integer(0), axis=1))


def learned_queries(b: Builder, u: str, v: str) -> str:
    """CLIP's pooling and DETR's first layer: constant queries, and a matrix for each head."""
    p = Parts(b, "learned")
    x, heads = _tokens(p, u), p.integers(1, TOKENS, HEADS, EACH)
    key, value = (
        p("Transpose", p("Reshape", _linear(p, x, CHANNELS, scale), heads), perm=[0, 2, 1, 3])
        for scale in (SHARP, 1.0)
    )
    query = p.values(p.normal(HEADS, 3, EACH))
    scores = p("MatMul", query, p("Transpose", key, perm=[0, 1, 3, 2]))
    y = p("MatMul", p("Softmax", p("Mul", scores, p.number(EACH**-0.5)), axis=-1), value)
    y = p("MatMul", y, p.values(p.normal(1, HEADS, EACH, EACH)))
    y = p("Reshape", p("Transpose", y, perm=[0, 2, 1, 3]), p.integers(1, 3, CHANNELS))
    return _gated(p, u, p("ReduceMean", _linear(p, y, CHANNELS), axes=[1], keepdims=0))


def shares_mixed_with_positions(b: Builder, u: str, v: str) -> str:
    """ConViT's: each head mixes its shares with constant ones, and divides each row by its sum."""
    p = Parts(b, "mixed")
    x, heads = _tokens(p, u), p.integers(1, TOKENS, HEADS, EACH)
    query, key, value = (
        p("Transpose", p("Reshape", _linear(p, x, CHANNELS, scale), heads), perm=[0, 2, 1, 3])
        for scale in (SHARP, SHARP, 1.0)
    )
    scores = p("MatMul", query, p("Transpose", key, perm=[0, 1, 3, 2]))
    shares = p("Softmax", p("Mul", scores, p.number(EACH**-0.5)), axis=-1)
    places = p("Softmax", p.values(2 * p.normal(1, HEADS, TOKENS, TOKENS)), axis=-1)
    gate = p("Sigmoid", p.values(np.array([[[[-1.0]], [[0.5]]]])))
    shares = p("Mul", p("Sub", p.number(1.0), gate), shares)
    mixed = p("Add", shares, p("Mul", gate, places))
    total = p("ReduceSum", mixed, p.integers(-1), keepdims=0)
    mixed = p("Div", mixed, p("Unsqueeze", total, p.integers(-1)))
    x = p("Transpose", p("MatMul", mixed, value), perm=[0, 2, 1, 3])
    return _picture(p, _linear(p, p("Reshape", x, p.integers(1, TOKENS, CHANNELS)), CHANNELS))


def _scores_of_places(p: Parts, query: str, key: str) -> str:
    """Return the scores of heads [h, n, d], and what queries say of rows and of columns."""
    places = p("Reshape", query, p.integers(HEADS, HEIGHT, WIDTH, EACH))
    rows, columns = (
        p("Einsum", places, p.values(0.25 * p.normal(size, size, EACH)), equation=equation)
        for size, equation in ((HEIGHT, "bhwc,hkc->bhwk"), (WIDTH, "bhwc,wkc->bhwk"))
    )
    scores = p("MatMul", p("Mul", query, p.number(0.5)), p("Transpose", key, perm=[0, 2, 1]))
    sums = p("Reshape", scores, p.integers(HEADS, HEIGHT, WIDTH, HEIGHT, WIDTH))
    sums = p("Add", sums, p("Unsqueeze", rows, p.integers(-1)))
    sums = p("Add", sums, p("Unsqueeze", columns, p.integers(-2)))
    return p("Reshape", sums, p.integers(HEADS, TOKENS, TOKENS))


def _of_unbound_heads(p: Parts, x: str) -> str:
    x = p("Transpose", x, perm=[1, 0, 2])
    return _picture(p, _linear(p, p("Reshape", x, p.integers(1, TOKENS, CHANNELS)), CHANNELS))


def positions_of_queries(b: Builder, u: str, v: str) -> str:
    """SAM's: queries, keys and values are parts of one stack, and positions are added."""
    p = Parts(b, "positions")
    x = _linear(p, _tokens(p, u), 3 * CHANNELS, 1.7)
    x = p("Transpose", p("Reshape", x, p.integers(1, TOKENS, 3, HEADS, EACH)), perm=[2, 0, 3, 1, 4])
    stack = p.split(p("Reshape", x, p.integers(3, HEADS, TOKENS, EACH)), 0, 1, 1, 1)
    query, key, value = (p("Squeeze", part, p.integers(0)) for part in stack)
    weights = p("Softmax", _scores_of_places(p, query, key), axis=-1)
    return _of_unbound_heads(p, p("MatMul", weights, value))


def assigned_scores(b: Builder, u: str, v: str) -> str:
    """MViTv2's: scores with positions are assigned to all places of those without."""
    p = Parts(b, "assigned")
    x, heads = _tokens(p, u), p.integers(TOKENS, HEADS, EACH)
    query, key, value = (
        p("Transpose", p("Reshape", _linear(p, x, CHANNELS, scale), heads), perm=[1, 0, 2])
        for scale in (1.7, 1.7, 1.0)
    )
    everywhere = np.stack(np.indices((HEADS, TOKENS, TOKENS)), -1)
    indices = p("Reshape", p.integers(*everywhere.ravel()), p.integers(*everywhere.shape))
    scores = p("MatMul", query, p("Transpose", key, perm=[0, 2, 1]))
    scores = p("ScatterND", scores, indices, _scores_of_places(p, query, key))
    return _of_unbound_heads(p, p("MatMul", p("Softmax", scores, axis=-1), value))


def distances_of_queries(b: Builder, u: str, v: str) -> str:
    """BoTNet's: what queries say of distances, which borders and reshapes make places."""
    p = Parts(b, "distances")
    query, key, value = (
        p("Reshape", p("Conv", u, p.weights(CHANNELS, CHANNELS, 1, 1)), p.integers(*shape))
        for shape in [(HEADS, EACH, TOKENS)]
        for _ in range(3)
    )
    query, value = (p("Transpose", each, perm=[0, 2, 1]) for each in (query, value))

    def said(places: str, others: int, size: int) -> str:
        """What queries [h, others, size, d] say of the others' places [h, others, size, size]."""
        x = p("MatMul", places, p.values(0.5 * p.normal(EACH, 2 * size - 1)))
        x = p("Reshape", x, p.integers(-1, size, 2 * size - 1))
        x = p("Pad", x, p.integers(0, 0, 0, 0, 0, 1))
        x = p("Pad", p("Flatten", x), p.integers(0, 0, 0, size - 1))
        x = p("Reshape", x, p.integers(-1, size + 1, 2 * size - 1))
        x = p("Slice", x, p.integers(0), p.integers(size), p.integers(1))
        x = p("Slice", x, p.integers(size - 1), p.integers(2 * size - 1), p.integers(2))
        x = p("Reshape", x, p.integers(HEADS, others, 1, size, size))
        return p("Expand", x, p.integers(HEADS, others, others, size, size))

    places = p("Reshape", query, p.integers(HEADS, HEIGHT, WIDTH, EACH))
    columns = p("Transpose", said(places, HEIGHT, WIDTH), perm=[0, 1, 3, 2, 4])
    turned = p("Transpose", places, perm=[0, 2, 1, 3])
    rows = p("Transpose", said(turned, WIDTH, HEIGHT), perm=[0, 3, 1, 4, 2])
    places = p("Reshape", p("Add", rows, columns), p.integers(HEADS, TOKENS, TOKENS))
    scores = p("Mul", p("MatMul", query, key), p.number(EACH**-0.5))
    weights = p("Softmax", p("Add", scores, places), axis=-1)
    x = p("Transpose", p("MatMul", weights, value), perm=[0, 2, 1])
    return p("Reshape", x, p.integers(1, CHANNELS, HEIGHT, WIDTH))


BLOCKS: dict[str, Maker] = {
    make.__name__: make
    for make in (
        scaled_dot_product,
        multihead,
        position_sensitive,
        of_patches,
        with_positions,
        non_local,
        transformer_layer,
        reduced_keys,
        moved_windows,
        covariance,
        function_of_attention,
        global_context,
        cross_covariance,
        class_token,
        class_attention,
        mean_of_tokens,
        batch_of_windows,
        by_subscripts,
        cosines_of_windows,
        keys_of_pooled_signals,
        largest_queries,
        queries_of_all_windows,
        layers_between_tokens,
        learned_queries,
        shares_mixed_with_positions,
        positions_of_queries,
        assigned_scores,
        distances_of_queries,
    )
}
