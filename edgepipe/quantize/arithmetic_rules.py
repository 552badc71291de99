"""What the quantiser recognises in calls that compute with weights and constants.

A rule returns the node of a call, not yet fused, or the reason why it stays float.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgepipe.quantize.attention import is_matrices, linear_attention, matrices
from edgepipe.quantize.call import NO_PICTURE, Call
from edgepipe.quantize.graph import (
    Activation,
    ConvNode,
    MoveNode,
    Node,
    PixelNode,
    ProductNode,
    SumNode,
    TableNode,
    as_channels,
    picture_shape,
)
from edgepipe.quantize.picture_rules import resampled

Float = NDArray[np.float64]
NO_CONSTANT_WEIGHT = "its weights are not constant"


def quotient(call: Call) -> Node | str:
    """Divide by a constant or a tensor: linear attention ends so, too."""
    return linear_attention(call) or elementwise(call)


def elementwise(call: Call) -> Node | str:
    """Add, subtract, multiply and divide by a constant; combine two tensors."""
    first, second = call.args
    shape = call.shape
    if not call.is_picture(call.name):
        return f"its output {list(shape)} is not a picture [1, c, h, w]"
    if isinstance(first, str) and isinstance(second, str):
        return _of_two_tensors(call, first, second)
    tensor, constant = (first, second) if isinstance(first, str) else (second, first)
    if not isinstance(tensor, str) or len(call.shapes[tensor]) != len(shape):
        return "its constant has more axes than its tensor"
    if call.op == "divide" and tensor is not first:
        return "a constant is divided by a tensor"
    factors = np.asarray(constant, np.float64)
    values = as_channels(factors, shape)
    if values is None or call.shapes[tensor] != shape:
        return _of_pixels(call, tensor, factors)
    factor, bias = _scaled(call, values)
    return _affine(call.name, tensor, factor, bias)


def _scaled(call: Call, values: Float) -> tuple[Float, Float]:
    """Return factor and bias of a tensor that is combined with constants, of their shape."""
    ones = np.ones(values.shape)
    sign = -1.0 if call.op == "subtract" else 1.0
    if call.op == "multiply":
        return values, 0 * ones
    if call.op == "divide":
        return 1.0 / values, 0 * ones
    if isinstance(call.args[0], str):
        return ones, sign * values
    return sign * ones, values


def _of_pixels(call: Call, tensor: str, constant: Float) -> Node | str:
    """Return a factor or a constant that differs from pixel to pixel."""
    if len(call.shape) != 4 or not call.is_picture(tensor) or call.is_float(tensor):
        return f"its constant {list(constant.shape)} is not one value per channel"
    if not np.isfinite(constant).all() or (call.op == "divide" and not constant.all()):
        return "its constants are not finite"
    values = constant.reshape((1,) * (4 - constant.ndim) + constant.shape)
    factor, bias = _scaled(call, values)
    if call.op in ("multiply", "divide"):
        bias = np.zeros((1, 1, 1, 1))
    else:
        factor = factor[:, :1, :1, :1]
    return PixelNode(name=call.name, input=tensor, factor=factor, bias=bias)


def _of_two_tensors(call: Call, first: str, second: str) -> Node | str:
    """Return a product, a quotient, a sum of two tensors of one shape, or twice a tensor."""
    if call.op in ("multiply", "divide") and call.is_picture(first, second):
        return _product(call, first, second)
    if call.shapes[first] != call.shape or call.shapes[second] != call.shape:
        return f"{list(call.shapes[first])} and {list(call.shapes[second])} differ"
    ones = np.ones(call.shape[1])
    if call.op == "add" and first == second:
        return _affine(call.name, first, 2.0 * ones, 0 * ones)
    if call.op in ("add", "subtract") and first != second:
        sign = -1.0 if call.op == "subtract" else 1.0
        terms = ((first, ones), (second, sign * ones))
        return SumNode(name=call.name, terms=terms, bias=0 * ones)
    return f"only sums, products and quotients of two tensors are quantised, this is {call.op}"


def _product(call: Call, first: str, second: str) -> Node | str:
    """Return the product or quotient of two tensors, either of which may be broadcast."""
    shapes = (call.shapes[first], call.shapes[second])
    if any(len(shape) != len(call.shape) for shape in shapes):
        return f"{list(shapes[0])} and {list(shapes[1])} have different numbers of axes"
    ones = np.ones(call.shape[1])
    product = ProductNode(name=call.name, first=first, second=second, factor=ones, bias=0 * ones)
    if call.op == "multiply":
        return product
    # Statistics of the data, as in a normalisation: eight bits are too few for a divisor.
    if call.is_float(first, second):
        return "a tensor that it divides, or divides by, is float"
    product = replace(product, divides=True, reason="tensors are divided on arm")
    function = call.nodes.get(second)
    if isinstance(function, TableNode):
        # The inverse of its values at each int8 value of its input: they are not rounded before.
        return replace(product, second=function.input, divisor=function.bindings)
    return product


def _affine(name: str, tensor: str, factor: Float, bias: Float) -> SumNode:
    return SumNode(name=name, terms=((tensor, factor),), bias=bias)


def activation(call: Call) -> Node | str:
    """Relu, leaky relu, clip, and maximum or minimum with a constant."""
    tensor = call.args[0]
    wanted = _activation(call)
    if wanted is None:
        return "its bounds are not constants, or its slope is not between 0 and 1"
    if not isinstance(tensor, str) or not call.is_picture(tensor):
        return NO_PICTURE
    ones = np.ones(call.shapes[tensor][1])
    return SumNode(name=call.name, terms=((tensor, ones),), bias=0 * ones, activation=wanted)


def conv(call: Call) -> Node | str:
    """Convolution and transposed convolution with constant weights."""
    tensor, weight = call.args
    attributes = call.attributes
    if not isinstance(weight, np.ndarray) or not isinstance(tensor, str):
        return NO_CONSTANT_WEIGHT
    if not call.is_picture(call.name):
        return f"its output {list(call.shape)} is not a picture [1, c, h, w]"
    transposed = call.op == "nn.conv2d_transpose"
    dilation = attributes["dilation"]
    if transposed:  # the record of a transposed convolution has no dilation
        weight, dilation = _dilated(weight, dilation), (1, 1)
    return ConvNode(
        name=call.name,
        input=tensor,
        weight=weight.astype(np.float64),
        bias=np.zeros(call.shape[1]),
        stride=attributes["strides"],
        padding=attributes["padding"],
        dilation=dilation,
        groups=attributes["groups"],
        transposed=transposed,
    )


def matrix_product(call: Call) -> Node | str:
    """A dense layer, a product of computed matrices, or rows or columns that are resampled."""
    first, second = call.args
    if is_matrices(first) and is_matrices(second):
        return matrices(call)
    if isinstance(first, np.ndarray) and isinstance(second, str):
        return resampled(call, second, first, by_rows=True)
    if isinstance(first, str) and len(call.shapes[first]) == 4:
        if not isinstance(second, np.ndarray):
            return NO_CONSTANT_WEIGHT
        return resampled(call, first, second.T, by_rows=False)
    return _dense(call)


def _dense(call: Call) -> Node | str:
    """``[1, k] @ const[k, n]``: a convolution whose kernel is the whole picture."""
    tensor, weight = call.args
    if not isinstance(weight, np.ndarray) or not isinstance(tensor, str) or weight.ndim != 2:
        return NO_CONSTANT_WEIGHT
    if len(call.shape) != 2 or call.shape[0] != 1:
        return f"it makes {list(call.shape)}, expected one row"
    source, shape = tensor, (1, weight.shape[0], 1, 1)
    before = call.nodes.get(tensor)
    if isinstance(before, MoveNode) and before.binding.op == "reshape":
        flat = picture_shape(call.shapes[before.input])
        if flat is not None and len(call.shapes[before.input]) == 4:
            source, shape = before.input, flat
    kernel = weight.T.astype(np.float64).reshape(weight.shape[1], *shape[1:])
    return ConvNode(name=call.name, input=source, weight=kernel, bias=np.zeros(weight.shape[1]))


def _activation(call: Call) -> Activation | None:
    if call.op == "nn.relu":
        return Activation(low=0.0)
    if call.op == "nn.leakyrelu":
        slope = float(call.attributes["alpha"])
        if slope == 0.0:
            return Activation(low=0.0)
        return Activation(slope=slope) if 0.0 < slope < 1.0 else None
    if call.op == "clip":
        low, high = call.args[1:]
        if isinstance(low, int | float) and isinstance(high, int | float):
            return Activation(low=float(low), high=float(high))
        return None
    constant = call.args[1]
    if not isinstance(constant, np.ndarray) or constant.size != 1:
        return None
    bound = float(constant.reshape(-1)[0])
    return Activation(low=bound) if call.op == "maximum" else Activation(high=bound)


def _dilated(weight: Float, dilation: tuple[int, int]) -> Float:
    """Return a kernel [.., h, w] with zeros between its taps."""
    *others, height, width = weight.shape
    (dy, dx) = dilation
    wide = np.zeros((*others, (height - 1) * dy + 1, (width - 1) * dx + 1), weight.dtype)
    wide[..., ::dy, ::dx] = weight
    return wide
