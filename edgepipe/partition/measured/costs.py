"""What measured costs say about the operators and the stages of one network.

    arm     the time of the operator alone on one core takes the place of the model's
    vta     the model's cycles of the operator in its program, times what the model was wrong by
            when the operator was measured alone: in a program with others, their loads overlap
    stage   a stage that was measured as it is has that time, whatever its operators take alone

What was not measured costs what the model says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from edgepipe.boards import Board
from edgepipe.bundle.manifest import tensor_bytes, vta_layout
from edgepipe.partition.arm_cost import operator_ms
from edgepipe.partition.measured.cost_file import CostFile, Entry
from edgepipe.partition.measured.ranges import OperatorRange, single_ranges
from edgepipe.partition.operator import Operator
from edgepipe.partition.reasons import VtaCheck
from vta_stages.program import Program, operators_of
from vta_stages.timing.timing_model import time_program


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCosts:
    """The costs of a network on ``board``, measured where ``entries`` has them.

    ``arm_ms`` are the times of operators on one core, and ``vta_factors`` are measured times of
    operators on the VTA in relation to the model's, both by the operators' names. ``failures`` are
    the reasons why operators have no time on a device: name, device and reason. The costs of
    operators in ``estimated`` follow from those of others.
    """

    board: Board
    entries: Mapping[str, Entry] = field(default_factory=dict)
    arm_ms: Mapping[str, float] = field(default_factory=dict)
    vta_factors: Mapping[str, float] = field(default_factory=dict)
    failures: tuple[tuple[str, str, str], ...] = ()
    estimated: frozenset[str] = frozenset()

    def operator_ms(self, operator: Operator) -> float:
        """Return the time of an operator on one core, in ms."""
        found = self.arm_ms.get(operator.name)
        return operator_ms(operator, self.board) if found is None else found / self.board.arm_share

    def cycles(self, name: str, modelled: float) -> float:
        """Return the cycles of an operator in a program of the VTA, given those by the model."""
        return modelled * self.vta_factors.get(name, 1.0)

    def program_cycles(self, program: Program) -> float:
        """Return the cycles of a program, with what was measured of its operators."""
        cycles = float(program.modelled_cycles)
        if self.vta_factors:
            for layer in time_program(program, self.board.timing).layers:
                name, *_ = operators_of(layer.name)
                cycles += self.cycles(name, layer.cycles) - layer.cycles
        return cycles

    def stage_ms(self, part: OperatorRange) -> float | None:
        """Return the time of a stage as it was measured, in ms; None if it was not."""
        if not self.entries:
            return None
        entry = self.entries.get(part.key(self.board))
        if entry is None or entry.failure:
            return None
        share = self.board.vta_share if part.device == "vta" else self.board.arm_share
        return entry.us / 1e3 / share

    def is_measured(self, name: str, device: str) -> bool:
        """Return whether an operator was measured alone on a device."""
        known = self.vta_factors if device == "vta" else self.arm_ms
        return name in known and name not in self.estimated

    def divided(self, wholes: Iterable[tuple[Operator, Sequence[Operator]]]) -> MeasuredCosts:
        """Return the costs with operators divided into parts that compute the same together.

        A part takes the share of the measured time that it has of the model's. What then has the
        name of a whole joins its parts, and was not measured.
        """
        arm_ms, vta_factors = dict(self.arm_ms), dict(self.vta_factors)
        estimated: set[str] = set()
        for whole, parts in wholes:
            ms, factor = arm_ms.pop(whole.name, None), vta_factors.pop(whole.name, None)
            model_ms = operator_ms(whole, self.board)
            for part in parts:
                estimated.add(part.name)
                if ms is not None and model_ms:
                    arm_ms[part.name] = ms * operator_ms(part, self.board) / model_ms
                if factor is not None:
                    vta_factors[part.name] = factor
        return replace(
            self,
            arm_ms=arm_ms,
            vta_factors=vta_factors,
            estimated=self.estimated | estimated,
        )


def measured_costs(
    found: CostFile | None, check: VtaCheck, frame: str, board: Board
) -> MeasuredCosts:
    """Return what a file, if there is one, says about the network of ``check``.

    ``frame`` is the network's input.
    """
    if found is None:
        return MeasuredCosts(board=board)
    arm_ms: dict[str, float] = {}
    vta_factors: dict[str, float] = {}
    failures: list[tuple[str, str, str]] = []
    bytes_of = {  # what the VTA reads or writes is int8 and in its layout
        made.name: tensor_bytes(made.shape, made.dtype, vta_layout(1), board.accelerator)
        for made in (operator.bindings[-1] for operator in check.operators)
        if made.dtype == "int8" and len(made.shape) == 4
    }
    for part in single_ranges(check.operators, check.runs_on, frame):
        entry = found.entries.get(part.key(board))
        if entry is None:
            continue
        (name,) = part.names
        if entry.failure:
            failures.append((name, part.device, entry.failure))
        elif part.device == "arm":
            arm_ms[name] = entry.us / 1e3
        else:
            (operator,) = part.operators
            borders = sum(bytes_of.get(each, 0) for each in (*operator.inputs, name))
            # As it was measured, alone.
            host_us = 1e3 * board.vta_stage_ms(0, borders) * board.vta_share
            if entry.us > host_us < entry.modelled_us:
                vta_factors[name] = (entry.us - host_us) / (entry.modelled_us - host_us)
    return MeasuredCosts(
        board=board,
        entries=found.entries,
        arm_ms=arm_ms,
        vta_factors=vta_factors,
        failures=tuple(failures),
    )
