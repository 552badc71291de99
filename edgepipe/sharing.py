"""Operators that ARM and the VTA share: the task of arranging a network, with them divided."""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgepipe.boards import Board
from edgepipe.errors import LayerError, PartitionError
from edgepipe.names import suggest
from edgepipe.partition import sharing
from edgepipe.partition.folding import with_folds
from edgepipe.partition.measured.costs import MeasuredCosts
from edgepipe.partition.operator import Operator
from edgepipe.partition.operators import match_operators
from edgepipe.partition.reasons import VtaCheck
from edgepipe.partition.sharing import Halves
from edgepipe.partition.wishes import Wishes
from edgepipe.quantize.quantizer import QuantizedNetwork
from edgepipe.quantize.replacing import Replacement, replaced


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is to be arranged: a quantised network with the check of its operators, on a board.

    ``measured`` are the costs that were measured.
    """

    quantized: QuantizedNetwork
    check: VtaCheck
    board: Board
    wishes: Wishes
    measured: MeasuredCosts


def shared(task: Task) -> Task:
    """Return the task with the operators of ``wishes.shares`` divided into halves.

    Halves have the devices that they are for; their names and those of other operators are then
    the names of the task. Every tensor of the network keeps its name and its bits. Raises
    ``PartitionError`` for operators that are unknown or cannot be shared in this way.
    """
    wishes = task.wishes
    if not wishes.shares:
        return task
    operators = {operator.name: operator for operator in task.check.operators}
    for name in wishes.shares:
        if name not in operators:
            raise PartitionError(
                f"operator {name!r} is unknown", hint=suggest(name, list(operators))
            )
    found = {name: _halves(task, operators[name], wishes.shares[name]) for name in wishes.shares}
    quantized = replace(
        task.quantized,
        module=replaced(
            task.quantized.module,
            {
                name: Replacement(
                    bindings={binding.name for binding in operators[name].bindings},
                    layers=each.layers,
                )
                for name, each in found.items()
            },
        ),
    )
    devices: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for each in found.values():
        devices |= each.devices
        reasons |= each.reasons
    accelerator = task.check.accelerator
    made = with_folds(match_operators(quantized.module), quantized.output_names, accelerator)
    check = task.check.of(made, {*devices})
    picks = {name for each in found.values() for name in each.picks}
    for operator in made:
        if operator.name in picks and devices[operator.name] == "vta" and not _why(check, operator):
            check.cycles[operator.name] = 0.0  # programs read these blocks where they are
    return replace(
        task,
        quantized=quantized,
        check=check,
        measured=task.measured.divided(
            (operators[name], [part for part in made if part.name in each.parts])
            for name, each in found.items()
        ),
        wishes=replace(
            wishes,
            placement={**wishes.placement, **devices},
            reasons={**wishes.reasons, **reasons},
            shares={},
        ),
    )


def _halves(task: Task, operator: Operator, arm_channels: int) -> Halves:
    check = task.check
    unable = {}
    if why := _why(check, operator):
        unable["vta"] = why
    if not check.book.allows(operator, "arm"):
        unable["arm"] = "the rules refuse it"
    names = {each.name for each in check.operators}
    sharing.require(operator, arm_channels, check.accelerator.block_out, names, unable)
    # What the first convolution reads comes from ARM, where its half can run before the other one.
    # Later ones read what the accelerator computed, which is busier than the cores.
    first = next((each.name for each in check.operators if each.kind == "conv"), "")
    return sharing.halves(operator, arm_channels, "vta" if operator.name == first else "arm")


def _why(check: VtaCheck, operator: Operator) -> str:
    """Return why the accelerator cannot run an operator, or nothing."""
    try:
        check(operator)
    except LayerError as error:
        return str(error)
    return ""
