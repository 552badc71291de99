"""Random networks from a grammar of real layers, and random damage to ONNX files."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .writer import PROLOGUES, STYLES, Value, Writer

ACTIVATIONS = ("", "relu", "relu6", "leaky", "prelu", "silu", "hswish", "hsigmoid", "sigmoid")
ACTIVATIONS += ("gelu", "elu", "mish")
SIZE = 16
"""Height and width of the pictures; the description of a random network says the same."""


def network(seed: int) -> onnx.ModelProto:
    """Return a sound network for every third seed, and a damaged one for the others."""
    sound = random_network(seed // 3)
    return damaged(sound, seed) if is_damaged(seed) else sound


def is_damaged(seed: int) -> bool:
    """Whether ``network`` damages the network of a seed."""
    return seed % 3 != 0


def random_network(seed: int) -> onnx.ModelProto:
    """Return a network of 2 to 9 random layers and one or two heads, some with a prologue."""
    rng = random.Random(seed)
    prepare = random.Random(~seed)  # apart, so that the layers of a seed stay
    prologue = prepare.choice(("", "", "", *PROLOGUES[1:]))
    channels = prepare.choice((1, 3, 3, 3)) if prologue != "reverse" else 3
    style, opset = rng.choice(STYLES), rng.randint(11, 21)
    w = Writer(style, opset, seed, prologue=prologue, channels=channels)
    values = [w.image(SIZE, SIZE)]
    for _ in range(rng.randint(2, 9)):
        x = rng.choice(values[-3:])
        made = rng.choice(_LAYERS)(w, rng, x, values)
        if min(made.shape) >= 1 and made.channels <= 96 and max(made.size) <= 64:
            values.append(made)
    ends = [values[-1]]
    if rng.random() < 0.3:
        ends.append(rng.choice(values[1:] or values))
    return w.model(*(rng.choice(_HEADS)(w, rng, x) for x in dict.fromkeys(ends)))


def _channels(rng: random.Random) -> int:
    return rng.choice((1, 2, 3, 4, 8, 8, 16, 17, 24, 32))


def _conv(w: Writer, rng: random.Random, x: Value, _: list[Value]) -> Value:
    kernel = rng.choice((1, 1, 3, 3, 3, 5, 7))
    dilation = rng.choice((1, 1, 1, 2))
    if w.style == "tf2onnx":
        dilation = 1
    groups = rng.choice((1, 1, 1, x.channels))
    if rng.random() < 0.1 and x.channels % 2 == 0:
        groups = 2
    channels = groups * rng.choice((1, 1, 2)) if groups > 1 else _channels(rng)
    if dilation * (kernel - 1) >= min(x.size) + 2:
        kernel = 1
    stride = rng.choice((1, 1, 2, 3))
    act, norm = rng.choice(ACTIVATIONS), rng.random() < 0.7
    return w.conv(x, channels, kernel, stride, groups=groups, dilation=dilation, act=act, norm=norm)


def _transposed(w: Writer, rng: random.Random, x: Value, _: list[Value]) -> Value:
    kernel, stride, pad = rng.choice(((2, 2, 0), (4, 2, 1), (3, 1, 1), (3, 2, 0)))
    return w.transposed(x, _channels(rng), kernel, stride, pad)


def _pool(w: Writer, rng: random.Random, x: Value, _: list[Value]) -> Value:
    kernel = rng.choice((2, 3, 5))
    if kernel > min(x.size):
        return w.global_pool(x)
    stride, pad = rng.choice((1, 2)), rng.choice((0, kernel // 2))
    return rng.choice((w.max_pool, w.average_pool))(x, kernel, stride, pad)


def _sparse_pool(w: Writer, rng: random.Random, x: Value, _: list[Value]) -> Value:
    """A maximum over windows with gaps."""
    kernel, gaps = [rng.choice((1, 2, 3)) for _ in "hw"], [rng.choice((1, 2, 3)) for _ in "hw"]
    extents = [(k - 1) * gap + 1 for k, gap in zip(kernel, gaps, strict=True)]
    pads = [rng.randint(0, k - 1) for k in kernel * 2]
    stride = rng.choice((1, 2))
    size = [
        (x.size[axis] + pads[axis] + pads[axis + 2] - extents[axis]) // stride + 1
        for axis in (0, 1)
    ]
    if min(size) < 1 or w.style == "tf2onnx":
        return w.activation(x, "relu")
    shape = (1, x.channels, *size)
    windows = {"kernel_shape": kernel, "strides": [stride] * 2, "dilations": gaps, "pads": pads}
    return w.op("MaxPool", [x], shape, **windows)


def _sum(w: Writer, rng: random.Random, x: Value, values: list[Value]) -> Value:
    same = [v for v in values if v.shape == x.shape]
    return rng.choice((w.add, w.mul, w.add))(x, rng.choice(same))


def _join(w: Writer, rng: random.Random, x: Value, values: list[Value]) -> Value:
    return w.concat(x, rng.choice([v for v in values if v.size == x.size]))


def _part(w: Writer, rng: random.Random, x: Value, _: list[Value]) -> Value:
    if x.channels < 2:
        return w.activation(x, "relu")
    first = rng.randint(1, x.channels - 1)
    return rng.choice(w.split(x, first, x.channels - first))


def _shuffle(w: Writer, rng: random.Random, x: Value, _: list[Value]) -> Value:
    groups = rng.choice([n for n in range(1, x.channels + 1) if x.channels % n == 0])
    if groups in (1, x.channels):  # it would move nothing, and could end in the picture itself
        return w.activation(x, "relu")
    return w.shuffle(x, groups)


def _upsampled(w: Writer, rng: random.Random, x: Value, _: list[Value]) -> Value:
    """As tf2onnx writes it: a transposed convolution with the shape of its result."""
    kernel, stride = rng.choice(((2, 2), (3, 2), (4, 2), (5, 3)))
    short = rng.randint(0, min(kernel - stride, stride - 1))
    rule = rng.choice(("NOTSET", "SAME_UPPER", "SAME_LOWER"))
    size = [n * stride - short for n in x.size]
    return w.transposed(x, _channels(rng), kernel, stride, 0, size=size, rule=rule)


def _resampled(w: Writer, rng: random.Random, x: Value, _: list[Value]) -> Value:
    """By factors that are not those of the sizes, and with a filter."""
    factors = [rng.choice((0.5, 0.6, 1.3, 1.6, 2.0, 3.0)) for _ in x.size]
    kind = rng.choice(("nearest", "linear", "cubic"))
    return w.resample(x, factors, kind, antialias=kind != "nearest" and rng.random() < 0.5)


def _resize(w: Writer, rng: random.Random, x: Value, _: list[Value]) -> Value:
    size = [rng.choice((n, 2 * n, max(1, n // 2), n + 3)) for n in x.size]
    return w.resize(x, *size, rng.choice(("nearest", "linear")))


def _border(w: Writer, rng: random.Random, x: Value, _: list[Value]) -> Value:
    pads = [rng.randint(0, 2) for _ in range(4)]
    mode = rng.choice(("constant", "reflect", "edge"))
    if max(pads) >= min(x.size):
        mode = "edge"
    shape = (1, x.channels, x.size[0] + pads[0] + pads[2], x.size[1] + pads[1] + pads[3])
    amounts = w.constant([0, 0, *pads[:2], 0, 0, *pads[2:]], np.int64)
    return w.op("Pad", [x, amounts], shape, mode=mode)


def _strided(w: Writer, rng: random.Random, x: Value, _: list[Value]) -> Value:
    axis = rng.choice((2, 3))
    return w.slice(x, axis, rng.randint(0, x.shape[axis] - 1), x.shape[axis], rng.choice((1, 2)))


def _gate(w: Writer, rng: random.Random, x: Value, _: list[Value]) -> Value:
    return w.squeeze_excite(x, rng.choice((2, 4, 8)), "relu", rng.choice(("sigmoid", "hsigmoid")))


def _norm(w: Writer, rng: random.Random, x: Value, _: list[Value]) -> Value:
    if rng.random() < 0.5:
        return w.batch_norm(x)
    return w.transpose(w.layer_norm(w.transpose(x, 0, 2, 3, 1)), 0, 3, 1, 2)


def _act(w: Writer, rng: random.Random, x: Value, _: list[Value]) -> Value:
    return w.activation(x, rng.choice(ACTIVATIONS[1:]))


def _elementary(w: Writer, rng: random.Random, x: Value, _: list[Value]) -> Value:
    kind = rng.choice(("Ceil", "Floor", "Round", "Sign", "Asinh", "Sinh", "Tan"))
    if kind in ("Sinh", "Tan"):
        x = w.op("Tanh", [x], x.shape)
    return w.op(kind, [x], x.shape)


def _quotient(w: Writer, rng: random.Random, x: Value, values: list[Value]) -> Value:
    same = [v for v in values if v.shape == x.shape]
    other = rng.choice(same)
    kind = rng.choice(("Sigmoid", "Abs", "Abs of two", "Softplus"))
    if kind == "Abs of two":
        other = w.add(w.op("Abs", [other], x.shape), w.op("Abs", [rng.choice(same)], x.shape))
    else:
        other = w.op(kind, [other], x.shape)
    other = w.op("Add", [other, w.constant(rng.choice((0.1, 0.5)))], x.shape)
    if rng.random() < 0.3:
        other = w.global_pool(other)
    return w.op("Div", [x, other], x.shape)


def _pixels(w: Writer, rng: random.Random, x: Value, _: list[Value]) -> Value:
    channels = rng.choice((1, x.channels))
    constant = w.constant(w.around(rng.choice((0, 1)), 0.5, channels, *x.size))
    inputs: list[Value | str] = [x, constant]
    kind = rng.choice(("Add", "Mul", "Sub"))
    return w.op(kind, inputs if rng.random() < 0.7 else inputs[::-1], x.shape)


def _coordinates(w: Writer, rng: random.Random, x: Value, _: list[Value]) -> Value:
    planes = w.constant(w.around(0, rng.choice((0.1, 3)), 1, 2, *x.size))
    shape = (1, x.channels + 2, *x.size)
    inputs: list[Value | str] = [x, planes]
    return w.op("Concat", inputs if rng.random() < 0.7 else inputs[::-1], shape, axis=1)


_LAYERS: tuple[Callable[[Writer, random.Random, Value, list[Value]], Value], ...] = (
    *(_conv, _conv, _conv, _conv, _conv, _transposed, _pool, _sum, _join, _part, _shuffle),
    *(_resize, _upsampled, _resampled, _border, _strided, _gate, _norm, _act),
    *(_elementary, _quotient, _pixels, _coordinates, _sparse_pool),
)

_HEADS: tuple[Callable[[Writer, random.Random, Value], Value], ...] = (
    lambda w, rng, x: x,
    lambda w, rng, x: w.linear(w.flatten(x), rng.randint(1, 20)),
    lambda w, rng, x: w.linear(w.flatten(w.global_pool(x)), 10),
    lambda w, rng, x: w.softmax(w.flatten(w.global_pool(x))),
    lambda w, rng, x: w.sigmoid(w.conv(x, 6, 1, norm=False)),
    lambda w, rng, x: w.transpose(w.conv(x, 12, 1, norm=False), 0, 2, 3, 1),
    lambda w, rng, x: w.transpose(w.reshape(x, 1, x.channels, x.size[0] * x.size[1]), 0, 2, 1),
)


def damaged(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """Return a copy with one to three random changes, most of which make it invalid."""
    rng = random.Random(seed)
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for _ in range(rng.randint(1, 3)):
        rng.choice(_DAMAGES)(copy, rng)
    return copy


def _drop_node(model: onnx.ModelProto, rng: random.Random) -> None:
    if model.graph.node:
        del model.graph.node[rng.randrange(len(model.graph.node))]


def _swap_inputs(model: onnx.ModelProto, rng: random.Random) -> None:
    one, other = (rng.choice(model.graph.node) for _ in range(2))
    if one.input and other.input:
        a, b = rng.randrange(len(one.input)), rng.randrange(len(other.input))
        one.input[a], other.input[b] = other.input[b], one.input[a]


def _change_kind(model: onnx.ModelProto, rng: random.Random) -> None:
    kinds = ("Add", "Mul", "Relu", "Conv", "MaxPool", "Concat", "Reshape", "Transpose", "Gemm")
    kinds += ("Softmax", "Resize", "Pad", "Slice", "Clip", "Identity", "Shape", "NonZero", "Sqrt")
    kinds += ("Div", "Pow", "ReduceMean", "ArgMax", "TopK", "Where", "Loop", "Einsum", "Squeeze")
    rng.choice(model.graph.node).op_type = rng.choice(kinds)


def _change_attribute(model: onnx.ModelProto, rng: random.Random) -> None:
    attributes = [a for node in model.graph.node for a in node.attribute]
    if not attributes:
        return
    attribute = rng.choice(attributes)
    numbers = (0, -1, 1, 2, 3, 7, -5, 255, 2**31, 2**62, -(2**63))
    if attribute.ints:
        attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(numbers)
    elif attribute.type == onnx.AttributeProto.INT:
        attribute.i = rng.choice(numbers)
    elif attribute.type == onnx.AttributeProto.FLOAT:
        attribute.f = rng.choice((0.0, -1.0, 1e38, float("nan"), float("inf"), 1e-40))
    elif attribute.type == onnx.AttributeProto.STRING:
        attribute.s = rng.choice((b"", b"linear", b"reflect", b"SAME_LOWER", b"\xff"))


def _drop_attribute(model: onnx.ModelProto, rng: random.Random) -> None:
    node = rng.choice(model.graph.node)
    if node.attribute:
        del node.attribute[rng.randrange(len(node.attribute))]


def _change_constant(model: onnx.ModelProto, rng: random.Random) -> None:
    if not model.graph.initializer:
        return
    tensor = rng.choice(model.graph.initializer)
    how = rng.randrange(7)
    try:
        values = np.array(numpy_helper.to_array(tensor))
    except ValueError:  # its bytes are cut off already
        return
    if how == 0 and values.size and values.dtype.kind in "fi":
        values.flat[rng.randrange(values.size)] = rng.choice((0, -1, 100, 2**31 - 1))
    elif how == 1 and values.dtype == np.float32 and values.size:
        number = rng.choice((np.nan, np.inf, 1e38, 1e-40, -1e20))
        values.flat[rng.randrange(values.size)] = number
    elif how == 2:
        values = values.reshape(-1)
    elif how == 3:
        values = values.astype(rng.choice((np.float64, np.float16, np.int64, np.uint8, np.int32)))
    elif how == 4:
        values = values.reshape(-1)[:0]
    elif how == 5:
        values = np.zeros_like(values)
    else:
        tensor.raw_data = tensor.raw_data[:-1]
        return
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def _change_input(model: onnx.ModelProto, rng: random.Random) -> None:
    if not model.graph.input:
        return
    tensor = model.graph.input[0].type.tensor_type
    how = rng.randrange(4)
    if how == 0:
        tensor.elem_type = rng.choice((0, 2, 7, 10, 11, 99))
    elif how == 1 and tensor.shape.dim:
        size = rng.choice((0, 1, 2, 5, 17, 100_000, 2**40, -1))
        rng.choice(tensor.shape.dim).dim_value = size
    elif how == 2 and tensor.shape.dim:
        tensor.shape.dim.pop()
    else:
        extra = helper.make_tensor_value_info("extra", TensorProto.FLOAT, [1])
        model.graph.input.append(extra)


def _change_output(model: onnx.ModelProto, rng: random.Random) -> None:
    how = rng.randrange(4)
    if how == 0 and model.graph.output:
        del model.graph.output[0]
    elif how == 1 and model.graph.output:
        model.graph.output[0].name = "nowhere"
    elif how == 2:
        values = [v for node in model.graph.node for v in node.output]
        model.graph.output.append(onnx.ValueInfoProto(name=rng.choice(values)))
    else:
        nodes = [rng.choice(model.graph.node) for _ in range(2)]
        nodes[0].output[0] = nodes[1].output[0]


def _change_version(model: onnx.ModelProto, rng: random.Random) -> None:
    if model.opset_import:
        model.opset_import[0].version = rng.choice((0, 1, 6, 9, 10, 11, 13, 18, 21, 25, 99, -3))


_DAMAGES = (
    *(_drop_node, _swap_inputs, _change_kind, _change_attribute, _drop_attribute),
    *(_change_constant, _change_input, _change_output, _change_version),
)
