"""Which operators the VTA can run, by the tables of rules and by its compiler."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence

from edgepipe.errors import LayerError
from edgepipe.frontend.network import Network
from edgepipe.partition.folding import vta_layer
from edgepipe.partition.operator import Operator
from edgepipe.partition.rules.book import RuleBook
from edgepipe.partition.rules.facts import OperatorFacts
from edgepipe.partition.rules.rule import RuleSet
from vta_stages.accelerator import Accelerator
from vta_stages.compiler import check_layer
from vta_stages.layers.records import Layer
from vta_stages.timing.cost_model import CostModel


class VtaCheck:
    """Raises ``LayerError`` for operators that the VTA cannot run; ``placement.place`` calls it.

    ``operators`` are those of the whole module in order; ``reasons`` are the quantiser's, by tensor
    (see ``QuantizedNetwork``). ``cycles`` has the expected cycles on the VTA of the operators
    checked so far, by name. ``rules`` are the tables that ``book`` consults, by default the
    package's.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        network: Network,
        operators: Sequence[Operator],
        reasons: Mapping[str, str],
        cost: CostModel | None = None,
        rules: Sequence[RuleSet] | None = None,
    ) -> None:
        self.cycles: dict[str, float] = {}
        self.operators = operators
        self.accelerator, self._cost = accelerator, cost
        self._types, self._reasons, self._rules = _onnx_types(network), reasons, rules
        self.book = self._book()

    def __call__(self, operator: Operator) -> None:
        """Raise ``LayerError`` with the reason, in one line, if ``operator`` needs the CPU."""
        if operator.name not in self.cycles:
            self.book.require(operator, "vta")

    def of(self, operators: Sequence[Operator], changed: Collection[str]) -> VtaCheck:
        """Return the same check for ``operators``, of which only those named in ``changed`` differ.

        What this one knows about the cycles of the others stays.
        """
        made = copy.copy(self)
        made.operators = operators
        made.cycles = {name: c for name, c in self.cycles.items() if name not in changed}
        made.book = made._book()
        return made

    def _book(self) -> RuleBook:
        facts = OperatorFacts(self.operators, self._types, self._reasons, self.accelerator)
        return RuleBook(facts, self._rules, {"vta_program": self._check_program})

    def runs_on(self, operator: Operator, device: str) -> bool:
        """Return whether a device, "arm" or "vta", can run an operator on its own."""
        if device == "arm":
            return self.book.allows(operator, "arm")
        try:
            self(operator)
        except LayerError:
            return False
        return True

    def _check_program(self, operator: Operator) -> None:
        layer = vta_layer(operator)
        if layer is not None:
            self.cycles[operator.name] = self.layer_cycles(layer)

    def layer_cycles(self, layer: Layer) -> float:
        """Return the expected cycles of a layer on the VTA; raise ``LayerError`` if it cannot."""
        return check_layer(self.accelerator, layer, self._cost)


def _onnx_types(network: Network) -> Mapping[str, str]:
    made_by = {
        value: node.op_type for node in network.onnx_model.graph.node for value in node.output
    }
    return {name: made_by[value] for name, value in network.values.items() if value in made_by}
