"""The layers that the user leaves in floating point, as the calls that they consist of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgepipe.errors import QuantizeError
from edgepipe.names import printable, suggest
from edgepipe.quantize.graph import Graph, Node, TableNode, is_integer
from edgepipe.tvm_adapter import Main

REASON = "requested"
_INT8_FORM = ".int8"


def calls_of(layers: Sequence[str], graph: Graph, main: Main) -> dict[str, str]:
    """Return the calls of ``main`` that make up ``layers``, with the reason why they stay float.

    ``graph`` is the network when all of its layers are int8. A layer is named after its last call,
    or after the int8 form of that. Its other calls are found by walking back to the tensors that
    other nodes of ``graph`` make. Raises ``QuantizeError`` for a name that is not one of a layer.
    """
    nodes = {node.name: node for node in graph.nodes}
    bindings = {binding.name: binding for binding in main.bindings}
    found: dict[str, str] = {}
    for layer in layers:
        node = _node(layer, nodes)
        waiting = [node.name]
        if isinstance(node, TableNode):  # a step inside may be a table of its own for others
            waiting += [binding.name for binding in node.bindings]
        while waiting:
            name = waiting.pop()
            if name in found or name not in bindings:
                continue
            found[name] = REASON
            waiting += [tensor for tensor in bindings[name].inputs if tensor not in nodes]
    return found


def _node(layer: str, nodes: Mapping[str, Node]) -> Node:
    node = nodes.get(layer) or nodes.get(layer.removesuffix(_INT8_FORM))
    if node is None:
        computing = [node.name for node in nodes.values() if _computes(node)]
        raise QuantizeError(
            f"layer {printable(layer)}: is unknown, so it cannot stay float",
            hint=suggest(layer, computing),
        )
    if not _computes(node):
        why = node.reason or "it moves values without computing"
        raise QuantizeError(
            f"layer {printable(layer)}: {why}, expected one that computes in int8",
            hint="leave it out of the layers that stay float",
        )
    return node


def _computes(node: Node) -> bool:
    return is_integer(node) or isinstance(node, TableNode)
