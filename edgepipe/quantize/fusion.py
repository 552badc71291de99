"""Join sums, factors and activations to the node that makes their tensor.

    conv2d, multiply const, add const, add residual, leakyrelu   ->   one ConvNode

A node is open for more while it has no activation and nothing else reads it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from edgepipe.quantize.graph import (
    IDENTITY,
    Activation,
    ConvNode,
    Node,
    ProjectionPart,
    SumNode,
)


class FusedNodes:
    """Makes nodes of a graph that is read in order, and removes those that they take in.

    ``nodes`` is the graph so far, by output tensor, ``single`` the tensors with one reader.
    """

    def __init__(
        self, nodes: dict[str, Node], shapes: dict[str, tuple[int, ...]], single: set[str]
    ) -> None:
        self._nodes = nodes
        self._shapes = shapes
        self._single = single

    def affine(self, name: str, tensor: str, factor: Any, bias: Any) -> Node:
        """Return ``tensor * factor + bias``, both per channel, joined to an open node before it."""
        channels = self._shapes[name][1]
        node = self._open(tensor)
        if isinstance(node, ConvNode):
            del self._nodes[tensor]
            if node.transposed:
                per_group = node.weight.shape[1]
                weight = node.weight.reshape(node.groups, -1, *node.weight.shape[1:])
                weight = weight * factor.reshape(node.groups, 1, per_group, 1, 1)
                weight = weight.reshape(node.weight.shape)
            else:
                weight = node.weight * factor.reshape(channels, 1, 1, 1)
            return replace(
                node,
                name=name,
                weight=weight,
                bias=node.bias * factor + bias,
                residuals=tuple((t, f * factor) for t, f in node.residuals),
                projections=tuple(
                    replace(p, weight=p.weight * np.reshape(factor, (-1, 1)))
                    for p in node.projections
                ),
            )
        if isinstance(node, SumNode):
            del self._nodes[tensor]
            terms = tuple((t, f * factor) for t, f in node.terms)
            return replace(node, name=name, terms=terms, bias=node.bias * factor + bias)
        return SumNode(name=name, terms=((tensor, factor),), bias=np.zeros(channels) + bias)

    def sum(self, name: str, first: str, second: str, sign: float) -> Node:
        """Return ``first + sign * second``: the heavier open convolution takes the other one in."""
        ones = np.ones(self._shapes[name][1])
        operands = ((first, ones), (second, sign * ones))
        convs = [
            (int(node.weight[0].size), -index)
            for index, (tensor, _) in enumerate(operands)
            if isinstance(node := self._open(tensor), ConvNode)
        ]
        if convs:
            chosen = -max(convs)[1]
            tensor, factor = operands[chosen]
            other = operands[1 - chosen]
            conv = self.affine(name, tensor, factor, 0.0)
            assert isinstance(conv, ConvNode)
            projected = self._open(other[0])
            if isinstance(projected, ConvNode) and projected.is_projection and not conv.transposed:
                return self._project(conv, projected, other[1])
            return replace(conv, residuals=(*conv.residuals, other))
        terms: list[tuple[str, Any]] = []
        bias = np.zeros(ones.size)
        for tensor, factor in operands:
            open_sum = self._open(tensor)
            if isinstance(open_sum, SumNode):
                del self._nodes[tensor]
                terms += [(t, f * factor) for t, f in open_sum.terms]
                bias = bias + open_sum.bias * factor
            else:
                terms.append((tensor, factor))
        return SumNode(name=name, terms=tuple(terms), bias=bias)

    def activated(self, name: str, tensor: str, wanted: Activation) -> Node:
        """Return ``wanted`` of a tensor, joined to the node before if one activation does both."""
        node = self._nodes.get(tensor)
        if isinstance(node, ConvNode | SumNode) and tensor in self._single:
            joined = _joined(node.activation, wanted)
            if joined is not None:
                del self._nodes[tensor]
                return replace(node, name=name, activation=joined)
        ones = np.ones(self._shapes[tensor][1])
        return SumNode(name=name, terms=((tensor, ones),), bias=0 * ones, activation=wanted)

    def _open(self, tensor: Any) -> ConvNode | SumNode | None:
        """Return the node that makes ``tensor`` if its tail may still grow."""
        node = self._nodes.get(tensor) if isinstance(tensor, str) else None
        if not isinstance(node, ConvNode | SumNode) or tensor not in self._single:
            return None
        return node if node.activation is IDENTITY else None

    def _project(self, conv: ConvNode, projected: ConvNode, factor: Any) -> ConvNode:
        """Take a 1x1 convolution into the accumulator of another one."""
        del self._nodes[projected.name]
        part = ProjectionPart(
            input=projected.input,
            weight=projected.weight[:, :, 0, 0] * factor[:, None],
            stride=projected.stride,
        )
        return replace(
            conv,
            bias=conv.bias + projected.bias * factor,
            projections=(*conv.projections, part),
        )


def _joined(first: Activation, second: Activation) -> Activation | None:
    """Return one activation that does ``first``, then ``second``; None if there is none."""
    if second.slope != 1.0:
        return second if first == IDENTITY else None
    low, high = max(first.low, second.low), min(first.high, second.high)
    if second.low > first.high or second.high < first.low:
        return None
    return Activation(low=low, high=high, slope=first.slope)
