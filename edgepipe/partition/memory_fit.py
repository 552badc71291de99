"""Operators that move to ARM so that a pipeline fits into a board's contiguous memory.

Weights and tensors of the VTA, and tensors between stages, must be contiguous. What is inside an
ARM stage is ordinary memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

from edgepipe.boards import Board
from edgepipe.partition.arm_cost import operator_ms
from edgepipe.partition.folding import vta_layer
from edgepipe.partition.operator import Operator
from edgepipe.partition.placement import Segment
from edgepipe.partition.rules.reasons import reasons
from vta_stages.accelerator import Accelerator
from vta_stages.layers.records import Conv, TransposedConv


def moved_to_fit(
    segments: Sequence[Segment],
    cycles: Mapping[str, float],
    tensor_bytes: Mapping[str, int],
    board: Board,
    excess_bytes: int,
    kept: Collection[str] = (),
) -> dict[str, str]:
    """Return operators to move from the VTA to ARM, each with the reason.

    ``excess_bytes`` are missing for one frame. If weights are that large, those move that cost the
    least time for each byte, which are usually dense layers. Otherwise the operators with the
    largest results move: all that have at least half of the largest one's bytes, so few tries are
    enough. ``cycles`` are those on the VTA by operator, ``kept`` operators that must stay. The
    result is empty if nothing is missing, or nothing can move.
    """
    if excess_bytes <= 0:
        return {}
    operators = [
        placed.operator
        for part in segments
        if part.device == "vta"
        for placed in part.operators
        if placed.operator.name not in kept
    ]
    weights = {o.name: size for o in operators if (size := weight_bytes(o, board.accelerator))}
    if sum(weights.values()) >= excess_bytes:

        def price(operator: Operator) -> tuple[float, int]:
            """Return the milliseconds for each byte, the larger operator first if equal."""
            vta_ms = board.vta_ms(cycles[operator.name])
            size = weights[operator.name]
            return (operator_ms(operator, board) - vta_ms) / size, -size

        chosen: list[str] = []
        for operator in sorted((o for o in operators if o.name in weights), key=price):
            chosen.append(operator.name)
            excess_bytes -= weights[operator.name]
            if excess_bytes <= 0:
                break
        # The last one may have made small ones before it needless.
        for name in sorted(chosen, key=weights.__getitem__):
            if excess_bytes + weights[name] <= 0:
                chosen.remove(name)
                excess_bytes += weights[name]
        return dict.fromkeys(chosen, reasons().weights)
    largest = max((tensor_bytes[o.output] for o in operators), default=0)
    return {o.name: reasons().tensors for o in operators if 2 * tensor_bytes[o.output] >= largest}


def weight_bytes(operator: Operator, accelerator: Accelerator) -> int:
    """Return the bytes of an operator's weights, in whole blocks of the accelerator."""
    layer = vta_layer(operator)
    if not isinstance(layer, Conv | TransposedConv):
        return 0
    made, read, *kernel = layer.weight.shape
    block = accelerator.block_in
    blocks = -(-made // block) * -(-read // block)
    return int(blocks * block * block * prod(kernel))
