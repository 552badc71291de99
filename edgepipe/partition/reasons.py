"""Why an operator is on ARM: the accelerator's refusal, or what the network asks of it."""

from __future__ import annotations

from collections.abc import Mapping

from edgepipe.errors import LayerError
from edgepipe.frontend.network import Network
from edgepipe.partition.operators import Operator
from vta_stages.accelerator import Accelerator
from vta_stages.compiler import check_layer

# Calls that only move or retype values: at the end of a network they put results into the form
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
    ]
)


class VtaCheck:
    """Raises ``LayerError`` for operators that the VTA cannot run; ``placement.place`` calls it."""

    def __init__(self, accelerator: Accelerator, network: Network) -> None:
        self._accelerator = accelerator
        self._types = _onnx_types(network)

    def __call__(self, operator: Operator) -> None:
        """Raise ``LayerError`` with the reason, in one line, when ``operator`` needs the CPU."""
        if operator.layer is not None:
            check_layer(self._accelerator, operator.layer)
            return
        if operator.kind == "input_table":
            raise LayerError("camera bytes become int8 through a table")
        if all(binding.op in LAYOUT_CALLS for binding in operator.bindings):
            raise LayerError("decoding: layout and type of the network's outputs")
        kind = self._types.get(operator.name) or operator.bindings[-1].op
        raise LayerError(f"{kind.lower()}: stays float")


def _onnx_types(network: Network) -> Mapping[str, str]:
    made_by = {
        value: node.op_type for node in network.onnx_model.graph.node for value in node.output
    }
    return {name: made_by.get(value, "") for name, value in network.values.items()}
