"""The layers that the user wants in int16."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from edgepipe.errors import QuantizeError
from edgepipe.names import printable
from edgepipe.quantize.functions import evaluate
from edgepipe.quantize.graph import (
    AttentionNode,
    Graph,
    JoinNode,
    LengthNode,
    LinearAttentionNode,
    MatrixNode,
    Node,
    NormNode,
    PixelNode,
    ProductNode,
    SoftmaxNode,
    TableNode,
    is_integer,
)
from edgepipe.quantize.layer_names import LayerNames

OPTION = "int16_layers"
"""The ``option`` of errors about the names that were given, not about the network."""

REASON = "computed in int16: requested"

FLOAT_REASON = "requested in int16, computed between int16 tensors"
"""Why a layer stays float that has no form in int16."""

_ONLY_INT8 = (
    AttentionNode,
    JoinNode,
    LengthNode,
    LinearAttentionNode,
    MatrixNode,
    NormNode,
    PixelNode,
    SoftmaxNode,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Int16Request:
    """The nodes of a network that a user wants in int16.

    Those ``in_float`` have no form in int16: they read the int16 values of their neighbours, and
    compute in floating point, whose 24 bits lose nothing of those 16.
    """

    in_int16: frozenset[str] = frozenset()
    in_float: frozenset[str] = frozenset()


def requested(layers: Sequence[str], in_int8: Graph, graph: Graph) -> Int16Request:
    """Return the nodes that make up ``layers``; ``FIRST..LAST`` is a region.

    ``in_int8`` is the network before layers became float on request, ``graph`` that network
    afterwards. Raises ``QuantizeError`` as ``LayerNames`` does, and for a layer that is float.
    """
    names = LayerNames(
        nodes={node.name: node for node in in_int8.nodes},
        wish="be in int16",
        kept="layers in int16",
        option=OPTION,
    )
    computing = computing_nodes(graph)
    found = {node.name: node for layer in layers for node in names.members(layer)}
    for name in found:
        if name not in computing:
            raise QuantizeError(
                f"layer {printable(name)}: is to be both float and int16, expected one",
                hint="take it out of the float layers, or of those in int16",
                option=OPTION,
            )
    in_float = frozenset(name for name, node in found.items() if not _has_int16_form(node))
    return Int16Request(in_int16=frozenset(found) - in_float, in_float=in_float)


def computing_nodes(graph: Graph) -> frozenset[str]:
    """Return the nodes that are not float, and do more than move values."""
    return frozenset(n.name for n in graph.nodes if is_integer(n) or isinstance(n, TableNode))


def _has_int16_form(node: Node) -> bool:
    """Return whether a node can compute in int16.

    A function whose constants differ by channel cannot: it would need a table of 65,536 entries
    for each of them.
    """
    if isinstance(node, TableNode):
        return len(evaluate(node.bindings, node.input, np.zeros((1, 1)))) == 1
    return not isinstance(node, _ONLY_INT8) and not (isinstance(node, ProductNode) and node.divides)


def int16_reasons(nodes: Collection[str]) -> dict[str, str]:
    """Return why int16 layers run on the CPU, by both names that their result can have."""
    return {f"{node}{form}": REASON for node in nodes for form in ("", ".int16")}
