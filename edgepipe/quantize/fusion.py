"""Fuse sums, factors and activations with the operator whose result they use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgepipe.quantize.graph import (
    IDENTITY,
    Activation,
    ConvNode,
    Graph,
    Node,
    NormNode,
    PixelNode,
    ProductNode,
    ProjectionPart,
    SumNode,
)

_OPEN = (ConvNode, SumNode, ProductNode, NormNode)


@dataclass(frozen=True, slots=True)
class Fuse:
    """Give convolutions, sums, products and normalisations the factors and so on that follow them.

    before   ConvNode c; SumNode f = c * const + const; SumNode r = f + x; SumNode y = relu(r)
    after    ConvNode y, with other weights and bias, a residual x and an activation

    A node is open, and can absorb more, while it has no activation and only one node reads it. A
    normalisation absorbs neither a second tensor nor a slope.
    """

    def requires(self, before: Graph) -> Iterator[str]:
        """Nothing is fused yet."""
        for node in before.nodes:
            if isinstance(node, ConvNode) and (
                node.residuals or node.projections or node.activation != IDENTITY
            ):
                yield f"convolution {node.name} is fused already"
            if isinstance(node, ProductNode) and (node.residuals or node.activation != IDENTITY):
                yield f"product {node.name} is fused already"
            if isinstance(node, SumNode) and _is_fused(node):
                yield f"sum {node.name} is fused already"

    def apply(self, before: Graph) -> Graph:
        """Return the graph with its sums fused; nodes keep their order."""
        fusing = _Fusing(before.shapes, _read_once(before))
        with np.errstate(all="ignore"):  # calibration refuses what is not finite
            for node in before.nodes:
                fusing.add(node)
        return replace(before, nodes=tuple(fusing.nodes.values()))

    def ensures(self, before: Graph, after: Graph) -> Iterator[str]:
        """The same outputs, and no remaining sum that an open node could have absorbed."""
        if after.outputs != before.outputs:
            yield f"the outputs are {after.outputs}, expected {before.outputs}"
        made = {node.name: node for node in after.nodes}
        read_once = _read_once(before)
        for node in after.nodes:
            for name in node.inputs if isinstance(node, SumNode) else ():
                if name in read_once and _absorbs(made.get(name), node):
                    yield f"sum {node.name} is not fused with {name}"


class _Fusing:
    """The graph so far: ``nodes`` by output tensor, without those that others have absorbed."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], read_once: set[str]) -> None:
        self.nodes: dict[str, Node] = {}
        self._shapes = shapes
        self._read_once = read_once

    def add(self, node: Node) -> None:
        """Append ``node``, fused with those before it."""
        if isinstance(node, SumNode):
            if len(node.terms) == 2:
                node = self._sum(node)
            elif node.activation != IDENTITY:
                node = self._activated(node)
            else:
                ((tensor, factor),) = node.terms
                node = self._affine(node.name, tensor, factor, node.bias)
        self.nodes[node.name] = node

    def _affine(
        self, name: str, tensor: str, factor: Any, bias: Any
    ) -> ConvNode | SumNode | ProductNode | NormNode:
        """Return ``tensor * factor + bias``, both float64[channels], by the open node before it."""
        channels = self._shapes[name][1]
        node = self._open(tensor)
        if isinstance(node, ConvNode):
            del self.nodes[tensor]
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
        if isinstance(node, NormNode):
            del self.nodes[tensor]
            factors, biases = node.factor * factor, node.bias * factor + bias
            return replace(node, name=name, factor=factors, bias=biases)
        if isinstance(node, ProductNode):
            del self.nodes[tensor]
            return replace(
                node,
                name=name,
                factor=node.factor * factor,
                bias=node.bias * factor + bias,
                residuals=tuple((t, f * factor) for t, f in node.residuals),
            )
        if isinstance(node, SumNode):
            del self.nodes[tensor]
            terms = tuple((t, f * factor) for t, f in node.terms)
            return replace(node, name=name, terms=terms, bias=node.bias * factor + bias)
        return SumNode(name=name, terms=((tensor, factor),), bias=np.zeros(channels) + bias)

    def _sum(self, node: SumNode) -> ConvNode | SumNode | ProductNode:
        """Return the sum of two tensors.

        The larger open convolution absorbs the other tensor, or else an open product does.
        """
        operands = node.terms
        convs = [
            (int(made.weight[0].size), -index)
            for index, (tensor, _) in enumerate(operands)
            if isinstance(made := self._open(tensor), ConvNode)
        ]
        if convs:
            chosen = -max(convs)[1]
            tensor, factor = operands[chosen]
            other = operands[1 - chosen]
            conv = self._affine(node.name, tensor, factor, 0.0)
            assert isinstance(conv, ConvNode)
            projected = self._open(other[0])
            if isinstance(projected, ConvNode) and projected.is_projection and not conv.transposed:
                return self._project(conv, projected, other[1])
            return replace(conv, residuals=(*conv.residuals, other))
        for index, (tensor, factor) in enumerate(operands):
            if isinstance(self._open(tensor), ProductNode):
                product = self._affine(node.name, tensor, factor, 0.0)
                assert isinstance(product, ProductNode)
                other = operands[1 - index]
                return replace(product, residuals=(*product.residuals, other))
        terms: list[tuple[str, Any]] = []
        bias = np.zeros(node.bias.size)
        for tensor, factor in operands:
            open_sum = self._open(tensor)
            if isinstance(open_sum, SumNode):
                del self.nodes[tensor]
                terms += [(t, f * factor) for t, f in open_sum.terms]
                bias = bias + open_sum.bias * factor
            else:
                terms.append((tensor, factor))
        return SumNode(name=node.name, terms=tuple(terms), bias=bias)

    def _activated(self, node: SumNode) -> Node:
        """Return the activation of a tensor, merged with that of the node before it if possible."""
        ((tensor, _),) = node.terms
        before = self.nodes.get(tensor)
        slopes = node.activation.slope != 1.0 and isinstance(before, NormNode)
        if isinstance(before, (*_OPEN, PixelNode)) and tensor in self._read_once and not slopes:
            joined = _joined(before.activation, node.activation)
            if joined is not None:
                del self.nodes[tensor]
                return replace(before, name=node.name, activation=joined)
        return node

    def _open(self, tensor: str) -> ConvNode | SumNode | ProductNode | NormNode | None:
        """Return the node that computes ``tensor`` if it can absorb more."""
        node = self.nodes.get(tensor)
        if not isinstance(node, _OPEN) or tensor not in self._read_once:
            return None
        return node if _is_open(node) else None

    def _project(self, conv: ConvNode, projected: ConvNode, factor: Any) -> ConvNode:
        """Let a convolution compute a 1x1 convolution in the same accumulator."""
        del self.nodes[projected.name]
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


def _read_once(graph: Graph) -> set[str]:
    """Return the tensors that one node reads and the network does not return."""
    users = graph.users()
    return {name for name, read in users.items() if len(read) == 1 and name not in graph.outputs}


def _is_open(node: Node | None) -> bool:
    return isinstance(node, _OPEN) and node.activation == IDENTITY


def _absorbs(before: Node | None, node: Node) -> bool:
    """Return whether the node before a sum could have absorbed it."""
    assert isinstance(node, SumNode)
    if isinstance(before, NormNode) and (len(node.terms) > 1 or node.activation.slope != 1.0):
        return False
    return _is_open(before)


def _is_fused(node: SumNode) -> bool:
    """Tell a fused sum from a single call: two terms, a factor and a constant, or an activation."""
    if node.activation == IDENTITY:
        return len(node.terms) > 2 or (len(node.terms) == 2 and bool(node.bias.any()))
    return len(node.terms) > 1 or bool(node.bias.any()) or bool((node.terms[0][1] != 1.0).any())


def _joined(first: Activation, second: Activation) -> Activation | None:
    """Return one activation that equals ``first`` followed by ``second``; None if there is none."""
    if second.slope != 1.0:
        return second if first == IDENTITY else None
    low, high = max(first.low, second.low), min(first.high, second.high)
    if second.low > first.high or second.high < first.low:
        return None
    return Activation(low=low, high=high, slope=first.slope)
