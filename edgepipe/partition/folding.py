"""First layers that read folded pictures on the accelerator: which, and what it then computes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from edgepipe.partition.operator import Operator
from vta_stages.accelerator import Accelerator
from vta_stages.layers.folding import fold_factor, folded
from vta_stages.layers.records import Conv, Layer

_ONLY_ON_ARM = ("input_table", "generic")


def with_folds(
    operators: Sequence[Operator], outputs: Collection[str], accelerator: Accelerator
) -> tuple[Operator, ...]:
    """Return ``operators`` with the factors by which they fold their inputs on the accelerator.

    A picture is folded by the ARM kernel that writes it, so another operator must not read it, and
    it is none of the network's ``outputs``.
    """
    made_by = {operator.output: operator for operator in operators}
    counts: dict[str, int] = {}
    for operator in operators:
        for name in operator.inputs:
            counts[name] = counts.get(name, 0) + 1
    found = []
    for operator in operators:
        layer = operator.layer
        factor = 1
        if isinstance(layer, Conv) and accelerator.batch == 1:
            maker = made_by.get(layer.input.name)
            is_alone = counts[layer.input.name] == 1 and layer.input.name not in outputs
            if maker is not None and maker.kind in _ONLY_ON_ARM and is_alone:
                factor = fold_factor(layer, accelerator.block_in)
        found.append(replace(operator, folds=factor) if factor > 1 else operator)
    return tuple(found)


def vta_layer(operator: Operator) -> Layer | None:
    """Return the record that the accelerator's compiler gets; None as for ``Operator.layer``."""
    if operator.folds > 1 and isinstance(operator.layer, Conv):
        return folded(operator.layer, operator.folds)
    return operator.layer
