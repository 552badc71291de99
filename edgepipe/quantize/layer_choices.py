"""Which layers can have which choices of their own, and why others cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from edgepipe.errors import QuantizeError
from edgepipe.frontend.network import Network
from edgepipe.names import printable, suggest
from edgepipe.quantize.graph import ConvNode, Graph, Node, TableNode
from edgepipe.quantize.options import LayerOptions
from edgepipe.quantize.ranges import is_equalised, needed_ranges
from edgepipe.quantize.second_moments import is_measurable

_LEAVE_OUT = "leave the key out"


def check(
    layers: Mapping[str, LayerOptions], graph: Graph, network: Network, where: str = ""
) -> None:
    """Raise ``QuantizeError`` for a layer that is unknown, and for a choice without an effect.

    ``graph`` is the network when all of its layers are int8, and ``where`` names the scheme.
    """
    known = _Known(graph, network)
    for name, layer in layers.items():
        what = f"{where}: layer {printable(name)}" if where else f"layer {printable(name)}"
        if name not in known.nodes:
            raise QuantizeError(f"{what} is unknown", hint=suggest(name, known.names))
        for option in layer.choices:
            key = "threshold_rule" if option == "threshold" else option
            problem = _PROBLEMS[option](known, name, layer)
            if problem:
                raise QuantizeError(f"{what}: {key}: {problem}", hint=_LEAVE_OUT)


class _Known:
    """A network's layers."""

    def __init__(self, graph: Graph, network: Network) -> None:
        self.nodes: dict[str, Node] = {node.name: node for node in graph.nodes}
        self._graph = graph
        self._network = network
        self._users = graph.users()
        tables = (name for name, node in self.nodes.items() if isinstance(node, TableNode))
        own_steps = (*needed_ranges(graph), *tables)
        self._own_steps = {name for name in own_steps if name in network.values}

    @property
    def names(self) -> list[str]:
        """The layers that can have choices of their own."""
        return [
            name
            for name, node in self.nodes.items()
            if name in self._own_steps or isinstance(node, ConvNode)
        ]

    def threshold(self, name: str, _: LayerOptions) -> str:
        """Return why the layer has no threshold; empty if it has one."""
        if name in self._network.given:
            return "the ONNX file gives the range of its result"
        if name not in self._own_steps:
            return "the steps of its result follow from what it reads"
        return ""

    def equalise(self, name: str, _: LayerOptions) -> str:
        """Return why nothing is equalised in the layer's result; empty if something is."""
        if name not in self._own_steps:
            return "the steps of its result follow from what it reads"
        if not is_equalised(name, self._users[name]):
            return (
                "has no effect there, expected a result that only convolutions, sums and functions "
                "read, and one convolution that is not depthwise"
            )
        return ""

    def bias_correction(self, name: str, _: LayerOptions) -> str:
        """Return why there is no bias to correct; empty if there is one."""
        node = self.nodes[name]
        if not isinstance(node, ConvNode):
            return "the layer has no weights"
        if not any(self._has_mean(tensor) for tensor in node.weighted_inputs):
            return "the mean of what the layer reads is not measured"
        return ""

    def _has_mean(self, tensor: str) -> bool:
        return tensor != self._graph.input and tensor in self._network.values

    def rounding(self, name: str, layer: LayerOptions) -> str:
        """Return why the layer's weights cannot be rounded so; empty if they can."""
        node = self.nodes[name]
        if not isinstance(node, ConvNode):
            return "the layer has no weights"
        if layer.rounding == "reconstruct" and not is_measurable(node, self._graph, self._network):
            return "the layer's weights can only be rounded to the nearest"
        return ""


_PROBLEMS: dict[str, Callable[[_Known, str, LayerOptions], str]] = {
    "threshold": _Known.threshold,
    "equalise": _Known.equalise,
    "bias_correction": _Known.bias_correction,
    "rounding": _Known.rounding,
}
