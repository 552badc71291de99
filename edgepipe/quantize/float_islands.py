"""Operators without an int8 form that are between others which are int8."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from edgepipe.quantize import float_layers
from edgepipe.quantize.int16 import names as int16_names
from edgepipe.tvm_adapter import Binding, IRModule, read_main

_STAYS = "stays float: "
_REQUESTED = (f"{_STAYS}{float_layers.REASON}", f"{_STAYS}{int16_names.FLOAT_REASON}")
_NAMED = 3
"""Operators that a notice names; ``edgepipe inspect`` lists all."""


def float_islands(module: IRModule, reasons: Mapping[str, str]) -> dict[str, str]:
    """Return the operators that compute in floating point between int8 ones, and why, in order.

    ``module`` is integer Relax. ``reasons`` says of operators why they run on ARM, by their float
    tensors. What int8 operators do not depend on, such as the decoding of boxes, is no island. If
    layers are float or int16 on request, their neighbours are float because of them: no islands.
    """
    if any(why in _REQUESTED for why in reasons.values()):
        return {}
    bindings = read_main(module).bindings
    made_by = {binding.name: binding for binding in bindings}
    readers: dict[str, list[Binding]] = {}
    for binding in bindings:
        for value in binding.inputs:
            readers.setdefault(value, []).append(binding)
    behind = _next_to_int8(bindings, lambda b: [made_by[v] for v in b.inputs if v in made_by])
    before = _next_to_int8(reversed(bindings), lambda b: readers.get(b.name, []))
    names = [binding.name for binding in bindings if binding.name in behind & before]
    return {
        name: reasons[name].removeprefix(_STAYS)
        for name in names
        if reasons.get(name, "").startswith(_STAYS)
    }


def notice(islands: Mapping[str, str], model: str) -> str:
    """Return a sentence about islands, none of which the user asked for."""
    named = [f"{name} ({why})" for name, why in list(islands.items())[:_NAMED]]
    more = len(islands) - len(named)
    names = ", ".join(named) + (f", and {more} more" if more else "")
    count = f"{len(islands)} operator{'s' if len(islands) > 1 else ''}"
    return (
        f"{count} between int8 ones compute{'' if len(islands) > 1 else 's'} in floating point on "
        f"ARM: {names}; `edgepipe inspect {model}` says what to do"
    )


def _next_to_int8(
    bindings: Iterable[Binding], neighbours: Callable[[Binding], Iterable[Binding]]
) -> set[str]:
    """Return the float tensors with an int8 tensor among their neighbours, or theirs."""
    found: set[str] = set()
    for binding in bindings:
        near = list(neighbours(binding)) if _is_float(binding) else []
        if any(other.dtype == "int8" or other.name in found for other in near):
            found.add(binding.name)
    return found


def _is_float(binding: Binding) -> bool:
    return binding.dtype.startswith("float") or binding.dtype == "tuple"
