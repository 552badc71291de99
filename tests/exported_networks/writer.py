"""Write ONNX graphs layer by layer, each layer as an exporter of a framework writes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

STYLES = ("torch", "torch_dynamic", "tf2onnx", "paddle")
"""``torch_dynamic`` computes every shape from that of a tensor, as scripted modules do."""

_MOST_IN_NODE = {"torch": 16, "torch_dynamic": 16, "tf2onnx": 0, "paddle": 64}
"""Constants of fewer elements are Constant nodes, others initialisers."""

PROLOGUES = ("", "rescale", "normalise", "reverse")
"""What a network does to a picture of bytes before its first layer, as Keras' layers do it."""

_PER_LAYER = {"relu": 2.0, "silu": 2.8, "hswish": 2.6, "gelu": 2.4, "leaky": 2.0, "": 1.0}


@dataclass(frozen=True)
class Value:
    """A tensor of the graph: its ONNX name and its static shape, channels first."""

    name: str
    shape: tuple[int, ...]

    @property
    def channels(self) -> int:
        return self.shape[1]

    @property
    def size(self) -> tuple[int, int]:
        return self.shape[2], self.shape[3]


class Writer:
    """Collects nodes and initialisers; weights are drawn from a seeded generator.

    Weights have the variance that keeps activations near 1 (He et al., 2015), batch normalisation
    is folded by ``torch`` and written as a node by ``paddle`` and by ``tf2onnx``. ``prologue`` is
    one of ``PROLOGUES``, ``channels`` those of the picture.
    """

    def __init__(
        self, style: str, opset: int, seed: int = 0, *, prologue: str = "", channels: int = 3
    ) -> None:
        assert style in STYLES
        assert prologue in PROLOGUES
        self.style, self.opset = style, opset
        self._prologue, self._channels = prologue, channels
        self._random = np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self._count = 0
        self._input: Value | None = None

    # Values.

    def image(self, height: int, width: int) -> Value:
        """Start the graph: a picture [1, c, h, w], or [1, h, w, c] that is transposed later."""
        channels = self._channels
        self._input = Value("image", (1, channels, height, width))
        if self.style != "tf2onnx":
            return self._prepared(self._input, (1, channels, 1, 1), 1)
        last = (1, height, width, channels)
        x = self._prepared(Value("image", last), (1, 1, 1, channels), 3)
        if channels == 1:
            shape = self.constant([-1, 1, height, width], np.int64)
            return self.op("Reshape", [x, shape], self._input.shape)
        return self.op("Transpose", [x], self._input.shape, perm=[0, 3, 1, 2])

    def _prepared(self, x: Value, shape: Sequence[int], axis: int) -> Value:
        """Append the prologue; ``shape`` is that of one value per channel, on ``axis``."""
        if self._prologue == "rescale":
            x = self.mul(x, self.constant(1 / 127.5))
            return self.op("Add", [x, self.constant(-1.0)], x.shape)
        if self._prologue == "normalise":
            x = self.mul(x, self.constant(1 / 255))
            middles = -self.around(0.45, 0.03, *shape)
            x = self.op("Add", [x, self.constant(middles)], x.shape)
            return self.mul(x, self.constant(1 / self.around(0.22, 0.02, *shape)))
        if self._prologue == "reverse":
            bounds = [self.constant([n], np.int64) for n in (-1, -(2**31), axis, -1)]
            x = self.op("Slice", [x, *bounds], x.shape)
            return self.op("Add", [x, self.constant(-self.around(110, 5, *shape))], x.shape)
        return x

    def constant(self, values: object, dtype: type = np.float32) -> str:
        """Add an initialiser, or a Constant node where the framework prefers that."""
        array = np.asarray(values, dtype)
        name = self._fresh("const")
        tensor = numpy_helper.from_array(array, name)
        if array.size < _MOST_IN_NODE[self.style]:
            self._nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self._constants[name] = tensor
        return name

    def weight(self, *shape: int, fan_in: int, gain: float = 1.0) -> NDArray[np.float32]:
        """Draw weights: float32 of ``shape``."""
        return self._random.normal(0, np.sqrt(gain / fan_in), shape).astype(np.float32)

    def around(self, middle: float, spread: float, *shape: int) -> NDArray[np.float32]:
        """Draw values near ``middle``: float32 of ``shape``."""
        return self._random.normal(middle, spread, shape).astype(np.float32)

    def op(
        self, kind: str, inputs: Sequence[Value | str], shape: Sequence[int], **attributes: object
    ) -> Value:
        """Append a node with one output of ``shape``."""
        return self.ops(kind, inputs, [shape], **attributes)[0]

    def ops(
        self,
        kind: str,
        inputs: Sequence[Value | str],
        shapes: Sequence[Sequence[int]],
        **attributes: object,
    ) -> list[Value]:
        """Append a node with an output for each of ``shapes``."""
        made = [Value(self._fresh(kind), tuple(shape)) for shape in shapes]
        names = [value.name if isinstance(value, Value) else value for value in inputs]
        node = helper.make_node(kind, names, [value.name for value in made], **attributes)
        self._nodes.append(node)
        return made

    def _fresh(self, kind: str) -> str:
        self._count += 1
        if self.style == "tf2onnx":
            return f"model/{kind.lower()}_{self._count}:0"
        if self.style == "paddle":
            return f"{kind.lower()}_{self._count}.tmp_0"
        return f"/{kind.lower()}_{self._count}/{kind}_output_0"

    # Layers with weights.

    def conv(
        self,
        x: Value,
        channels: int,
        kernel: int,
        stride: int = 1,
        *,
        groups: int = 1,
        dilation: int = 1,
        norm: bool = True,
        act: str = "",
        padding: int | None = None,
        gain: float | None = None,
    ) -> Value:
        """Append a convolution, its batch normalisation and its activation.

        The gain is that of the variance, by default one that activations make up for.
        """
        per_group = x.channels // groups
        fan_in = per_group * kernel * kernel
        gain = _PER_LAYER.get(act, 2.0) if gain is None else gain
        weight = self.weight(channels, per_group, kernel, kernel, fan_in=fan_in, gain=gain)
        bias = self.around(0, 0.1, channels)
        reach = dilation * (kernel - 1)
        pad = reach // 2 if padding is None else padding
        attributes: dict[str, object] = {
            "dilations": [dilation] * 2,
            "group": groups,
            "kernel_shape": [kernel] * 2,
            "strides": [stride] * 2,
        }
        same = padding is None and self.style == "tf2onnx"
        height, width = (
            -(-size // stride) if same else (size + 2 * pad - reach - 1) // stride + 1
            for size in x.size
        )
        if same and stride == 2 and kernel > 1 and groups > 1:  # Keras' ZeroPadding2D, then valid
            before = [
                max((s - 1) * stride + kernel - size, 0)
                for s, size in zip((height, width), x.size, strict=True)
            ]
            pads = [0, 0, before[0] // 2, before[1] // 2, 0, 0, -(-before[0] // 2)]
            x = self._padded(x, [*pads, -(-before[1] // 2)])
            attributes["pads"] = [0] * 4
        elif same:
            attributes["auto_pad"] = "SAME_UPPER"
        else:
            attributes["pads"] = [pad] * 4
        shape = (x.shape[0], channels, height, width)
        keeps_norm = norm and self.style in ("tf2onnx", "paddle")
        inputs = [x, self._initialiser(weight)]
        if not keeps_norm and self.style != "paddle":
            inputs.append(self._initialiser(bias))
        y = self.op("Conv", inputs, shape, **attributes)
        if keeps_norm:
            y = self.batch_norm(y)
        elif self.style == "paddle":
            y = self.op("Add", [y, self.constant(bias.reshape(1, -1, 1, 1))], shape)
        return self.activation(y, act)

    def _initialiser(self, values: NDArray[np.float32]) -> str:
        name = self._fresh("weight")
        self._constants[name] = numpy_helper.from_array(values, name)
        return name

    def _padded(self, x: Value, pads: Sequence[int]) -> Value:
        shape = [s + a + b for s, a, b in zip(x.shape, pads[:4], pads[4:], strict=True)]
        if self.opset < 11:
            return self.op("Pad", [x], shape, pads=list(pads), mode="constant")
        return self.op("Pad", [x, self.constant(pads, np.int64)], shape)

    def batch_norm(self, x: Value) -> Value:
        """Append batch normalisation as a node, with a channel that training has switched off."""
        gamma = self.around(1, 0.2, x.channels)
        variance = np.abs(self.around(1, 0.2, x.channels)) + np.float32(0.2)
        gamma[0], variance[0] = 1e-7, 1e-6
        values = (gamma, self.around(0, 0.2, x.channels), self.around(0, 0.2, x.channels), variance)
        inputs = [x, *(self._initialiser(v) for v in values)]
        return self.op("BatchNormalization", inputs, x.shape, epsilon=1e-3)

    def transposed(
        self,
        x: Value,
        channels: int,
        kernel: int,
        stride: int,
        pad: int,
        *,
        size: Sequence[int] = (),
        rule: str = "NOTSET",
    ) -> Value:
        """Append a transposed convolution without output padding, of ``size`` in place of pads."""
        fan_in = x.channels * kernel * kernel // (stride * stride)
        weight = self.weight(x.channels, channels, kernel, kernel, fan_in=fan_in, gain=2.0)
        pads: dict[str, object] = {"pads": [pad] * 4}
        if size:
            pads = {"output_shape": list(size), "auto_pad": rule}
        else:
            size = [(s - 1) * stride - 2 * pad + kernel for s in x.size]
        inputs = [x, self._initialiser(weight), self._initialiser(self.around(0, 0.1, channels))]
        return self.op(
            "ConvTranspose",
            inputs,
            (1, channels, *size),
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            **pads,
        )

    def linear(self, x: Value, features: int) -> Value:
        """Append a dense layer on the last axis: Gemm for rows, MatMul and Add for more axes."""
        depth = x.shape[-1]
        weight = self.weight(features, depth, fan_in=depth)
        bias = self.around(0, 0.1, features)
        if len(x.shape) == 2 and self.style.startswith("torch"):
            inputs = [x, self._initialiser(weight), self._initialiser(bias)]
            return self.op("Gemm", inputs, (x.shape[0], features), transB=1)
        shape = (*x.shape[:-1], features)
        y = self.op("MatMul", [x, self._initialiser(np.ascontiguousarray(weight.T))], shape)
        return self.op("Add", [y, self._initialiser(bias)], shape)

    # Layers without weights.

    def activation(self, x: Value, kind: str) -> Value:
        """Append an activation by name, decomposed as the framework does."""
        if not kind:
            return x
        return _ACTIVATIONS[kind](self, x)

    def max_pool(self, x: Value, kernel: int, stride: int, pad: int = 0, **more: object) -> Value:
        """Append a maximum over windows."""
        ceil = bool(more.get("ceil_mode"))
        size = [
            -(-(s + 2 * pad - kernel) // stride) + 1
            if ceil
            else (s + 2 * pad - kernel) // stride + 1
            for s in x.size
        ]
        attributes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        return self.op("MaxPool", [x], (1, x.channels, *size), **attributes, **more)

    def average_pool(self, x: Value, kernel: int, stride: int, pad: int = 0) -> Value:
        """Append a mean over windows, without the padding in the divisor in tf2onnx and Paddle."""
        size = [(s + 2 * pad - kernel) // stride + 1 for s in x.size]
        attributes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        counts = 1 if self.style.startswith("torch") else 0
        shape = (1, x.channels, *size)
        return self.op("AveragePool", [x], shape, count_include_pad=counts, **attributes)

    def global_pool(self, x: Value) -> Value:
        """Append the mean over the picture, [1, c, 1, 1]."""
        shape = (1, x.channels, 1, 1)
        if self.style != "tf2onnx":
            return self.op("GlobalAveragePool", [x], shape)
        if self.opset >= 18:
            return self.op("ReduceMean", [x, self.constant([2, 3], np.int64)], shape, keepdims=1)
        return self.op("ReduceMean", [x], shape, axes=[2, 3], keepdims=1)

    def flatten(self, x: Value) -> Value:
        """Append ``x.view(x.size(0), -1)``."""
        count = int(np.prod(x.shape[1:]))
        if self.style == "torch":
            return self.op("Flatten", [x], (1, count), axis=1)
        if self.style == "tf2onnx":
            return self.op("Reshape", [x, self.constant([-1, count], np.int64)], (1, count))
        rest = self.constant([-1], np.int64)
        batch = self.unsqueeze(self.dimension(x, 0), 0)
        return self.op("Reshape", [x, self.op("Concat", [batch, rest], (2,), axis=0)], (1, count))

    def reshape(self, x: Value, *shape: int) -> Value:
        """Append a reshape; one that depends on dimensions of ``x`` computes them."""
        if self.style in ("torch", "tf2onnx"):
            return self.op("Reshape", [x, self.constant(shape, np.int64)], shape)
        batch = self.unsqueeze(self.dimension(x, 0), 0)
        rest = self.constant(shape[1:], np.int64)
        wanted = self.op("Concat", [batch, rest], (len(shape),), axis=0)
        return self.op("Reshape", [x, wanted], shape)

    def dimension(self, x: Value, axis: int) -> Value:
        """Append ``x.size(axis)``, as Gather or as Slice and Squeeze."""
        shape = self.op("Shape", [x], (len(x.shape),))
        if self.style != "paddle":
            return self.op("Gather", [shape, self.constant(axis, np.int64)], (), axis=0)
        bounds = [self.constant([axis + n], np.int64) for n in (0, 1)]
        part = self.op("Slice", [shape, *bounds, self.constant([0], np.int64)], (1,))
        part = self.op("Cast", [part], (1,), to=TensorProto.INT32)
        part = self.op("Cast", [part], (1,), to=TensorProto.INT64)
        if self.opset < 13:
            return self.op("Squeeze", [part], (), axes=[0])
        return self.op("Squeeze", [part, self.constant([0], np.int64)], ())

    def unsqueeze(self, x: Value, axis: int) -> Value:
        """Append an axis of size 1."""
        shape = (*x.shape[:axis], 1, *x.shape[axis:])
        if self.opset < 13:
            return self.op("Unsqueeze", [x], shape, axes=[axis])
        return self.op("Unsqueeze", [x, self.constant([axis], np.int64)], shape)

    def transpose(self, x: Value, *perm: int) -> Value:
        """Append a permutation of axes."""
        return self.op("Transpose", [x], tuple(x.shape[axis] for axis in perm), perm=list(perm))

    def add(self, x: Value, y: Value) -> Value:
        """Append a sum."""
        return self.op("Add", [x, y], x.shape)

    def mul(self, x: Value, y: Value | str) -> Value:
        """Append a product; the first factor has the shape of the result."""
        return self.op("Mul", [x, y], x.shape)

    def concat(self, *parts: Value, axis: int = 1) -> Value:
        """Append a concatenation."""
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        return self.op("Concat", list(parts), shape, axis=axis)

    def split(self, x: Value, *sizes: int, axis: int = 1) -> list[Value]:
        """Append a split: one node, or a slice for each part as ``x[:, a:b]`` gives."""
        shapes = [(*x.shape[:axis], size, *x.shape[axis + 1 :]) for size in sizes]
        if self.style == "torch_dynamic":
            ends = np.cumsum(sizes)
            return [
                self.slice(x, axis, int(end - size), int(end))
                for size, end in zip(sizes, ends, strict=True)
            ]
        if self.opset < 13:
            return self.ops("Split", [x], shapes, axis=axis, split=list(sizes))
        return self.ops("Split", [x, self.constant(sizes, np.int64)], shapes, axis=axis)

    def slice(self, x: Value, axis: int, begin: int, end: int, step: int = 1) -> Value:
        """Append ``x[..., begin:end:step]`` along an axis."""
        shape = list(x.shape)
        shape[axis] = len(range(*slice(begin, end, step).indices(shape[axis])))
        values = [[begin], [end], [axis], [step]]
        inputs = [self.constant(value, np.int64) for value in values]
        return self.op("Slice", [x, *inputs], shape)

    def resize(self, x: Value, height: int, width: int, mode: str = "nearest") -> Value:
        """Append a resize by factors (torch), or to a size that may come from another tensor."""
        shape = (1, x.channels, height, width)
        attributes: dict[str, object] = {"mode": mode}
        if mode == "nearest":
            attributes["nearest_mode"] = "floor"
            attributes["coordinate_transformation_mode"] = "asymmetric"
        else:
            attributes["coordinate_transformation_mode"] = (
                "half_pixel" if self.style != "torch" else "pytorch_half_pixel"
            )
        empty = self.constant([]) if self.opset < 13 else ""
        if self.style == "torch":
            factors = [1, 1]
            for made, read in zip((height, width), x.size, strict=True):
                factors.append(np.nextafter(np.float32(made / read), np.float32(np.inf)))
            inputs: list[Value | str] = [x, empty, self.constant(factors)]
        elif self.style == "tf2onnx":
            inputs = [x, empty, empty, self.constant(shape, np.int64)]
        else:
            whole = self.op("Shape", [x], (4,))
            bounds = [self.constant([n], np.int64) for n in (0, 2)]
            ahead = self.op("Slice", [whole, *bounds, self.constant([0], np.int64)], (2,))
            size = self.constant([height, width], np.int64)
            inputs = [x, empty, empty, self.op("Concat", [ahead, size], (4,), axis=0)]
        return self.op("Resize", inputs, shape, **attributes)

    def resample(
        self, x: Value, factors: Sequence[float], mode: str, *, antialias: bool = False
    ) -> Value:
        """Append a resize by factors as they are; a filter only if the opset has one."""
        given = [np.float32(1), np.float32(1), *map(np.float32, factors)]
        size = [int(np.floor(n * f)) for n, f in zip(x.size, given[2:], strict=True)]
        if min(size) < 1:
            return x
        filtered: dict[str, object] = {"antialias": 1} if antialias and self.opset >= 18 else {}
        empty = self.constant([]) if self.opset < 13 else ""
        shape = (1, x.channels, *size)
        return self.op("Resize", [x, empty, self.constant(given)], shape, mode=mode, **filtered)

    def shuffle(self, x: Value, groups: int) -> Value:
        """Append a channel shuffle: reshape, transpose, reshape."""
        height, width = x.size
        y = self.reshape(x, 1, groups, x.channels // groups, height, width)
        return self.reshape(self.transpose(y, 0, 2, 1, 3, 4), *x.shape)

    def layer_norm(self, x: Value) -> Value:
        """Append a normalisation of the last axis: one node from opset 17, else its parts."""
        depth = x.shape[-1]
        scale, shift = (self._initialiser(self.around(m, 0.1, depth)) for m in (1, 0))
        if self.opset >= 17 and self.style.startswith("torch"):
            return self.op("LayerNormalization", [x, scale, shift], x.shape, axis=-1, epsilon=1e-6)
        middle = self._mean(x)
        centred = self.op("Sub", [x, middle], x.shape)
        square = self.op("Pow", [centred, self.constant(2.0)], x.shape)
        variance = self._mean(square)
        kept = self.op("Add", [variance, self.constant(1e-6)], variance.shape)
        y = self.op("Div", [centred, self.op("Sqrt", [kept], kept.shape)], x.shape)
        return self.op("Add", [self.op("Mul", [y, scale], x.shape), shift], x.shape)

    def _mean(self, x: Value) -> Value:
        shape = (*x.shape[:-1], 1)
        if self.opset >= 18:
            return self.op("ReduceMean", [x, self.constant([-1], np.int64)], shape, keepdims=1)
        return self.op("ReduceMean", [x], shape, axes=[-1], keepdims=1)

    def softmax(self, x: Value, axis: int = -1) -> Value:
        """Append a softmax."""
        return self.op("Softmax", [x], x.shape, axis=axis)

    def sigmoid(self, x: Value) -> Value:
        """Append a sigmoid."""
        return self.op("Sigmoid", [x], x.shape)

    def matmul(self, x: Value, y: Value) -> Value:
        """Append a product of the last two axes."""
        return self.op("MatMul", [x, y], (*x.shape[:-1], y.shape[-1]))

    def squeeze_excite(self, x: Value, reduced: int, act: str, gate: str) -> Value:
        """Append a squeeze-excite block."""
        y = self.conv(self.global_pool(x), reduced, 1, norm=False, act=act)
        return self.mul(x, self.conv(y, x.channels, 1, norm=False, act=gate))

    # The model.

    def model(self, *outputs: Value, dynamic: bool = False) -> onnx.ModelProto:
        """Finish the graph; ``dynamic`` leaves batch, height and width open."""
        assert self._input is not None
        shape: list[object] = list(self._input.shape)
        if dynamic or self.style in ("paddle", "torch_dynamic"):
            shape = ["batch", shape[1], "height", "width"]
            if self.style == "paddle":
                shape = ["p2o.DynamicDimension.0", shape[1], "p2o.1", "p2o.2"]
        if self.style == "tf2onnx":
            shape = ["unk__1", *shape[2:], shape[1]]
        made = []
        for index, value in enumerate(outputs):
            name = f"output{index}" if len(outputs) > 1 else "output"
            self._nodes.append(helper.make_node("Identity", [value.name], [name]))
            dims: list[object] = [None] * len(value.shape)
            made.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, dims))
        graph = helper.make_graph(
            self._nodes,
            "network",
            [helper.make_tensor_value_info(self._input.name, TensorProto.FLOAT, shape)],
            made,
            list(self._constants.values()),
        )
        version = helper.make_opsetid("", self.opset)
        producer = {"tf2onnx": "tf2onnx", "paddle": "PaddlePaddle"}.get(self.style, "pytorch")
        model = helper.make_model(
            graph, opset_imports=[version], ir_version=8, producer_name=producer
        )
        onnx.checker.check_model(model)
        return model


def _relu(w: Writer, x: Value) -> Value:
    return w.op("Relu", [x], x.shape)


def _relu6(w: Writer, x: Value) -> Value:
    if w.opset < 11:
        return w.op("Clip", [x], x.shape, min=0.0, max=6.0)
    return w.op("Clip", [x, w.constant(0.0), w.constant(6.0)], x.shape)


def _leaky(w: Writer, x: Value) -> Value:
    return w.op("LeakyRelu", [x], x.shape, alpha=0.1)


def _prelu(w: Writer, x: Value) -> Value:
    slope = np.abs(w.around(0.25, 0.05, x.channels, 1, 1))
    return w.op("PRelu", [x, w.constant(slope)], x.shape)


def _silu(w: Writer, x: Value) -> Value:
    return w.mul(x, w.sigmoid(x))


def _hard_sigmoid(w: Writer, x: Value) -> Value:
    if w.style == "paddle":
        return w.op("HardSigmoid", [x], x.shape, alpha=0.2, beta=0.5)
    if w.style == "tf2onnx":
        y = w.op("Add", [x, w.constant(3.0)], x.shape)
        return w.mul(_relu6(w, y), w.constant(1 / 6))
    return w.op("HardSigmoid", [x], x.shape, alpha=1 / 6, beta=0.5)


def _hard_swish(w: Writer, x: Value) -> Value:
    if w.style == "paddle":
        y = w.op("Add", [x, w.constant([3.0])], x.shape)
        y = w.mul(x, _relu6(w, y))
        return w.op("Div", [y, w.constant([6.0])], x.shape)
    if w.opset >= 14 and w.style.startswith("torch"):
        return w.op("HardSwish", [x], x.shape)
    return w.mul(x, _hard_sigmoid(w, x))


def _gelu(w: Writer, x: Value) -> Value:
    if w.opset >= 20:
        return w.op("Gelu", [x], x.shape)
    y = w.op("Div", [x, w.constant(2**0.5)], x.shape)
    y = w.op("Add", [w.op("Erf", [y], x.shape), w.constant(1.0)], x.shape)
    return w.mul(w.mul(x, y), w.constant(0.5))


def _elu(w: Writer, x: Value) -> Value:
    return w.op("Elu", [x], x.shape, alpha=1.0)


def _mish(w: Writer, x: Value) -> Value:
    y = w.op("Tanh", [w.op("Softplus", [x], x.shape)], x.shape)
    return w.mul(x, y)


_ACTIVATIONS = {
    "elu": _elu,
    "gelu": _gelu,
    "hsigmoid": _hard_sigmoid,
    "hswish": _hard_swish,
    "leaky": _leaky,
    "mish": _mish,
    "prelu": _prelu,
    "relu": _relu,
    "relu6": _relu6,
    "sigmoid": lambda w, x: w.sigmoid(x),
    "silu": _silu,
}
