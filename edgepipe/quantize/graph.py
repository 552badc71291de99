"""The float network as the quantiser sees it: fused nodes with constants in numpy.

A node becomes one integer operator: a convolution with its bias, residuals and activation,
a sum, a pool, a resize, a concatenation, a move of bytes, a table, or an unchanged float operator.
Integer tensors are pictures: a float tensor [1, k] stands for int8[1, k, 1, 1].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepipe.tvm_adapter import Binding

Float = NDArray[np.float64]
Int32Array = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """Follows the accumulator: ``x if x > 0 else slope * x``, then a clip to [low, high]."""

    low: float = -np.inf
    high: float = np.inf
    slope: float = 1.0


IDENTITY = Activation()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node:
    """A named operator; ``name`` is also its output tensor.

    ``reason`` says why the operator runs on the CPU; it is empty for integer operators.
    """

    name: str
    reason: str = ""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that the node reads."""
        raise TypeError(f"{type(self).__name__} does not say what it reads")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProjectionPart:
    """A 1x1 convolution, ``weight`` float64[out, in], that is part of a ConvNode."""

    input: str
    weight: Float
    stride: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConvNode(Node):
    """``activation(conv(input, weight) + sum(residual * factor) + projections + bias)``.

    ``weight`` is float64[out, in / groups, kh, kw], or [in, out / groups, kh, kw] when
    ``transposed``; ``bias`` float64[out]; a residual is (tensor, factor float64[out]).
    """

    input: str
    weight: Float
    bias: Float
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    transposed: bool = False
    residuals: tuple[tuple[str, Float], ...] = ()
    projections: tuple[ProjectionPart, ...] = ()
    activation: Activation = IDENTITY

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*self.weighted_inputs, *(tensor for tensor, _ in self.residuals))

    @property
    def weighted_inputs(self) -> tuple[str, ...]:
        """The tensors that weights are multiplied with."""
        return (self.input, *(projection.input for projection in self.projections))

    @property
    def is_projection(self) -> bool:
        """Return whether this is a plain 1x1 convolution, which another convolution can absorb."""
        plain = not self.residuals and not self.projections and not self.transposed
        return (
            plain
            and self.groups == 1
            and self.weight.shape[2:] == (1, 1) == self.dilation
            and (self.padding == (0, 0, 0, 0))
        )

    @property
    def is_depthwise(self) -> bool:
        """One input channel per output channel, each with its own weights."""
        return not self.transposed and self.groups > 1 and self.weight.shape[:2] == (self.groups, 1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SumNode(Node):
    """``activation(sum(tensor * factor) + bias)``, factors and bias float64[channels]."""

    terms: tuple[tuple[str, Float], ...]
    bias: Float
    activation: Activation = IDENTITY

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(tensor for tensor, _ in self.terms)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProductNode(Node):
    """``activation(first * second * factor + sum(residual * factor) + bias)``.

    If it ``divides``, ``first / second`` takes the place of their product, or ``first`` divided by
    the function of ``second`` that the calls ``divisor`` compute. ``factor`` and ``bias`` are
    float64[channels], a residual is (tensor, factor float64[channels]).
    The extents of ``first`` and ``second`` are those of the output or 1.
    """

    reason: str = "tensors are multiplied on arm"
    first: str
    second: str
    factor: Float
    bias: Float
    divides: bool = False
    divisor: tuple[Binding, ...] = ()
    residuals: tuple[tuple[str, Float], ...] = ()
    activation: Activation = IDENTITY

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.first, self.second, *(tensor for tensor, _ in self.residuals))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PixelNode(Node):
    """``activation(input * factor + bias)`` with constants that differ from pixel to pixel.

    ``factor`` and ``bias`` are float64[1, channels, height, width]; each extent may be 1, and so
    may those of ``input``.
    """

    reason: str = "constants for each pixel are applied on arm"
    input: str
    factor: Float
    bias: Float
    activation: Activation = IDENTITY

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NormNode(Node):
    """``activation((x - mean) / sqrt(variance + epsilon) * factor + bias)``.

    Mean and variance are those of the channels at each pixel if ``groups`` is 0, otherwise of the
    pixels of each of that many groups of channels. Without ``is_centred``, the mean counts as 0:
    the variance is then that of squares. ``factor`` and ``bias`` are float64[channels].
    """

    reason: str = "values are normalised on arm"
    input: str
    groups: int
    epsilon: float
    is_centred: bool
    factor: Float
    bias: Float
    activation: Activation = IDENTITY

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LengthNode(Node):
    """The sum of magnitudes or squares over the pixels of each channel, or a root of it.

    ``power`` is 1 for magnitudes and 2 for squares. With ``is_root``, the result is the root of the
    sum and ``epsilon``.
    """

    reason: str = "lengths are computed on arm"
    input: str
    power: int
    is_root: bool = False
    epsilon: float = 0.0

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SoftmaxNode(Node):
    """``exp(input) / sum(exp(input))``, the sum over ``axis`` 1, 2 or 3 of the picture."""

    reason: str = "a softmax is computed on arm"
    input: str
    axis: int

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttentionNode(Node):
    """Means of ``value``, weighted by the softmax of ``query @ key * factor + bias``.

    Without a ``key``, the query itself, [..., n, m], takes the place of the product.
    ``query`` is [..., n, d], ``key`` [..., d, m] and ``value`` [..., m, e]; the result is
    [..., n, e]. If the node ``is_turned``, the last two axes of value and result change places.
    ``bias`` is float64, broadcast to [..., n, m], or None. None of them need be a picture. The
    query or the key may be a constant, as learned queries are.
    """

    reason: str = "attention is computed on arm"
    query: str | Float
    key: str | Float | None
    value: str
    factor: float
    bias: Float | None = None
    is_turned: bool = False

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(matrix for matrix in self.matrices if isinstance(matrix, str))

    @property
    def matrices(self) -> tuple[str | Float, ...]:
        """Queries, keys if there are any, and values: a name, or float64[..., n, d] as above."""
        return (self.query, *([] if self.key is None else [self.key]), self.value)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearAttentionNode(Node):
    """``factor * query @ (key @ value) / (query @ sum(key) + epsilon)``, the sum over tokens.

    ``query`` is [..., n, d], ``key`` [..., d, m] and ``value`` [..., m, e]; the result is
    [..., n, e]. None of them need be a picture.
    """

    reason: str = "attention is computed on arm"
    query: str
    key: str
    value: str
    factor: float = 1.0
    epsilon: float = 0.0

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.query, self.key, self.value)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatrixNode(Node):
    """``first @ second * factor`` of two tensors [..., n, d] and [..., d, m].

    Neither they nor the result need be pictures. One of them may be a constant that differs along
    the axes before the last two, as the places of each head do.
    """

    reason: str = "computed matrices are multiplied on arm"
    first: str | Float
    second: str | Float
    factor: float = 1.0

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(matrix for matrix in (self.first, self.second) if isinstance(matrix, str))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AveragePoolNode(Node):
    """Mean over windows, each of the full kernel size (padding counts as zeros)."""

    input: str
    channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MaxPoolNode(Node):
    """Largest value of every window; padding is never the largest.

    ``dilation`` is the distance between a window's pixels. Where it is more than 1, the accelerator
    has no such windows.
    """

    input: str
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int] = (1, 1)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResizeNode(Node):
    """Separable resampling ``rows @ x @ cols.T / 2**shift`` with integer weights."""

    input: str
    rows: Int32Array
    cols: Int32Array
    shift: int

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConcatNode(Node):
    """Channels of several pictures, one after the other."""

    parts: tuple[str, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.parts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinNode(Node):
    """Channels of pictures and of constants float64[1, c, h, w], one after the other."""

    reason: str = "constant channels are appended on arm"
    parts: tuple[str | Float, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(part for part in self.parts if isinstance(part, str))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PickNode(Node):
    """Some channels of a picture, in any order."""

    reason: str = "channels are picked out on arm"
    input: str
    channels: tuple[int, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MoveNode(Node):
    """A reshape, transposition or selection: bytes move, values stay.

    ``binding`` is the float original.
    """

    reason: str = "bytes are moved on arm"
    input: str
    binding: Binding

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableNode(Node):
    """A function of one number applied to every element.

    ``bindings`` are its calls in the float network, in order; constants may differ by channel.
    """

    reason: str = "values are looked up in a table on arm"
    input: str
    bindings: tuple[Binding, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FloatNode(Node):
    """An operator that stays float, on the ARM side; ``reason`` says why.

    The reason is empty until ``Recognise`` has examined the operator.
    """

    binding: Binding

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.binding.inputs


_INTEGER_KINDS = (
    *(ConvNode, SumNode, ProductNode, PixelNode, NormNode, LengthNode, SoftmaxNode, AttentionNode),
    *(LinearAttentionNode, MatrixNode, AveragePoolNode, MaxPoolNode, ResizeNode, ConcatNode),
    JoinNode,
)


def is_integer(node: Node) -> bool:
    """Return whether the node computes on int8; float inputs are quantised for it."""
    return isinstance(node, _INTEGER_KINDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Nodes in topological order; ``shapes`` are the float shapes of all tensors."""

    input: str
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    shapes: dict[str, tuple[int, ...]] = field(repr=False)

    def users(self) -> dict[str, list[Node]]:
        """Map every tensor to the nodes that read it."""
        found: dict[str, list[Node]] = {self.input: [], **{n.name: [] for n in self.nodes}}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                found[name].append(node)
        return found

    def problems(self) -> Iterator[str]:
        """Yield what is malformed: every node must follow its inputs and have a shape."""
        made = {self.input}
        for node in self.nodes:
            for name in node.inputs:
                if name not in made:
                    yield f"{node.name} reads {name}, which no node before it makes"
            if node.name in made:
                yield f"{node.name} is made twice"
            if node.name not in self.shapes:
                yield f"{node.name} has no shape"
            made.add(node.name)
        for name in self.outputs:
            if name not in made:
                yield f"output {name} is made by no node"

    def channels(self, tensor: str) -> int:
        """Return the number of channels of a tensor [1, channels, ...]."""
        shape = self.shapes[tensor]
        return shape[1] if len(shape) > 1 else 1


def picture_shape(shape: tuple[int, ...]) -> tuple[int, int, int, int] | None:
    """Return the int8 shape of a float tensor: [1, c, h, w], or [1, k, 1, 1] for [1, k]."""
    if len(shape) == 4 and shape[0] == 1:
        return (1, shape[1], shape[2], shape[3])
    if len(shape) == 2 and shape[0] == 1:
        return (1, shape[1], 1, 1)
    return None


def as_channels(constant: NDArray[Any], shape: tuple[int, ...]) -> Float | None:
    """Return a constant that differs at most by channel over ``shape`` as float64[channels]."""
    channels = shape[1]
    array = np.asarray(constant, np.float64)
    if array.size == 1 or (array.size and bool((array == array.flat[0]).all())):
        return np.full(channels, float(array.flat[0]))
    if array.ndim > len(shape):
        return None
    full = array.reshape((1,) * (len(shape) - array.ndim) + array.shape)
    first = full[(slice(None), slice(None)) + (slice(1),) * (len(shape) - 2)]
    if first.shape[:2] != (1, channels) or not bool((full == first).all()):
        return None
    return first.reshape(channels)
