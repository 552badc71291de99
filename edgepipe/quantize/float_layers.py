"""The layers that the user leaves in floating point, as the calls that they consist of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgepipe.errors import QuantizeError
from edgepipe.names import printable, suggest
from edgepipe.quantize.graph import Graph, Node, TableNode, is_integer
from edgepipe.tvm_adapter import Main

REASON = "requested"
BETWEEN = ".."
"""Stands between the first and the last layer of a region."""

OPTION = "float_layers"
"""The ``option`` of errors about the names that were given, not about the network."""

_INT8_FORM = ".int8"


def calls_of(layers: Sequence[str], graph: Graph, main: Main) -> dict[str, str]:
    """Return the calls of ``main`` that make up ``layers``, with the reason why they stay float.

    ``graph`` is the network when all of its layers are int8. A layer is named after its last call,
    or after the int8 form of that. ``FIRST..LAST`` is a region: both layers, and every layer that
    depends on the first and that the last depends on. A layer's other calls are found by walking
    back to the tensors that other nodes of ``graph`` make. Raises ``QuantizeError`` for a name that
    is not one of a layer, and for a region whose last layer does not depend on its first.
    """
    nodes = {node.name: node for node in graph.nodes}
    bindings = {binding.name: binding for binding in main.bindings}
    found: dict[str, str] = {}
    for layer in layers:
        for node in _members(layer, nodes):
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


def _members(layer: str, nodes: Mapping[str, Node]) -> list[Node]:
    """Return the layer of a name, or those of a region, in the order of ``nodes``."""
    if _known(layer, nodes) is not None or BETWEEN not in layer:
        return [_node(layer, nodes)]
    first, last = (_node(name, nodes) for name in _ends(layer, nodes))
    later = {first.name}
    for node in nodes.values():
        if not later.isdisjoint(node.inputs):
            later.add(node.name)
    if last.name not in later:
        raise QuantizeError(
            f"layers {printable(layer)}: {printable(last.name)} does not depend on "
            f"{printable(first.name)}, expected a region from a layer to one that does",
            hint="name the layer nearest to the network's input first",
            option=OPTION,
        )
    needed = {last.name}
    for node in reversed(list(nodes.values())):
        if node.name in needed and node.name in later:
            needed.update(name for name in node.inputs if name in later)
    return [node for node in nodes.values() if node.name in needed and _computes(node)]


def _ends(region: str, nodes: Mapping[str, Node]) -> tuple[str, str]:
    """Return the two names of a region; names themselves may have dots."""
    places = [place for place in range(len(region)) if region.startswith(BETWEEN, place)]
    pairs = [(region[:place], region[place + len(BETWEEN) :]) for place in places]
    known = [pair for pair in pairs if all(_known(name, nodes) for name in pair)]
    return (known or pairs)[0]


def _known(layer: str, nodes: Mapping[str, Node]) -> Node | None:
    return nodes.get(layer) or nodes.get(layer.removesuffix(_INT8_FORM))


def _node(layer: str, nodes: Mapping[str, Node]) -> Node:
    node = _known(layer, nodes)
    if node is None:
        computing = [node.name for node in nodes.values() if _computes(node)]
        raise QuantizeError(
            f"layer {printable(layer)}: is unknown, so it cannot stay float",
            hint=suggest(layer, computing),
            option=OPTION,
        )
    if not _computes(node):
        why = node.reason or "it moves values without computing"
        raise QuantizeError(
            f"layer {printable(layer)}: {why}, expected one that computes in int8",
            hint="leave it out of the layers that stay float",
            option=OPTION,
        )
    return node


def _computes(node: Node) -> bool:
    return is_integer(node) or isinstance(node, TableNode)
