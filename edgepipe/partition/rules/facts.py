"""What rules may ask about an operator: its shape, its neighbours, and what the quantiser said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from edgepipe.partition.arm_cost import is_depthwise
from edgepipe.partition.operator import PART, Operator
from edgepipe.partition.rules.rule import Value
from vta_stages.accelerator import Accelerator, Extension
from vta_stages.layers.records import (
    Conv,
    Convolution,
    MaxPool,
    Pick,
    Product,
    Quotient,
    TransposedConv,
)

_CAMERA, _TO_INTEGER, _TO_FLOAT = "camera", "to_integer", "to_float"


class OperatorFacts:
    """Finds facts about the operators of a network.

    ``operators`` are all of them in order. ``onnx_types`` are the kinds of ONNX nodes by tensor,
    ``quantiser`` the quantiser's reasons by tensor (see ``QuantizedNetwork``). ``accelerator`` is
    that of the board, by default one without extensions.
    """

    def __init__(
        self,
        operators: Sequence[Operator],
        onnx_types: Mapping[str, str] | None = None,
        quantiser: Mapping[str, str] | None = None,
        accelerator: Accelerator | None = None,
    ) -> None:
        self.operators = operators
        self._types = onnx_types or {}
        self._quantiser = quantiser or {}
        self._accelerator = accelerator or Accelerator()
        self._made_by = {operator.output: operator for operator in operators}
        self._before_layers = _before_layers(operators)

    def find(self, fact: str, operator: Operator) -> Value | None:
        """Return a fact of ``rule.FACTS`` or ``rule.TEXTS``, or None if the operator lacks it."""
        if fact in _OF_LAYERS:
            return None if operator.layer is None else _OF_LAYERS[fact](operator.layer)
        return _OF_OPERATORS[fact](self, operator)

    def sources(self, operator: Operator) -> tuple[Operator, ...]:
        """Return the operators that ``operator`` reads."""
        return tuple(self._made_by[name] for name in operator.inputs if name in self._made_by)

    def _tensors(self, operator: Operator) -> int:
        return len(operator.inputs)

    def _dtype(self, operator: Operator) -> str | None:
        return operator.bindings[-1].dtype if operator.bindings else None

    def _calls(self, operator: Operator) -> tuple[str, ...]:
        return tuple(binding.op for binding in operator.bindings)

    def _feeds_layers(self, operator: Operator) -> bool:
        return operator.output in self._before_layers

    def _has_table(self, operator: Operator) -> bool:
        return self._accelerator.has(Extension.TABLE)

    def _has_multiply(self, operator: Operator) -> bool:
        return self._accelerator.has(Extension.MULTIPLY)

    def _onnx(self, operator: Operator) -> str:
        if operator.layer is not None:
            return self._types.get(operator.name.removesuffix(".int8"), operator.kind)
        return self._types.get(self._own_name(operator), operator.kind)

    def _reason(self, operator: Operator) -> str | None:
        if operator.name in self._quantiser:
            return self._quantiser[operator.name]
        return self._quantiser.get(self._own_name(operator))

    def _own_name(self, operator: Operator) -> str:
        """Return the tensor whose ONNX node ``operator`` computes."""
        name = operator.name.partition(PART)[0].removesuffix(".int16")
        made = name.removesuffix(".int8")
        if not {made, f"{made}.int16"} & set(operator.inputs):
            return made  # it converts no other form, so this is the operator's own result
        return name

    def _conversion(self, operator: Operator) -> str | None:
        """Return what an operator converts that no ONNX node requests, or None."""
        if operator.layer is not None or not operator.bindings:
            return None
        if self._own_name(operator) in self._types and self._reason(operator) is not None:
            return None
        if operator.bindings[-1].dtype not in ("int8", "int16"):
            return _TO_FLOAT
        return _TO_INTEGER if self.sources(operator) else _CAMERA

    def _neighbours(self, operator: Operator) -> str:
        """Return the ONNX kinds between which an operator converts."""
        near: Sequence[Operator] = [o for o in self.operators if operator.output in o.inputs]
        if self._conversion(operator) == _TO_INTEGER:
            near = [o for o in self.operators if o.output in operator.inputs]
        kinds = (self._types.get(each.name, each.name) for each in near)
        return ", ".join(dict.fromkeys(kinds))


_OF_OPERATORS: Mapping[str, Callable[[OperatorFacts, Operator], Value | None]] = {
    "name": lambda _, operator: operator.name,
    "kind": lambda _, operator: operator.kind,
    "tensors": OperatorFacts._tensors,
    "dtype": OperatorFacts._dtype,
    "calls": OperatorFacts._calls,
    "feeds_layers": OperatorFacts._feeds_layers,
    "has_table": OperatorFacts._has_table,
    "has_multiply": OperatorFacts._has_multiply,
    "onnx": OperatorFacts._onnx,
    "conversion": OperatorFacts._conversion,
    "neighbours": OperatorFacts._neighbours,
    "quantiser": OperatorFacts._reason,
}


def _kernel(layer: object) -> int | None:
    if isinstance(layer, Conv | TransposedConv):
        return int(max(layer.weight.shape[2:]))
    return max(layer.kernel) if isinstance(layer, MaxPool) else None


def _channels_in(layer: object) -> int | None:
    if isinstance(layer, Product | Quotient):
        return layer.first.channels
    read = getattr(layer, "input", getattr(layer, "output", None))
    return None if read is None else int(read.channels)


def _of_output(name: str) -> Callable[[object], int | None]:
    return lambda layer: getattr(getattr(layer, "output", None), name, None)


def _leaky(layer: object) -> bool | None:
    epilogue = getattr(layer, "epilogue", None)
    return None if epilogue is None else epilogue.leaky is not None


def _windowed(name: str) -> Callable[[object], int | None]:
    return lambda layer: (
        max(getattr(layer, name)) if isinstance(layer, Convolution | MaxPool) else None
    )


_OF_LAYERS: Mapping[str, Callable[[object], Value | None]] = {
    "kernel": _kernel,
    "stride": _windowed("stride"),
    "padding": _windowed("padding"),
    "dilation": lambda layer: max(layer.dilation) if isinstance(layer, Conv) else None,
    "groups": lambda layer: layer.groups if isinstance(layer, Convolution) else None,
    "channels_in": _channels_in,
    "channels_out": _of_output("channels"),
    "height": _of_output("height"),
    "width": _of_output("width"),
    "terms": lambda layer: len(layer.terms) if hasattr(layer, "terms") else None,
    "depthwise": lambda layer: is_depthwise(layer) if isinstance(layer, Conv) else None,
    "leaky": _leaky,
}


def _before_layers(operators: Sequence[Operator]) -> set[str]:
    """Return the tensors that some quantised layer depends on, directly or indirectly."""
    found: set[str] = set()
    for operator in reversed(operators):
        is_layer = operator.layer is not None and not isinstance(operator.layer, Pick)
        if is_layer or operator.output in found:
            found.update(operator.inputs)
    return found
