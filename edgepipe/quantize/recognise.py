"""Turn a float Relax network into the quantiser's graph: recognise operators and fuse them.

    conv2d, add const, add residual, leakyrelu   ->   one ConvNode

What is not recognised becomes a FloatNode with the reason, so every network has a graph. A rule
returns a node, or the reason why a call stays float.

An integer operator needs the range of its output, which calibration knows only for the ONNX
network's own values. Where the importer made several calls of one ONNX node (say, HardSwish) and
they do not fuse to one node again, those calls stay float.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.quantize.fusion import FusedNodes
from edgepipe.quantize.graph import (
    Activation,
    AveragePoolNode,
    ConcatNode,
    ConvNode,
    FloatNode,
    Graph,
    MaxPoolNode,
    MoveNode,
    Node,
    ResizeNode,
    SliceNode,
    SumNode,
    TableNode,
    as_channels,
    is_integer,
    picture_shape,
)
from edgepipe.quantize.resampling import resize_matrices
from edgepipe.tvm_adapter import Binding, IRModule, Main, read_main

ELEMENTWISE = ("sigmoid", "tanh", "exp", "nn.silu")
MAX_POOL_WINDOW = 4096
NO_PICTURE = "it reads no picture [1, c, h, w]"
NO_CONSTANT_WEIGHT = "its weights are not constant"


def recognise(module: IRModule, measurable: Container[str]) -> Graph:
    """Return the graph of a float Relax module with one parameter.

    ``measurable`` are the variables whose ranges calibration can find out.
    """
    main = read_main(module)
    frozen: set[str] = set()
    while True:
        graph = _read(main, frozen)
        unknown = _unmeasurable(graph, measurable)
        if not unknown - frozen:
            return graph
        frozen |= unknown


def _unmeasurable(graph: Graph, measurable: Container[str]) -> set[str]:
    """Return the integer nodes that ask for a range which nobody can measure."""
    float_made = {
        node.name for node in graph.nodes if isinstance(node, FloatNode | MoveNode | TableNode)
    }
    found = set()
    for node in graph.nodes:
        needed = [i for i in node.inputs if i in float_made] if is_integer(node) else []
        if isinstance(node, ConvNode | SumNode | AveragePoolNode):
            needed.append(node.name)
        if any(name not in measurable for name in needed):
            found.add(node.name)
    return found


def _read(main: Main, frozen: set[str]) -> Graph:
    shapes = {p.name: p.shape for p in main.params}
    shapes |= {b.name: b.shape for b in main.bindings}
    users = main.users()
    single = {name for name, read in users.items() if len(read) == 1 and name not in main.outputs}
    reader = _Reader(shapes, single)
    for binding in main.bindings:
        reader.read(binding, recognised=binding.name not in frozen)
    (param,) = main.params
    graph = Graph(
        input=param.name, nodes=tuple(reader.nodes.values()), outputs=main.outputs, shapes=shapes
    )
    return _without_unread(graph)


def _without_unread(graph: Graph) -> Graph:
    needed = set(graph.outputs)
    kept = []
    for node in reversed(graph.nodes):
        if node.name in needed:
            needed.update(node.inputs)
            kept.append(node)
    return replace(graph, nodes=tuple(reversed(kept)))


class _Reader:
    """Reads bindings in order; ``nodes`` is the graph so far, by output tensor."""

    def __init__(self, shapes: dict[str, tuple[int, ...]], single: set[str]) -> None:
        self.nodes: dict[str, Node] = {}
        self._fused = FusedNodes(self.nodes, shapes, single)
        self._shapes = shapes
        self._splits: dict[str, Binding] = {}

    def read(self, binding: Binding, *, recognised: bool) -> None:
        if binding.op == "split":
            self._splits[binding.name] = binding
            return
        rule = _RULES.get(binding.op)
        made: Node | str
        if rule is None:
            made = "it has no integer form"
        elif binding.dtype != "float32":
            made = f"it computes {binding.dtype}"
        elif not recognised:
            made = "calibration cannot measure a range inside it"
        else:
            made = rule(self, binding)
        node = self._float(binding, f"stays float: {made}") if isinstance(made, str) else made
        self.nodes[binding.name] = node

    def _float(self, binding: Binding, reason: str) -> Node:
        split = self._splits.pop(binding.inputs[0], None) if binding.inputs else None
        if split is not None:  # a split of some other kind, read as it is
            self.nodes[split.name] = FloatNode(name=split.name, binding=split, reason=reason)
        return FloatNode(name=binding.name, binding=binding, reason=reason)

    def _is_picture(self, *tensors: Any) -> bool:
        return all(
            isinstance(t, str) and picture_shape(self._shapes[t]) is not None for t in tensors
        )

    def elementwise(self, binding: Binding) -> Node | str:
        """Add, subtract, multiply and divide by a constant per channel, or of two tensors."""
        first, second = binding.args
        sign = -1.0 if binding.op == "subtract" else 1.0
        shape = self._shapes[binding.name]
        if not self._is_picture(binding.name):
            return f"it makes {list(shape)}, no picture [1, c, h, w]"
        if isinstance(first, str) and isinstance(second, str):
            same = self._shapes[first] == self._shapes[second] == shape
            if binding.op == "add" and same and first == second:
                return self._fused.affine(binding.name, first, np.full(shape[1], 2.0), 0.0)
            if binding.op in ("add", "subtract") and same and first != second:
                return self._fused.sum(binding.name, first, second, sign)
            if same:
                return f"only sums of two tensors are quantised, this is {binding.op}"
            return f"{list(self._shapes[first])} and {list(self._shapes[second])} differ"
        tensor, constant = (first, second) if isinstance(first, str) else (second, first)
        if not isinstance(tensor, str) or self._shapes[tensor] != shape:
            return "its constant has more axes than its tensor"
        factors = np.asarray(constant)
        values = as_channels(factors, shape)
        if values is None:
            return f"its constant {list(factors.shape)} is not one value a channel"
        if binding.op == "divide" and tensor is not first:
            return "a constant is divided by a tensor"
        ones = np.ones(shape[1])
        if binding.op == "multiply":
            return self._fused.affine(binding.name, tensor, values, 0.0)
        if binding.op == "divide":
            return self._fused.affine(binding.name, tensor, 1.0 / values, 0.0)
        if tensor is first:
            return self._fused.affine(binding.name, tensor, ones, sign * values)
        return self._fused.affine(binding.name, tensor, sign * ones, values)

    def activation(self, binding: Binding) -> Node | str:
        """Relu, leaky relu, clip, and maximum or minimum with a constant."""
        tensor = binding.args[0]
        wanted = _activation(binding)
        if wanted is None:
            return "its bounds are not one constant, or its slope is not within 0 and 1"
        if not isinstance(tensor, str) or not self._is_picture(tensor):
            return NO_PICTURE
        return self._fused.activated(binding.name, tensor, wanted)

    def conv(self, binding: Binding) -> Node | str:
        tensor, weight = binding.args
        attributes = binding.attributes
        if not isinstance(weight, np.ndarray) or not isinstance(tensor, str):
            return NO_CONSTANT_WEIGHT
        transposed = binding.op == "nn.conv2d_transpose"
        dilation = attributes["dilation"]
        if transposed:  # the record of a transposed convolution has no dilation
            weight, dilation = _dilated(weight, dilation), (1, 1)
        return ConvNode(
            name=binding.name,
            input=tensor,
            weight=weight.astype(np.float64),
            bias=np.zeros(binding.shape[1]),
            stride=attributes["strides"],
            padding=attributes["padding"],
            dilation=dilation,
            groups=attributes["groups"],
            transposed=transposed,
        )

    def dense(self, binding: Binding) -> Node | str:
        """``[1, k] @ const[k, n]``: a convolution whose kernel is the whole picture."""
        tensor, weight = binding.args
        if not isinstance(weight, np.ndarray) or not isinstance(tensor, str) or weight.ndim != 2:
            return NO_CONSTANT_WEIGHT
        if len(binding.shape) != 2 or binding.shape[0] != 1:
            return f"it makes {list(binding.shape)}, expected one row"
        source, shape = tensor, (1, weight.shape[0], 1, 1)
        before = self.nodes.get(tensor)
        if isinstance(before, MoveNode) and before.binding.op == "reshape":
            flat = picture_shape(self._shapes[before.input])
            if flat is not None and len(self._shapes[before.input]) == 4:
                source, shape = before.input, flat
        kernel = weight.T.astype(np.float64).reshape(weight.shape[1], *shape[1:])
        return ConvNode(
            name=binding.name, input=source, weight=kernel, bias=np.zeros(weight.shape[1])
        )

    def max_pool(self, binding: Binding) -> Node | str:
        tensor = binding.args[0]
        attributes = binding.attributes
        if not isinstance(tensor, str) or not self._is_picture(tensor):
            return NO_PICTURE
        if attributes["dilation"] != (1, 1):
            dy, dx = attributes["dilation"]
            return f"its window is dilated {dy}x{dx}; windows are whole on the accelerator"
        kernel, stride = attributes["pool_size"], attributes["strides"]
        padding = list(attributes["padding"])
        for axis in range(2):
            # Rounding the size up is more padding at the end, and padding never wins.
            had, made = self._shapes[tensor][2 + axis], binding.shape[2 + axis]
            needed = (made - 1) * stride[axis] + kernel[axis] - had - padding[axis]
            padding[2 + axis] = max(padding[2 + axis], needed)
        return MaxPoolNode(
            name=binding.name,
            input=tensor,
            kernel=kernel,
            stride=stride,
            padding=(padding[0], padding[1], padding[2], padding[3]),
        )

    def average_pool(self, binding: Binding) -> Node | str:
        tensor = binding.args[0]
        attributes = binding.attributes
        if not isinstance(tensor, str) or not self._is_picture(tensor):
            return NO_PICTURE
        padding, kernel = attributes["padding"], attributes["pool_size"]
        if attributes["dilation"] != (1, 1):
            dy, dx = attributes["dilation"]
            return f"its window is dilated {dy}x{dx}; windows are whole on the accelerator"
        if attributes["ceil_mode"]:
            return "ceil_mode cuts its last windows short, so that their divisors differ"
        if any(padding) and not attributes["count_include_pad"]:
            return "count_include_pad=0 leaves padding out, so that divisors differ at the border"
        if kernel[0] * kernel[1] > MAX_POOL_WINDOW:
            return f"its window has {kernel[0] * kernel[1]} pixels, more than {MAX_POOL_WINDOW}"
        return AveragePoolNode(
            name=binding.name,
            input=tensor,
            channels=self._shapes[tensor][1],
            kernel=kernel,
            stride=attributes["strides"],
            padding=padding,
        )

    def whole_picture(self, binding: Binding) -> Node | str:
        """Global pooling: the mean or the maximum over height and width."""
        tensor = binding.args[0]
        if not isinstance(tensor, str) or not self._is_picture(tensor):
            return NO_PICTURE
        shape = self._shapes[tensor]
        axes = {axis % len(shape) for axis in binding.attributes["axis"] or range(len(shape))}
        if len(shape) != 4 or axes != {2, 3}:
            return f"it reduces axes {sorted(axes)} of {list(shape)}, expected 2 and 3 of 4"
        kernel = (shape[2], shape[3])
        if binding.op == "max":
            return MaxPoolNode(
                name=binding.name, input=tensor, kernel=kernel, stride=kernel, padding=(0, 0, 0, 0)
            )
        if shape[2] * shape[3] > MAX_POOL_WINDOW:
            return f"its window has {shape[2] * shape[3]} pixels, more than {MAX_POOL_WINDOW}"
        return AveragePoolNode(
            name=binding.name, input=tensor, channels=shape[1], kernel=kernel, stride=kernel
        )

    def resize(self, binding: Binding) -> Node | str:
        tensor = binding.args[0]
        attributes = binding.attributes
        if not isinstance(tensor, str) or not self._is_picture(tensor):
            return NO_PICTURE
        sizes = (self._shapes[tensor][2:], binding.shape[2:])
        found = resize_matrices(
            sizes,  # type: ignore[arg-type]
            attributes["method"],
            attributes["coordinate_transformation_mode"],
            attributes["rounding_method"],
        )
        if found is None:
            mode = f"{attributes['method']} with {attributes['coordinate_transformation_mode']}"
            had, made = (f"{height}x{width}" for height, width in sizes)
            return f"{mode} from {had} to {made} has weights that no shift gives"
        rows, cols, shift = found
        return ResizeNode(name=binding.name, input=tensor, rows=rows, cols=cols, shift=shift)

    def concat(self, binding: Binding) -> Node | str:
        parts = binding.args[0]
        if len(binding.shape) != 4 or not isinstance(parts, tuple) or not self._is_picture(*parts):
            return NO_PICTURE
        if binding.attributes["axis"] not in (1, -3):
            return f"it joins along axis {binding.attributes['axis']}, expected channels"
        return ConcatNode(name=binding.name, parts=parts)

    def part_of_split(self, binding: Binding) -> Node | str:
        source, index = binding.args
        split = self._splits.get(source) if isinstance(source, str) else None
        if split is None or not isinstance(index, int):
            return "it is part of no split"
        tensor = split.args[0]
        if not isinstance(tensor, str) or len(self._shapes[tensor]) != 4:
            return NO_PICTURE
        if split.attributes["axis"] not in (1, -3):
            return f"it splits along axis {split.attributes['axis']}, expected channels"
        channels = self._shapes[tensor][1]
        cuts = split.attributes["indices_or_sections"]
        if isinstance(cuts, int):
            step = -(-channels // cuts)
            cuts = tuple(range(step, channels, step))
        borders = (0, *cuts, channels)
        return SliceNode(
            name=binding.name, input=tensor, begin=borders[index], end=borders[index + 1]
        )

    def move(self, binding: Binding) -> Node | str:
        tensor = binding.args[0]
        if not isinstance(tensor, str):
            return NO_PICTURE
        return MoveNode(name=binding.name, input=tensor, binding=binding)

    def table(self, binding: Binding) -> Node | str:
        tensor = binding.args[0]
        if not isinstance(tensor, str):
            return NO_PICTURE
        return TableNode(name=binding.name, input=tensor, binding=binding)


def _dilated(weight: NDArray[Any], dilation: tuple[int, int]) -> NDArray[Any]:
    """Return a kernel [.., h, w] with zeros between its taps."""
    *others, height, width = weight.shape
    (dy, dx) = dilation
    wide = np.zeros((*others, (height - 1) * dy + 1, (width - 1) * dx + 1), weight.dtype)
    wide[..., ::dy, ::dx] = weight
    return wide


def _activation(binding: Binding) -> Activation | None:
    if binding.op == "nn.relu":
        return Activation(low=0.0)
    if binding.op == "nn.leakyrelu":
        slope = float(binding.attributes["alpha"])
        if slope == 0.0:
            return Activation(low=0.0)
        return Activation(slope=slope) if 0.0 < slope < 1.0 else None
    if binding.op == "clip":
        low, high = binding.args[1:]
        if isinstance(low, int | float) and isinstance(high, int | float):
            return Activation(low=float(low), high=float(high))
        return None
    constant = binding.args[1]
    if not isinstance(constant, np.ndarray) or constant.size != 1:
        return None
    bound = float(constant.reshape(-1)[0])
    return Activation(low=bound) if binding.op == "maximum" else Activation(high=bound)


_RULES: dict[str, Callable[[_Reader, Binding], Node | str]] = {
    "add": _Reader.elementwise,
    "subtract": _Reader.elementwise,
    "multiply": _Reader.elementwise,
    "divide": _Reader.elementwise,
    "nn.relu": _Reader.activation,
    "nn.leakyrelu": _Reader.activation,
    "clip": _Reader.activation,
    "maximum": _Reader.activation,
    "minimum": _Reader.activation,
    "nn.conv2d": _Reader.conv,
    "nn.conv2d_transpose": _Reader.conv,
    "matmul": _Reader.dense,
    "nn.max_pool2d": _Reader.max_pool,
    "nn.avg_pool2d": _Reader.average_pool,
    "mean": _Reader.whole_picture,
    "max": _Reader.whole_picture,
    "image.resize2d": _Reader.resize,
    "concat": _Reader.concat,
    "tuple_get_item": _Reader.part_of_split,
    "reshape": _Reader.move,
    "permute_dims": _Reader.move,
    **dict.fromkeys(ELEMENTWISE, _Reader.table),
}
