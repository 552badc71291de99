"""The layers that the user leaves in floating point, as the calls that they consist of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from edgepipe.quantize.graph import Graph, TableNode
from edgepipe.quantize.layer_names import LayerNames
from edgepipe.tvm_adapter import Main

REASON = "requested"

OPTION = "float_layers"
"""The ``option`` of errors about the names that were given, not about the network."""


def requested(layers: Iterable[str]) -> dict[str, str]:
    """Return why ``layers`` stay float."""
    return dict.fromkeys(layers, REASON)


def calls_of(layers: Mapping[str, str], graph: Graph, main: Main) -> dict[str, str]:
    """Return the calls of ``main`` that make up ``layers``, with the reason why they stay float.

    ``layers`` maps names to that reason. ``graph`` is the network when all of its layers are int8.
    ``FIRST..LAST`` is a region: both layers, and every layer that depends on the first and that the
    last depends on. A layer's other calls are found by walking back to the tensors that other nodes
    of ``graph`` make. Raises ``QuantizeError`` as ``LayerNames`` does.
    """
    nodes = {node.name: node for node in graph.nodes}
    names = LayerNames(nodes=nodes, wish="stay float", kept="layers that stay float", option=OPTION)
    bindings = {binding.name: binding for binding in main.bindings}
    found: dict[str, str] = {}
    for layer, reason in layers.items():
        for node in names.members(layer):
            waiting = [node.name]
            if isinstance(node, TableNode):  # a step inside may be a table of its own for others
                waiting += [binding.name for binding in node.bindings]
            while waiting:
                name = waiting.pop()
                if name in found or name not in bindings:
                    continue
                found[name] = reason
                waiting += [tensor for tensor in bindings[name].inputs if tensor not in nodes]
    return found
