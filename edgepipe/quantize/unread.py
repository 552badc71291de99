"""Remove nodes that nothing reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from edgepipe.quantize.graph import Graph, Node


@dataclass(frozen=True, slots=True)
class RemoveUnread:
    """Keep only what the outputs depend on.

    before   MoveNode flat(x); ConvNode y(x), which reads x where it used to read flat; output y
    after    ConvNode y(x); output y
    """

    def requires(self, before: Graph) -> Iterator[str]:
        """Nothing but a well-formed graph."""
        return iter(())

    def apply(self, before: Graph) -> Graph:
        """Return the graph without the nodes that no output depends on."""
        needed = set(before.outputs)
        kept: list[Node] = []
        for node in reversed(before.nodes):
            if node.name in needed:
                needed.update(node.inputs)
                kept.append(node)
        return replace(before, nodes=tuple(reversed(kept)))

    def ensures(self, before: Graph, after: Graph) -> Iterator[str]:
        """Every node is read or is an output; the outputs are the same."""
        users = after.users()
        for node in after.nodes:
            if not users[node.name] and node.name not in after.outputs:
                yield f"nothing reads {node.name}"
        if after.outputs != before.outputs:
            yield f"the outputs are {after.outputs}, expected {before.outputs}"
