"""How normalisations and lengths look in Relax. Nothing reads them back: TVM lowers them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from edgepipe.quantize.normal_forms import per_channel
from edgepipe.quantize.normalising.records import LEAST_POWER, ROW, Length, Norm
from edgepipe.tvm_adapter import ModuleBuilder

_MOST_INT32 = (1 << 31) - 1
_Emit = Callable[..., str]


def write(builder: ModuleBuilder, operation: Norm | Length) -> str:
    """Append an operator; its input must be bound already. Return its name."""
    if isinstance(operation, Length):
        return _write_length(builder, operation)
    return _write_norm(builder, operation)


def _write_norm(builder: ModuleBuilder, norm: Norm) -> str:
    def emit(part: str, op: str, *args: object, **attributes: object) -> str:
        return builder.emit(f"{norm.name}__{part}", op, *args, **attributes)

    _, channels, height, width = norm.shape
    # LLVM makes vectors of a whole picture, but not of rows of 28 or 14 pixels, which takes up to
    # six times as long (ConvNeXt-atto, AMD EPYC with AVX2, 2026-11).
    flat = emit("flat", "reshape", norm.source, (1, channels, 1, height * width))
    a = emit("wide", "astype", flat, dtype="int32")
    if norm.zero:
        a = emit("moved", "subtract", a, _int32(norm.zero))
    total, squares = _sums(emit, norm, a)
    variance = emit("scaled_squares", "multiply", squares, _int64(norm.count))
    if norm.is_centred:
        whole = emit("wide_total", "astype", total, dtype="int64")
        square = emit("total_square", "multiply", whole, whole)
        variance = emit("deviations", "subtract", variance, square)
    variance = emit("folded", "multiply", variance, _int64(norm.square))
    variance = emit("variance", "add", variance, _int64(norm.epsilon))
    exponent = _exponent(emit, norm, variance)
    twice = emit("twice", "multiply", exponent, _int32(2))
    leading = emit("by", "astype", twice, dtype="int64")
    leading = emit("leading", "right_shift", variance, leading)
    index = emit("narrow", "astype", leading, dtype="int32")
    index = emit("index", "subtract", index, _int32(1 << LEAST_POWER))
    root = emit("root_bits", "take", norm.roots, index, axis=0, mode="clip")
    root = _of_channels(emit, norm, "root_of", emit("root", "astype", root, dtype=norm.dtype))
    multiplier = _looked_up(emit, norm, "multiplier", norm.multiplier, exponent)
    half = _looked_up(emit, norm, "half", norm.half, exponent)
    shift = _looked_up(emit, norm, "shift", norm.shift, exponent)
    if norm.is_centred:
        whole = emit("counted", "multiply", a, _int32(norm.count))
        a = emit("deviation", "subtract", whole, _of_channels(emit, norm, "total_of", total))
    d = emit("multiplied", "multiply", a, multiplier)
    d = emit("halved", "add", d, half)
    d = emit("short", "right_shift", d, shift)
    if norm.dtype != "int32":
        d = emit("wide_short", "astype", d, dtype=norm.dtype)
    t = emit("product", "multiply", d, root)
    t = emit("rounded", "add", t, _in(norm.dtype, 1 << (norm.quotient_shift - 1)))
    t = emit("quotient", "right_shift", t, _in(norm.dtype, norm.quotient_shift))
    t = emit("factored", "multiply", t, _by_channel(norm, norm.factor))
    t = emit("biased", "add", t, _by_channel(norm, norm.bias))
    t = emit("shifted", "right_shift", t, _by_channel(norm, norm.output_shift))
    t = emit("clipped", "clip", t, norm.low, norm.high)
    t = emit("flat_result", "astype", t, dtype="int8")
    return builder.emit(norm.name, "reshape", t, norm.shape)


def _write_length(builder: ModuleBuilder, length: Length) -> str:
    def emit(part: str, op: str, *args: object, **attributes: object) -> str:
        return builder.emit(f"{length.name}__{part}", op, *args, **attributes)

    _, channels, height, width = length.shape
    flat = emit("flat", "reshape", length.source, (channels, height * width))
    a = emit("wide", "astype", flat, dtype="int32")
    if length.zero:
        a = emit("moved", "subtract", a, np.array(length.zero, np.int32))
    parts = emit("squared", "multiply", a, a) if length.is_squared else emit("sizes", "abs", a)
    widest = _widest(length.zero) ** (2 if length.is_squared else 1)
    if height * width * widest > _MOST_INT32:
        parts = emit("wide_parts", "astype", parts, dtype="int64")
    total = emit("total", "sum", parts, axis=[1], keepdims=True)
    total = emit("wide_total", "astype", total, dtype="int64")
    rows = length.thresholds.reshape(-1, ROW)
    row = _reached(emit, "row", total, rows[None, 1:, 0])
    within = emit("thresholds", "take", rows[:, 1:], row, axis=0, mode="clip")
    place = _reached(emit, "place", total, within)
    t = emit("before", "multiply", row, np.array(ROW, np.int32))
    t = emit("steps", "add", t, place)
    if length.output_zero:
        t = emit("result", "add", t, np.array(length.output_zero, np.int32))
    t = emit("flat_result", "astype", t, dtype="int8")
    return builder.emit(length.name, "reshape", t, (1, channels, 1, 1))


def _reached(emit: _Emit, part: str, total: str, thresholds: str | NDArray[np.int64]) -> str:
    """Write how many thresholds [n, k] or [1, k] each of the totals [n, 1] reaches, int32[n]."""
    reached = emit(f"{part}_reached", "greater_equal", total, thresholds)
    reached = emit(f"{part}_ones", "astype", reached, dtype="int32")
    return emit(part, "sum", reached, axis=[1], keepdims=False)


def _sums(emit: _Emit, norm: Norm, a: str) -> tuple[str, str]:
    """Write the sums int32 of ``a``, empty if nobody needs them, and int64 of its squares."""
    squared = emit("squared", "multiply", a, a)
    if norm.count * _widest(norm.zero) ** 2 > _MOST_INT32:
        squared = emit("wide_squared", "astype", squared, dtype="int64")
    total = _sum(emit, norm, "total", a) if norm.is_centred else ""
    squares = _sum(emit, norm, "squares", squared)
    return total, emit("wide_squares", "astype", squares, dtype="int64")


def _sum(emit: _Emit, norm: Norm, part: str, tensor: str) -> str:
    """Write the sums over values that share a mean: [1, 1, h, w], or [1, groups, 1, 1]."""
    if norm.groups == 0:
        return emit(part, "sum", tensor, axis=[1], keepdims=True)
    found = emit(part, "sum", tensor, axis=[2, 3], keepdims=True)
    channels = norm.shape[1]
    if norm.groups == channels:
        return found
    shape = (1, norm.groups, channels // norm.groups, 1)
    found = emit(f"{part}_grouped", "reshape", found, shape)
    return emit(f"{part}_all", "sum", found, axis=[2], keepdims=True)


def _exponent(emit: _Emit, norm: Norm, variance: str) -> str:
    """Write how many thresholds a variance reaches, int32 of its shape."""
    axis = 1 if norm.groups == 0 else 3
    shape = [1, 1, 1, 1]
    shape[axis] = -1
    reached = emit("reached", "greater_equal", variance, norm.thresholds.reshape(shape))
    reached = emit("ones", "astype", reached, dtype="int32")
    return emit("exponent", "sum", reached, axis=[axis], keepdims=True)


def _looked_up(emit: _Emit, norm: Norm, part: str, table: NDArray[np.int32], index: str) -> str:
    found = emit(part, "take", table, index, axis=0, mode="clip")
    return _of_channels(emit, norm, f"{part}_of", found)


def _of_channels(emit: _Emit, norm: Norm, part: str, tensor: str) -> str:
    """Write what belongs to a group once for each of its channels."""
    channels = norm.shape[1]
    if norm.groups in (0, 1, channels):
        return tensor
    groups = np.repeat(np.arange(norm.groups, dtype=np.int32), channels // norm.groups)
    return emit(part, "take", tensor, groups, axis=1, mode="clip")


def _widest(zero: int) -> int:
    """Return the largest distance of an int8 value from its zero point."""
    return max(128 + zero, 127 - zero)


def _by_channel(norm: Norm, values: NDArray[np.int32]) -> NDArray[np.signedinteger]:
    return per_channel(values).astype(norm.dtype)


def _in(dtype: str, value: int) -> NDArray[np.signedinteger]:
    return np.full((1, 1, 1, 1), value, dtype)


_int32 = partial(_in, "int32")
_int64 = partial(_in, "int64")
