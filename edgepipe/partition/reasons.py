"""Why an operator runs on ARM: the accelerator refuses it, or the network requires it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgepipe.errors import LayerError
from edgepipe.frontend.network import Network
from edgepipe.partition.operator import Operator
from edgepipe.partition.operators import PART
from vta_stages.accelerator import Accelerator
from vta_stages.compiler import check_layer
from vta_stages.layers.records import Layer, Pick, PixelAffine, Product, Quotient, Table
from vta_stages.timing.cost_model import CostModel

# Calls that only move or retype values: at the end of a network they bring results into the form
# that the application reads.
LAYOUT_CALLS = frozenset(
    [
        "astype",
        "concat",
        "multiply",
        "permute_dims",
        "reshape",
        "split",
        "squeeze",
        "strided_slice",
        "take",
    ]
)

# Layers that have an integer form, but none on the VTA.
_ON_ARM: Mapping[type[Layer], str] = {
    Table: "values are looked up in a table on arm",
    Product: "tensors are multiplied on arm",
    Quotient: "tensors are divided on arm",
    PixelAffine: "constants for each pixel are applied on arm",
}


class VtaCheck:
    """Raises ``LayerError`` for operators that the VTA cannot run; ``placement.place`` calls it.

    ``operators`` are those of the whole module in order; ``reasons`` are the quantiser's, by tensor
    (see ``QuantizedNetwork``). ``cycles`` has the expected cycles on the VTA of the operators
    checked so far, by name.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        network: Network,
        operators: Sequence[Operator],
        reasons: Mapping[str, str],
        cost: CostModel | None = None,
    ) -> None:
        self.cycles: dict[str, float] = {}
        self._accelerator, self._cost = accelerator, cost
        self._types = _onnx_types(network)
        self._reasons = reasons
        self.operators = operators
        self._before_layers = _before_layers(operators)

    def __call__(self, operator: Operator) -> None:
        """Raise ``LayerError`` with the reason, in one line, if ``operator`` needs the CPU."""
        if operator.name in self.cycles:
            return
        if operator.layer is None or isinstance(operator.layer, Pick):
            moves = all(binding.op in LAYOUT_CALLS for binding in operator.bindings)
            moves = moves and operator.bindings[-1].dtype != "int16"
            if moves and operator.output not in self._before_layers:
                raise LayerError("decoding: layout and type of the network's outputs")
        on_arm = _ON_ARM.get(type(operator.layer)) if operator.layer is not None else None
        if on_arm is not None:
            made = operator.name.removesuffix(".int8")
            raise LayerError(f"{self._types.get(made, operator.kind)}: {on_arm}")
        if operator.layer is not None:
            self.cycles[operator.name] = check_layer(self._accelerator, operator.layer, self._cost)
            return
        if operator.kind == "input_table":
            raise LayerError("camera bytes become int8 through a table")
        name = operator.name.partition(PART)[0].removesuffix(".int16")
        made = name.removesuffix(".int8")
        if not {made, f"{made}.int16"} & set(operator.inputs):
            name = made  # it converts no other form, so this is the operator's own result
        kind = self._types.get(name)
        reason = self._reasons.get(operator.name, self._reasons.get(name))
        if kind is None or reason is None:
            raise LayerError(self._conversion(operator))
        raise LayerError(f"{kind}: {reason}")

    def _conversion(self, operator: Operator) -> str:
        """Say between which operators the values are converted, which no ONNX node requests."""
        dtype = operator.bindings[-1].dtype
        if dtype in ("int8", "int16"):
            sources = [o for o in self.operators if o.output in operator.inputs]
            if not sources:
                return f"camera bytes become {dtype} through a table"
            return f"conversion to {dtype} after {self._named(sources)}"
        readers = [o for o in self.operators if operator.output in o.inputs]
        return f"conversion to float for {self._named(readers)}"

    def _named(self, operators: Sequence[Operator]) -> str:
        kinds = (self._types.get(operator.name, operator.name) for operator in operators)
        return ", ".join(dict.fromkeys(kinds))


def _before_layers(operators: Sequence[Operator]) -> set[str]:
    """Return the tensors that some quantised layer depends on, directly or indirectly."""
    found: set[str] = set()
    for operator in reversed(operators):
        is_layer = operator.layer is not None and not isinstance(operator.layer, Pick)
        if is_layer or operator.output in found:
            found.update(operator.inputs)
    return found


def _onnx_types(network: Network) -> Mapping[str, str]:
    made_by = {
        value: node.op_type for node in network.onnx_model.graph.node for value in node.output
    }
    return {name: made_by[value] for name, value in network.values.items() if value in made_by}
