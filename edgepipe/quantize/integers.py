"""The integer network: operators on int8 tensors in order, before they are written as Relax.

An operator is a layer record of ``vta_stages.layers``, one of ``int16.records`` or
``normalising.records`` or ``on_arm.records``, or one of the classes below. ``name`` is the operator
and the tensor that it computes; a tensor has one form, int8, int16 or float32, under one name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgepipe.quantize.int16.records import WideOperation
from edgepipe.quantize.normalising.records import Length, Norm
from edgepipe.quantize.on_arm.records import ArmOperation
from edgepipe.tvm_adapter import Binding
from vta_stages.layers.inputs import layer_inputs
from vta_stages.layers.records import Int8Array, Layer, TensorSpec

Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InputTable:
    """``table[c, 256]`` at every byte of the frame uint8[1, h, w, c], as a picture [1, c, h, w].

    The table is int8, or int16 if int16 layers read the picture.
    """

    name: str
    frame: str
    table: NDArray[np.int8] | NDArray[np.int16] = field(repr=False)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that the operator reads."""
        return (self.frame,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unary:
    """An operator ``name`` on one tensor."""

    name: str
    tensor: str

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that the operator reads."""
        return (self.tensor,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ToInt8(Unary):
    """int8[1, c, h, w] = ``tensor / step``, rounded; ``shape`` is that picture's if it differs."""

    step: NDArray[np.float32]
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ToFloat(Unary):
    """float32 = ``tensor * step``, one step or one a channel; ``shape`` is the result's if it
    differs from the picture's."""

    step: NDArray[np.float32]
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lookup(Unary):
    """``table[c, 256]`` (int8 or float32, or one row for all channels) at every int8 value."""

    table: NDArray[np.int8] | NDArray[np.float32] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChannelPick(Unary):
    """Some channels of a float or int16 tensor [1, c, h, w]."""

    channels: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reshape(Unary):
    """The values of a tensor in another shape."""

    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Copied:
    """An unchanged call of the float network, whose inputs are renamed by ``renamed``."""

    name: str
    binding: Binding
    renamed: Mapping[str, str]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that the operator reads."""
        return tuple(self.renamed.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Int8Form:
    """The int8 form of a tensor: its name, its shape, and its scale, float64[channels] or [1].

    The real value of ``q`` is ``(q - zero) * scale``.
    """

    name: str
    shape: tuple[int, ...]
    scale: Float
    zero: int = 0

    @property
    def spec(self) -> TensorSpec:
        """The form, a picture [1, c, h, w], as layer records name it."""
        _, channels, height, width = self.shape
        return TensorSpec(name=self.name, channels=channels, height=height, width=width)

    @property
    def is_uniform(self) -> bool:
        """Return whether all channels have one scale."""
        return bool(np.all(self.scale == self.scale[0]))


@dataclass(frozen=True, slots=True)
class ConstantForm:
    """Constant matrices int8[..., n, d], with their one step as float64[1]."""

    values: Int8Array
    scale: Float

    @staticmethod
    def of(values: Float) -> ConstantForm:
        """Return float64[..., n, d] in int8; the largest magnitude is 127 steps."""
        scale = (float(np.abs(values).max()) or 1.0) / 127
        return ConstantForm(np.rint(values / scale).astype(np.int8), np.full(1, scale))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the constant."""
        return self.values.shape


Matrix = Int8Form | ConstantForm
"""What a product of matrices may read."""


def operand(matrix: Matrix) -> str | Int8Array:
    """Return what a call reads: a tensor by name, or a constant int8[..., n, d]."""
    return matrix.name if isinstance(matrix, Int8Form) else matrix.values


Operation = (
    Layer
    | WideOperation
    | Norm
    | Length
    | ArmOperation
    | InputTable
    | ToInt8
    | ToFloat
    | Lookup
    | ChannelPick
    | Reshape
    | Copied
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerNetwork:
    """Operators in an order in which each follows its inputs.

    ``input`` is the frame, uint8 of ``frame_shape``; ``outputs`` are the float network's, by name
    and shape. ``scales`` is the real value of one step of every int8 tensor, float64[channels];
    ``zeros`` are the zero points that are not 0. ``int16_scales`` is that of every int16 tensor.
    """

    input: str
    frame_shape: tuple[int, int, int, int]
    operations: tuple[Operation, ...] = field(repr=False)
    outputs: Mapping[str, tuple[int, ...]]
    scales: Mapping[str, Float] = field(repr=False)
    zeros: Mapping[str, int] = field(default_factory=dict, repr=False)
    int16_scales: Mapping[str, Float] = field(default_factory=dict, repr=False)

    def problems(self) -> Iterator[str]:
        """Yield what makes the network malformed: order, names, scales and shifts."""
        made = {self.input}
        for operation in self.operations:
            for name in _inputs(operation):
                if name not in made:
                    yield f"{operation.name} reads {name}, which no operator before it makes"
            if operation.name in made:
                yield f"{operation.name} is made twice"
            made.add(operation.name)
        for name in self.outputs:
            if name not in made:
                yield f"output {name} is made by no operator"
        for name, scale in (*self.scales.items(), *self.int16_scales.items()):
            if name not in made:
                yield f"{name} has a scale, but no operator makes it"
            if not np.isfinite(scale).all() or (scale <= 0).any():
                yield f"{name} has a scale that is not a positive number"
        for name in self.zeros:
            if name not in self.scales:
                yield f"{name} has a zero point, but no scale"


def _inputs(operation: Operation) -> tuple[str, ...]:
    """Return the tensors that an operator reads."""
    if isinstance(operation, Layer):
        return tuple(spec.name for spec in layer_inputs(operation))
    return operation.inputs
