"""Record what is known about every operator of a network, for people who look at its bundle."""

from __future__ import annotations

from collections.abc import Callable

from edgepipe.boards import Board
from edgepipe.bundle.network import FORMAT, NetworkRecord, OperatorRecord
from edgepipe.errors import LayerError
from edgepipe.partition.arm_cost import is_depthwise, operator_ms
from edgepipe.partition.operator import Operator
from edgepipe.partition.reasons import VtaCheck
from vta_stages.layers.products import real_products


def network_record(check: VtaCheck, board: Board) -> NetworkRecord:
    """Return the record of the operators of ``check``, which were placed for ``board``."""
    return NetworkRecord(
        format=FORMAT,
        board=board,
        operators=tuple(_record(operator, check, board) for operator in check.operators),
    )


def _record(operator: Operator, check: VtaCheck, board: Board) -> OperatorRecord:
    result = operator.bindings[-1]
    return OperatorRecord(
        name=operator.name,
        inputs=operator.inputs,
        dtype=result.dtype,
        shape=tuple(result.shape),
        products=real_products(operator.layer) if operator.layer is not None else 0,
        constant_bytes=operator.constant_bytes,
        depthwise=is_depthwise(operator.layer),
        arm_ms=operator_ms(operator, board),
        vta_cycles=check.cycles.get(operator.name, 0.0),
        refusal=_refusal(lambda: check(operator)),
        arm_refusal=_refusal(lambda: check.book.require(operator, "arm")),
    )


def _refusal(require: Callable[[], None]) -> str:
    try:
        require()
    except LayerError as error:
        return str(error)
    return ""
