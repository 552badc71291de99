"""Read channels from where they were made, instead of from a pick between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from edgepipe.quantize.graph import Graph, Node, PickNode


@dataclass(frozen=True, slots=True)
class ComposePicks:
    """Make one pick of a pick of a pick.

    before   PickNode y = channels 0, 4, 1, 5, 2, 6, 3, 7 of x; PickNode z = channels 0 to 3 of y
    after    PickNode y = channels 0, 4, 1, 5, 2, 6, 3, 7 of x; PickNode z = channels 0, 4, 1, 5
             of x

    A channel shuffle before a split (ShuffleNet) is two picks then, and nothing reads the shuffle.
    """

    def requires(self, before: Graph) -> Iterator[str]:
        """Nothing but a well-formed graph."""
        return iter(())

    def apply(self, before: Graph) -> Graph:
        """Return the graph; the picks between stay for their other readers."""
        picks: dict[str, PickNode] = {}
        nodes: list[Node] = []
        for node in before.nodes:
            if not isinstance(node, PickNode):
                nodes.append(node)
                continue
            pick, first = node, picks.get(node.input)
            if first is not None:
                channels = tuple(first.channels[channel] for channel in pick.channels)
                pick = replace(pick, input=first.input, channels=channels)
            picks[pick.name] = pick
            nodes.append(pick)
        return replace(before, nodes=tuple(nodes))

    def ensures(self, before: Graph, after: Graph) -> Iterator[str]:
        """The same tensors; no pick reads a pick; the channels that are read exist."""
        if [node.name for node in after.nodes] != [node.name for node in before.nodes]:
            yield "the tensors are not the same as before"
        picks = {node.name: node for node in after.nodes if isinstance(node, PickNode)}
        for pick in picks.values():
            if pick.input in picks:
                yield f"{pick.name} reads {pick.input}, another pick"
            if len(pick.channels) != after.channels(pick.name):
                yield f"{pick.name} has {after.channels(pick.name)} channels"
            if not set(pick.channels) <= set(range(after.channels(pick.input))):
                yield f"{pick.name} reads channels that {pick.input} does not have"
