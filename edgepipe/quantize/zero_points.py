"""Which int8 tensors may have a zero point, so that one-sided values use all 256 steps.

A convolution folds the zero point of its input into its bias: ``sum(w * (q - zero))`` is
``sum(w * q) - zero * sum(w)``. So neither device computes anything else. Padding is in the way: its
zeros would stand for another value. (Mean logit cosine, 2026-11, with one scale for all channels of
a function: PP-LCNet 0.944 without and 0.980 with zero points, MobileNetV2 0.9907 and 0.9918.)
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from edgepipe.quantize.graph import (
    ConvNode,
    Graph,
    LengthNode,
    Node,
    NormNode,
    ProductNode,
    SoftmaxNode,
    SumNode,
    TableNode,
)

# A zero point is worth its place in the bias if the step becomes at most this share.
MOST_ASYMMETRIC = 0.9


def may_have_zero(graph: Graph, fixed: Container[str]) -> frozenset[str]:
    """Return the tensors whose readers are all convolutions without padding.

    ``fixed`` are tensors with steps that must not change.
    """
    users = graph.users()
    return frozenset(
        node.name
        for node in graph.nodes
        if node.name not in fixed
        and node.name not in graph.outputs
        and _absorbed(node.name, users)
        and (isinstance(node, TableNode) or _is_one_sided(node))
    )


def _absorbed(tensor: str, users: Mapping[str, Sequence[Node]]) -> bool:
    """Return whether everything that reads ``tensor`` can fold its zero point into a bias."""
    return bool(users[tensor]) and all(
        isinstance(user, ConvNode)
        and not user.transposed
        and all(tensor != residual for residual, _ in user.residuals)
        and (user.input != tensor or not any(user.padding))
        for user in users[tensor]
    )


def _is_one_sided(node: Node) -> bool:
    """Return whether no value is below zero: lengths, shares, and results of most activations.

    An activation with a slope needs its zero in the middle.
    """
    return isinstance(node, LengthNode | SoftmaxNode) or (
        isinstance(node, ConvNode | SumNode | ProductNode | NormNode)
        and node.activation.low >= 0
        and node.activation.slope == 1.0
    )
