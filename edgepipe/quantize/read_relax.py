"""Read a float Relax module as a graph in which nothing is recognised yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from edgepipe.quantize.graph import FloatNode, Graph
from edgepipe.tvm_adapter import Main


@dataclass(frozen=True, slots=True)
class ReadRelax:
    """Turn every binding into a FloatNode.

    before   y = nn.conv2d(x, const); z = nn.relu(y)
    after    FloatNode y, FloatNode z
    """

    def requires(self, before: Main) -> Iterator[str]:
        """One parameter: the picture."""
        if len(before.params) != 1:
            yield f"main has {len(before.params)} parameters, expected one"

    def apply(self, before: Main) -> Graph:
        """Return a graph with a FloatNode for each binding, in order."""
        shapes = {param.name: param.shape for param in before.params}
        shapes |= {binding.name: binding.shape for binding in before.bindings}
        return Graph(
            input=before.params[0].name,
            nodes=tuple(FloatNode(name=b.name, binding=b) for b in before.bindings),
            outputs=before.outputs,
            shapes=shapes,
        )

    def ensures(self, before: Main, after: Graph) -> Iterator[str]:
        """Every binding is a node, in the same order."""
        if [node.name for node in after.nodes] != [binding.name for binding in before.bindings]:
            yield "the nodes are not the bindings of main"
