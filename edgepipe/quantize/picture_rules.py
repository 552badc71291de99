"""What the quantiser recognises in calls that pool, resize, join, split or move pictures.

A rule returns the node of a call, or the reason why the call stays float.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgepipe.frontend.rewrites.pools import MAX_POOL_WINDOW
from edgepipe.quantize.call import NO_PICTURE, Call
from edgepipe.quantize.graph import (
    AveragePoolNode,
    ConcatNode,
    FloatNode,
    JoinNode,
    MaxPoolNode,
    MoveNode,
    Node,
    PickNode,
    ResizeNode,
    SoftmaxNode,
    picture_shape,
)
from edgepipe.quantize.resampling import integer_matrix, resize_matrices
from edgepipe.tvm_adapter import Binding
from vta_stages.layers.check import pool_padding


def max_pool(call: Call) -> Node | str:
    """Maximum over windows."""
    tensor = call.args[0]
    attributes = call.attributes
    if not isinstance(tensor, str) or not call.is_picture(tensor):
        return NO_PICTURE
    kernel, stride = attributes["pool_size"], attributes["strides"]
    gaps = zip(kernel, attributes["dilation"], strict=True)
    dy, dx = (distance if size > 1 else 1 for size, distance in gaps)
    extents = ((kernel[0] - 1) * dy + 1, (kernel[1] - 1) * dx + 1)
    sizes = tuple(zip(call.shapes[tensor][2:], call.shape[2:], strict=True))
    return MaxPoolNode(
        name=call.name,
        input=tensor,
        kernel=kernel,
        stride=stride,
        padding=pool_padding(attributes["padding"], sizes, extents, stride),
        dilation=(dy, dx),
        reason="" if (dy, dx) == (1, 1) else "windows with gaps are pooled on arm",
    )


def average_pool(call: Call) -> Node | str:
    """Mean over windows of the full size."""
    tensor = call.args[0]
    attributes = call.attributes
    if not isinstance(tensor, str) or not call.is_picture(tensor):
        return NO_PICTURE
    padding, kernel = attributes["padding"], attributes["pool_size"]
    if attributes["dilation"] != (1, 1):
        dy, dx = attributes["dilation"]
        return f"its window is dilated {dy}x{dx}; the accelerator's windows have no gaps"
    if attributes["ceil_mode"]:
        return "ceil_mode makes its last windows smaller, so their divisors differ"
    if any(padding) and not attributes["count_include_pad"]:
        return "count_include_pad=0 does not count padding, so divisors differ at the border"
    if kernel[0] * kernel[1] > MAX_POOL_WINDOW:
        return f"its window has {kernel[0] * kernel[1]} pixels, more than {MAX_POOL_WINDOW}"
    return AveragePoolNode(
        name=call.name,
        input=tensor,
        channels=call.shapes[tensor][1],
        kernel=kernel,
        stride=attributes["strides"],
        padding=padding,
    )


def whole_picture(call: Call) -> Node | str:
    """Global pooling: the mean or the maximum over height and width, or the largest channel."""
    tensor = call.args[0]
    if not isinstance(tensor, str) or not call.is_picture(tensor):
        return NO_PICTURE
    shape = call.shapes[tensor]
    axes = {axis % len(shape) for axis in call.attributes["axis"] or range(len(shape))}
    if call.op == "max" and axes == {1} and call.is_picture(call.name):
        reason = "the largest of the channels is found on arm"
        return MoveNode(name=call.name, input=tensor, binding=call.binding, reason=reason)
    if len(shape) != 4 or axes != {2, 3}:
        return f"it reduces axes {sorted(axes)} of {list(shape)}, expected 2 and 3 of 4"
    kernel = (shape[2], shape[3])
    if call.op == "max":
        return MaxPoolNode(
            name=call.name, input=tensor, kernel=kernel, stride=kernel, padding=(0, 0, 0, 0)
        )
    if shape[2] * shape[3] > MAX_POOL_WINDOW:
        return f"its window has {shape[2] * shape[3]} pixels, more than {MAX_POOL_WINDOW}"
    return AveragePoolNode(
        name=call.name, input=tensor, channels=shape[1], kernel=kernel, stride=kernel
    )


def softmax(call: Call) -> Node | str:
    """Softmax over the channels, rows or columns of what is int8."""
    tensor = call.args[0]
    if not isinstance(tensor, str) or not call.is_picture(tensor):
        return NO_PICTURE
    # Scores of attention: rounded to int8, most of them would be equal.
    if call.is_float(tensor):
        return "its input is float"
    axis = call.attributes["axis"] % len(call.shape)
    if axis == 0:
        return "its sum is over axis 0, expected channels, rows or columns"
    return SoftmaxNode(name=call.name, input=tensor, axis=axis)


def resize(call: Call) -> Node | str:
    """Linear or nearest resize whose weights are multiples of 1/128 below 1, or 1."""
    tensor = call.args[0]
    attributes = call.attributes
    if not isinstance(tensor, str) or not call.is_picture(tensor):
        return NO_PICTURE
    sizes = (call.shapes[tensor][2:], call.shape[2:])
    found = resize_matrices(
        sizes,  # type: ignore[arg-type]
        attributes["method"],
        attributes["coordinate_transformation_mode"],
        attributes["rounding_method"],
    )
    if found is None:
        mode = f"{attributes['method']} with {attributes['coordinate_transformation_mode']}"
        had, made = (f"{height}x{width}" for height, width in sizes)
        return f"{mode} from {had} to {made} has weights that are not multiples of 1/128 below 1"
    rows, cols, shift = found
    return ResizeNode(name=call.name, input=tensor, rows=rows, cols=cols, shift=shift)


def resampled(call: Call, tensor: str, matrix: NDArray[np.generic], *, by_rows: bool) -> Node | str:
    """A picture whose rows or columns are weighted sums of its own: ``matrix`` [out, in]."""
    if matrix.ndim != 2 or len(call.shapes[tensor]) != 4 or not call.is_picture(tensor):
        return "it is not a picture times a matrix"
    found = integer_matrix(matrix)
    if found is None:
        return "the weights of its matrix are not those of a resampling"
    weights, shift = found
    height, width = call.shapes[tensor][2:]
    rows, cols = (weights, _unit(width)) if by_rows else (_unit(height), weights)
    return ResizeNode(name=call.name, input=tensor, rows=rows, cols=cols, shift=shift)


def _unit(size: int) -> NDArray[np.int32]:
    return np.eye(size, dtype=np.int32)


def channel_slice(call: Call) -> Node | str:
    """Neighbouring channels of a picture, or a part of what is no picture: bytes that move."""
    tensor = call.args[0]
    if isinstance(tensor, str) and not call.is_picture(tensor) and not call.is_float(tensor):
        return MoveNode(name=call.name, input=tensor, binding=call.binding)
    if not isinstance(tensor, str) or len(call.shapes[tensor]) != 4 or len(call.args) < 4:
        return NO_PICTURE
    axes, begin, end = (_integers(argument) for argument in call.args[1:4])
    steps = _integers(call.args[4]) if len(call.args) > 4 else (1,)
    if axes not in ((1,), (-3,)) or len(begin) != 1 or len(end) != 1 or steps != (1,):
        return "it slices along other axes than channels, or with gaps"
    first, last, _ = slice(begin[0], end[0]).indices(call.shapes[tensor][1])
    return _picked(call, tensor, range(first, last))


def pick(call: Call) -> Node | str:
    """Channels of a picture in an order that constants give."""
    tensor, indices = call.args[:2]
    if not isinstance(tensor, str) or len(call.shapes[tensor]) != 4 or call.shapes[tensor][0] != 1:
        return NO_PICTURE
    if not isinstance(indices, np.ndarray) or indices.ndim != 1:
        return "its indices are not a constant list"
    if call.attributes["axis"] not in (1, -3):
        return f"it takes from axis {call.attributes['axis']}, expected channels"
    count = call.shapes[tensor][1]
    return _picked(call, tensor, [int(index) % count for index in indices])


def _picked(call: Call, tensor: str, channels: Sequence[int]) -> Node | str:
    if not channels:
        return "it picks no channel"
    return PickNode(name=call.name, input=tensor, channels=tuple(channels))


def _integers(argument: object) -> tuple[int, ...]:
    if isinstance(argument, np.ndarray):
        return tuple(int(v) for v in argument.reshape(-1))
    return argument if isinstance(argument, tuple) else ()


def concat(call: Call) -> Node | str:
    """Concatenation along channels, or of features [1, k], also with constants."""
    parts = call.args[0]
    if picture_shape(call.shape) is None or not isinstance(parts, tuple):
        return NO_PICTURE
    tensors = [part for part in parts if not isinstance(part, np.ndarray)]
    if not call.is_picture(*tensors):
        return NO_PICTURE
    if call.attributes["axis"] % len(call.shape) != 1:
        return f"it joins along axis {call.attributes['axis']}, expected channels"
    if len(tensors) == len(parts):
        return ConcatNode(name=call.name, parts=parts)
    pictures = [_picture(part) if isinstance(part, np.ndarray) else part for part in parts]
    return JoinNode(name=call.name, parts=tuple(pictures))


def _picture(constant: NDArray[np.generic]) -> NDArray[np.float64]:
    """Return a constant [1, k] or [1, c, h, w] as float64[1, c, h, w]."""
    array = np.asarray(constant, np.float64)
    return array.reshape(*array.shape, 1, 1) if array.ndim == 2 else array


def split(call: Call) -> Node | str:
    """Return why a split stays float; if its parts become slices, nothing reads it."""
    return _split_refusal(call.binding, call) or "its parts are channels of its input"


def part_of_split(call: Call) -> Node | str:
    """One result of a split along channels."""
    source, index = call.args
    made_by = call.nodes.get(source) if isinstance(source, str) else None
    if not isinstance(made_by, FloatNode) or made_by.binding.op != "split":
        return "it is not a part of a split"
    split = made_by.binding
    refusal = _split_refusal(split, call)
    tensor = split.args[0]
    if refusal or not isinstance(tensor, str) or not isinstance(index, int):
        return refusal or NO_PICTURE
    channels = call.shapes[tensor][1]
    cuts = split.attributes["indices_or_sections"]
    if isinstance(cuts, int):
        step = -(-channels // cuts)
        cuts = tuple(range(step, channels, step))
    borders = (0, *cuts, channels)
    return _picked(call, tensor, range(borders[index], borders[index + 1]))


def _split_refusal(split: Binding, call: Call) -> str:
    """Return why the parts of ``split`` are not slices; empty if they are."""
    tensor = split.args[0]
    if not isinstance(tensor, str) or len(call.shapes[tensor]) != 4:
        return NO_PICTURE
    if split.attributes["axis"] not in (1, -3):
        return f"it splits along axis {split.attributes['axis']}, expected channels"
    return ""


def move(call: Call) -> Node | str:
    """Reshape and transposition."""
    tensor = call.args[0]
    if not isinstance(tensor, str):
        return NO_PICTURE
    softmax_of_rows = _softmax_between_reshapes(call, tensor)
    if softmax_of_rows is not None:
        return softmax_of_rows
    return MoveNode(name=call.name, input=tensor, binding=call.binding)


def _softmax_between_reshapes(call: Call, tensor: str) -> SoftmaxNode | None:
    """Return the softmax over the last axis that a reshape ends, as before ONNX's opset 13.

    before   r = reshape(x, [c * h, w]); s = nn.softmax(r, axis=-1); y = reshape(s, [1, c, h, w])
    after    SoftmaxNode y of x, axis 3
    """
    inner = call.nodes.get(tensor)
    if not isinstance(inner, FloatNode) or inner.binding.op != "nn.softmax":
        return None
    before = call.nodes.get(inner.binding.inputs[0])
    rows = call.shapes[tensor]
    if not isinstance(before, MoveNode) or {call.op, before.binding.op} != {"reshape"}:
        return None
    source, axis = before.input, inner.binding.attributes["axis"] % len(rows)
    is_same = call.shapes[source] == call.shape and len(call.shape) == 4 and call.shape[0] == 1
    if not is_same or axis != len(rows) - 1 or rows[-1] != call.shape[3] or call.is_float(source):
        return None
    return SoftmaxNode(name=call.name, input=source, axis=3)
