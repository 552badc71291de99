"""Copies of pictures to C order and back, which ARM stages make for calls of TVM's own kernels.

Kernels of layers compute pictures, int8[1, C, H, W], in a layout of their own, or in that of the
accelerator. TVM's kernels need C order. A picture that they make themselves is copied back for a
layer, which is usually on the accelerator (``codegen/arm/lowering.py``).

    layer -> [copy] -> generic -> [copy] -> layer
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from edgepipe.partition.operator import Operator


def with_copies(operators: Sequence[Operator]) -> tuple[Operator, ...]:
    """Return the operators, which are in order, with the bytes that each copies.

    A picture is copied once, by the first operator that needs it in C order. Layers copy nothing,
    whatever their devices: both ends use one layout.
    """
    sizes = {o.output: size for o in operators if (size := _picture_bytes(o))}
    of_layers = {o.output for o in operators if o.layer is not None}
    for_layers = {name for o in operators if o.layer is not None for name in o.inputs}
    copied: set[str] = set()
    made = []
    for operator in operators:
        if operator.kind != "generic":
            made.append(operator)
            continue
        read = (of_layers & set(operator.inputs)) - copied
        copied |= read
        written = {operator.output} & for_layers
        total = sum(sizes.get(name, 0) for name in read | written)
        made.append(replace(operator, copied_bytes=total))
    return tuple(made)


def _picture_bytes(operator: Operator) -> int:
    """Return the bytes of an operator's result if it is a picture, or 0."""
    result = operator.bindings[-1]
    is_picture = result.dtype == "int8" and len(result.shape) == 4 and result.shape[0] == 1
    return prod(result.shape) if is_picture else 0
