"""A call of the float network as a rule sees it: its arguments and its context."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgepipe.quantize.graph import (
    FloatNode,
    MoveNode,
    Node,
    PickNode,
    TableNode,
    picture_shape,
)
from edgepipe.tvm_adapter import Argument, Binding

NO_PICTURE = "its input is not a picture [1, c, h, w]"


@dataclass(frozen=True, slots=True)
class Call:
    """A binding, the shapes of all tensors, and the nodes before it by their output tensors.

    ``bindings`` are the calls before it that are no part of a node yet, by the same names.
    ``scores`` are the products that a softmax or a divisor depends on.
    """

    binding: Binding
    shapes: Mapping[str, tuple[int, ...]]
    nodes: Mapping[str, Node]
    bindings: Mapping[str, Binding] = field(default_factory=dict)
    scores: Container[str] = ()

    @property
    def name(self) -> str:
        """The tensor that the call computes."""
        return self.binding.name

    @property
    def op(self) -> str:
        """The Relax operator, e.g. ``nn.conv2d``."""
        return self.binding.op

    @property
    def args(self) -> tuple[Argument, ...]:
        """Tensors by name, constants as arrays, scalars."""
        return self.binding.args

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes of the Relax operator."""
        return self.binding.attributes

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor that the call computes."""
        return self.binding.shape

    def is_picture(self, *tensors: object) -> bool:
        """Return whether all arguments are tensors [1, c, h, w] or [1, k]."""
        return all(
            isinstance(t, str) and picture_shape(self.shapes[t]) is not None for t in tensors
        )

    def is_float(self, *tensors: str) -> bool:
        """Return whether any of the tensors is made by a call that stays float."""
        return any(self._is_float(tensor) for tensor in tensors)

    def _is_float(self, tensor: str) -> bool:
        node = self.nodes.get(tensor)
        while isinstance(node, MoveNode | PickNode | TableNode):
            node = self.nodes.get(node.input)
        return isinstance(node, FloatNode)
