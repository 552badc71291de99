"""Functions of floats that TVM leaves to the C library, whose last bit differs between boards.

Each is a formula of products, sums, a quotient and an exponential, with every product rounded
before it is added. The formulas are those of Abramowitz and Stegun, Handbook of Mathematical
Functions; beside rounding, their errors are at most 1.5e-7, about one step of a float32 near 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tvm import te, tirx

Expr = Any

_ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)  # 7.1.26, a1 to a5
_ERF_P = 0.3275911
_ATAN = (  # 4.4.49, a2 to a16
    *(-0.3333314528, 0.1999355085, -0.1420889944, 0.1065626393),
    *(-0.0752896400, 0.0429096138, -0.0161657367, 0.0028662257),
)


def erf(x: Expr) -> Expr:
    """Return the error function of a float32."""
    size = tirx.abs(x)
    t = _const(1) / (_const(1) + product(_const(_ERF_P), size))
    tail = product(product(_polynomial(_ERF, t), t), tirx.exp(-product(size, size)))
    return _signed(_const(1) - tail, x)


def atan(x: Expr) -> Expr:
    """Return the arc tangent of a float32; beyond 1 it is that of the inverse."""
    size = tirx.abs(x)
    is_large = size > _const(1)
    within = tirx.Select(is_large, _const(1) / tirx.max(size, _const(1)), size)
    square = product(within, within)
    angle = within + product(within, product(_polynomial(_ATAN, square), square))
    return _signed(tirx.Select(is_large, _const(math.pi / 2) - angle, angle), x)


def gelu(x: Expr) -> Expr:
    """Return ``x * (1 + erf(x / sqrt(2))) / 2`` of a float32."""
    wide = _const(1) + erf(product(x, _const(math.sqrt(0.5))))
    return product(product(_const(0.5), x), wide)


def product(first: Expr, second: Expr) -> Expr:
    """Return a product of float32 that is rounded before anything is added to it."""
    return hidden(first * second)


def hidden(value: Expr, dtype: str = "float32") -> Expr:
    """Return a float that LLVM does not know to be a product.

    It is limited to infinity on both sides. One limit alone would not do: where LLVM knows the sign
    of a product, a ReLU times 0.2 for example, it drops one of them, and fuses the product with a
    constant that is added.
    """
    most = tirx.infinity(dtype)
    return tirx.max(tirx.min(value, most), -most)


def element_wise(function: Callable[[Expr], Expr]) -> Callable[[Any], Any]:
    """Return ``function`` of every element of a tensor."""
    return lambda x: te.compute(x.shape, lambda *index: function(x[index]), name="out")


def _polynomial(coefficients: Sequence[float], x: Expr) -> Expr:
    """Return the first coefficient plus the second times x, and so on, by Horner's rule."""
    total = _const(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = _const(coefficient) + product(total, x)
    return total


def _signed(value: Expr, x: Expr) -> Expr:
    return tirx.Select(x < _const(0), -value, value)


def _const(value: float) -> Expr:
    return tirx.const(value, "float32")
