"""The layers that a user names one by one or as regions ``FIRST..LAST``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgepipe.errors import QuantizeError
from edgepipe.names import printable, suggest
from edgepipe.quantize.graph import Node, TableNode, is_integer

BETWEEN = ".."
"""Stands between the first and the last layer of a region."""

_FORMS = (".int8", ".int16")  # what the quantiser adds to the name of a layer


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerNames:
    """Finds named layers among ``nodes``, which map names to nodes in topological order.

    ``wish`` says what the layers are to be, as "stay float", ``kept`` names those that are, as
    "layers that stay float", and ``option`` is the ``option`` of errors about the names.
    """

    nodes: Mapping[str, Node]
    wish: str
    kept: str
    option: str

    def members(self, layer: str) -> list[Node]:
        """Return the layer of a name, or those of a region, in the order of ``nodes``.

        A layer is named after its last call, or after a form of its result. Raises
        ``QuantizeError`` for a name that is not one of a layer, and for a region whose last layer
        does not depend on its first.
        """
        if self._known(layer) is not None or BETWEEN not in layer:
            return [self._node(layer)]
        first, last = (self._node(name) for name in self._ends(layer))
        later = {first.name}
        for node in self.nodes.values():
            if not later.isdisjoint(node.inputs):
                later.add(node.name)
        if last.name not in later:
            raise QuantizeError(
                f"layers {printable(layer)}: {printable(last.name)} does not depend on "
                f"{printable(first.name)}, expected a region from a layer to one that does",
                hint="name the layer nearest to the network's input first",
                option=self.option,
            )
        needed = {last.name}
        for node in reversed(list(self.nodes.values())):
            if node.name in needed and node.name in later:
                needed.update(name for name in node.inputs if name in later)
        return [node for node in self.nodes.values() if node.name in needed and _computes(node)]

    def _ends(self, region: str) -> tuple[str, str]:
        """Return the two names of a region; names themselves may have dots."""
        places = [place for place in range(len(region)) if region.startswith(BETWEEN, place)]
        pairs = [(region[:place], region[place + len(BETWEEN) :]) for place in places]
        known = [pair for pair in pairs if all(self._known(name) for name in pair)]
        return (known or pairs)[0]

    def _known(self, layer: str) -> Node | None:
        names = (layer, *(layer.removesuffix(form) for form in _FORMS))
        return next((self.nodes[name] for name in names if name in self.nodes), None)

    def _node(self, layer: str) -> Node:
        node = self._known(layer)
        if node is None:
            computing = [node.name for node in self.nodes.values() if _computes(node)]
            raise QuantizeError(
                f"layer {printable(layer)}: is unknown, so it cannot {self.wish}",
                hint=suggest(layer, computing),
                option=self.option,
            )
        if not _computes(node):
            why = node.reason or "it moves values without computing"
            raise QuantizeError(
                f"layer {printable(layer)}: {why}, expected one that computes in int8",
                hint=f"leave it out of the {self.kept}",
                option=self.option,
            )
        return node


def _computes(node: Node) -> bool:
    return is_integer(node) or isinstance(node, TableNode)
