"""The layers that the user wants in int16."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from edgepipe.errors import QuantizeError
from edgepipe.names import printable
from edgepipe.quantize.graph import (
    AttentionNode,
    Graph,
    LengthNode,
    MatrixNode,
    Node,
    NormNode,
    SoftmaxNode,
    TableNode,
    is_integer,
)
from edgepipe.quantize.layer_names import LayerNames

OPTION = "int16_layers"
"""The ``option`` of errors about the names that were given, not about the network."""

FLOAT_OPTION = "float_layer"
"""The ``option`` of errors whose remedy is to leave a layer in floating point."""

REASON = "computed in int16: requested"

_ONLY_INT8: dict[type[Node], str] = {
    AttentionNode: "mean by attention",
    LengthNode: "length",
    MatrixNode: "product of matrices",
    NormNode: "normalisation",
    SoftmaxNode: "softmax",
}


def int16_nodes(layers: Sequence[str], in_int8: Graph, graph: Graph) -> frozenset[str]:
    """Return the nodes of ``graph`` that make up ``layers``; ``FIRST..LAST`` is a region.

    ``in_int8`` is the network before layers became float on request. A normalisation, length or
    softmax inside a region stays int8. Raises ``QuantizeError`` as ``LayerNames`` does, for a layer
    that is float, and for a normalisation, length or softmax.
    """
    names = LayerNames(
        nodes={node.name: node for node in in_int8.nodes},
        wish="be in int16",
        kept="layers in int16",
        option=OPTION,
    )
    computing = {n.name for n in graph.nodes if is_integer(n) or isinstance(n, TableNode)}
    found: set[str] = set()
    for layer in layers:
        members = names.members(layer)
        for node in members:
            what = _ONLY_INT8.get(type(node), "")
            if what and len(members) > 1:
                continue
            if what:
                raise QuantizeError(
                    f"layer {printable(node.name)}: is a {what}, which has no int16 form",
                    hint="leave it in floating point",
                    option=FLOAT_OPTION,
                    value=node.name,
                )
            if node.name not in computing:
                raise QuantizeError(
                    f"layer {printable(node.name)}: is to be both float and int16, expected one",
                    hint="take it out of the float layers, or of those in int16",
                    option=OPTION,
                )
            found.add(node.name)
    return frozenset(found)


def int16_reasons(nodes: Collection[str]) -> dict[str, str]:
    """Return why int16 layers run on the CPU, by both names that their result can have."""
    return {f"{node}{form}": REASON for node in nodes for form in ("", ".int16")}
