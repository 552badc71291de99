"""What operators cost on an ARM core, by the board's ``arm_timing`` table.

Convolutions cost by their multiplications, tables and products by the elements of their results,
and all other operators by the elements that each of their calls computes. Pictures that have to be
copied into another layout cost by their bytes. The operator that reads a camera's picture also fits
it to the network's input: a camera delivers its own size, and a picture of the right size takes the
same way. The table's defaults are counted instructions of edgepipe's kernels
(docs/reference/timing-model.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import TYPE_CHECKING

from edgepipe.boards import ArmTiming, Board
from edgepipe.partition.operator import Operator
from vta_stages.layers.records import (
    Concat,
    Conv,
    Layer,
    MaxPool,
    Pick,
    PixelAffine,
    Product,
    Quotient,
    Table,
    TensorSpec,
    TransposedConv,
)

if TYPE_CHECKING:  # what only estimates needs no TVM
    from edgepipe.tvm_adapter import Binding

CAMERA_PIXELS = 640 * 480
"""The pixels of a camera's picture, in the size that ``edgepipe-cam`` asks for."""

# These only name values that are already in memory.
_FREE = frozenset(["squeeze", "expand_dims", "tuple", "tuple_get_item"])
_EXPONENTIAL = frozenset(
    [
        *("sigmoid", "exp", "tanh", "erf", "log", "power"),
        *("nn.softmax", "nn.log_softmax", "nn.gelu", "nn.silu"),
    ]
)


def is_depthwise(layer: Layer | None) -> bool:
    """Return whether it is a depthwise convolution; an average pooling has only one weight."""
    return (
        isinstance(layer, Conv)
        and layer.groups == layer.input.channels > 1
        and bool((layer.weight != layer.weight.flat[0]).any())
    )


def layer_ms(layer: Layer, board: Board) -> float:
    """Return the time of a layer on one core, in ms."""
    timing = board.arm_timing
    if isinstance(layer, Conv | TransposedConv):
        pixels = layer.output if isinstance(layer, Conv) else layer.input
        weights = layer.weight.size
        if isinstance(layer, Conv):
            weights += sum(projection.weight.size for projection in layer.projections)
        macs = weights * pixels.height * pixels.width
        rate = timing.depthwise_macs_per_cycle if is_depthwise(layer) else timing.macs_per_cycle
        cycles = macs / rate
    elif isinstance(layer, Table | Concat | Pick):  # none of them computes
        cycles = _elements(layer.output) * timing.table_cycles
    elif isinstance(layer, Product | PixelAffine):
        cycles = _elements(layer.output) * timing.product_cycles
    elif isinstance(layer, Quotient):  # no vector instruction looks 32 bits up
        cycles = _elements(layer.output) * (timing.product_cycles + 2 * timing.element_cycles)
    else:
        taken = prod(layer.kernel) if isinstance(layer, MaxPool) else 1
        cycles = taken * _elements(layer.output) * timing.element_cycles
    return board.arm_ms(cycles)


def operator_ms(operator: Operator, board: Board) -> float:
    """Return the time of an operator on one core, in ms."""
    timing = board.arm_timing
    if operator.layer is not None:
        return layer_ms(operator.layer, board)
    if operator.kind == "input_table":
        cycles = prod(operator.bindings[-1].shape) * timing.table_cycles
    else:
        cycles = sum(_call_cycles(call, timing) for call in operator.bindings)
    cycles += _fit_cycles(operator, timing) + operator.copied_bytes * timing.byte_cycles
    return board.arm_ms(cycles)


def operators_ms(operators: Iterable[Operator], board: Board) -> float:
    """Return the time of operators that follow each other on one core, in ms."""
    return sum(operator_ms(operator, board) for operator in operators)


def _elements(tensor: TensorSpec) -> int:
    return tensor.channels * tensor.height * tensor.width


def _fit_cycles(operator: Operator, timing: ArmTiming) -> float:
    """Return the cycles of fitting a camera's picture to the network's input, uint8[1, C, H, W].

    Only an operator that begins with the picture has any.
    """
    first = operator.bindings[0]
    if first.dtype != "uint8" or len(first.shape) != 4:
        return 0.0
    return (CAMERA_PIXELS * first.shape[1] + prod(first.shape)) * timing.fit_cycles


def _call_cycles(call: Binding, timing: ArmTiming) -> float:
    """Return the cycles of a call that computes one tensor, usually in floating point."""
    if not call.shape or call.op in _FREE:
        return 0.0
    if call.op in _EXPONENTIAL:
        return prod(call.shape) * timing.exponential_cycles
    return prod(call.shape) * call.multiplications * timing.element_cycles
