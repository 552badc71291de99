"""Which operators the VTA can run, by the tables of rules and by its compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgepipe.errors import LayerError
from edgepipe.frontend.network import Network
from edgepipe.partition.folding import vta_layer
from edgepipe.partition.operator import Operator
from edgepipe.partition.rules.book import RuleBook
from edgepipe.partition.rules.facts import OperatorFacts
from edgepipe.partition.rules.rule import RuleSet
from vta_stages.accelerator import Accelerator
from vta_stages.compiler import check_layer
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
        self._accelerator, self._cost = accelerator, cost
        facts = OperatorFacts(operators, _onnx_types(network), reasons)
        self.book = RuleBook(facts, rules, {"vta_program": self._check_program})

    def __call__(self, operator: Operator) -> None:
        """Raise ``LayerError`` with the reason, in one line, if ``operator`` needs the CPU."""
        if operator.name not in self.cycles:
            self.book.require(operator, "vta")

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
            self.cycles[operator.name] = check_layer(self._accelerator, layer, self._cost)


def _onnx_types(network: Network) -> Mapping[str, str]:
    made_by = {
        value: node.op_type for node in network.onnx_model.graph.node for value in node.output
    }
    return {name: made_by[value] for name, value in network.values.items() if value in made_by}
