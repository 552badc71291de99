"""What is measured of a network: its operators alone, and the stages of its splits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from edgepipe.arrangement import Arrangement, arrange
from edgepipe.board_costs.probe_bundle import ProbeBundle
from edgepipe.boards import Board
from edgepipe.codegen.stages import vta_program
from edgepipe.partition.choices import BY_RULE
from edgepipe.partition.measured.cost_file import CostFile
from edgepipe.partition.measured.costs import MeasuredCosts, measured_costs
from edgepipe.partition.measured.ranges import OperatorRange, single_ranges
from edgepipe.partition.placement import PlacedOperator, Segment
from edgepipe.partition.reasons import VtaCheck
from edgepipe.partition.split import StageModule, stage_of
from edgepipe.partition.wishes import Wishes
from edgepipe.progress import Silent
from edgepipe.quantize.quantizer import QuantizedNetwork
from vta_stages.program import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A range that is to be measured, and its key. ``stage`` is None until it is compiled."""

    part: OperatorRange
    key: str
    stage: StageModule | None = field(default=None, repr=False)
    program: Program | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredNetwork:
    """A network on a board, whose ranges are measured.

    Kernels are compiled for ``architecture``, the board's or that of a machine in its place.
    """

    quantized: QuantizedNetwork
    check: VtaCheck
    board: Board
    architecture: str

    def singles(self) -> Iterator[Work]:
        """Yield every operator alone, on each device that can run it."""
        frame = self.quantized.input_name
        for part in single_ranges(self.check.operators, self.check.runs_on, frame):
            yield Work(part=part, key=part.key(self.board))

    def stages(self, costs: CostFile) -> list[Work]:
        """Return the stages of the split by rule, and of the best one by the costs so far.

        Those with calls of a user's code generator are left out. Raises PartitionError, LayerError
        or CodegenError if the network cannot be arranged.
        """
        frame = self.quantized.input_name
        measured = measured_costs(costs, self.check, frame, self.board)
        found: dict[str, Work] = {}
        for objective in (BY_RULE, ""):
            arranged = self._arranged(objective, measured)
            for stage in arranged.stages:
                if not stage.segment.calls:
                    part = arranged.range_of(stage)
                    key = part.key(self.board)
                    program = arranged.programs.get(stage.name)
                    found[key] = Work(part=part, key=key, stage=stage.module, program=program)
        return list(found.values())

    def modelled_us(self, work: Work) -> float:
        """Return what the model says about a range, in microseconds for a frame."""
        if work.program is not None:
            return 1e6 * work.program.modelled_cycles / self.board.accelerator.clock_hz
        if work.part.device == "vta":  # it was not compiled
            return 0.0
        plain = MeasuredCosts(board=self.board)
        return 1e3 * sum(map(plain.operator_ms, work.part.operators)) / work.part.threads

    def compiled(self, work: Work) -> Work:
        """Return the range with its module, and its program if it is on the VTA.

        Raises PartitionError, LayerError or CodegenError if it cannot be compiled.
        """
        if work.stage is not None:
            return work
        stage = stage_of(self.quantized.module, work.part.names)
        program = None
        if work.part.device == "vta":
            placed = tuple(
                PlacedOperator(operator=operator, device="vta", reason="")
                for operator in work.part.operators
            )
            segment = Segment(device="vta", operators=placed)
            program = vta_program(segment, stage, self.board, Silent())
        return Work(part=work.part, key=work.key, stage=stage, program=program)

    def write(self, work: Work, path: Path) -> Path:
        """Write a compiled range as a bundle of one stage; return its path.

        Raises CodegenError if its kernels cannot be compiled, BundleError if it cannot be written.
        """
        assert work.stage is not None
        bundle = ProbeBundle("range", self.board, self.architecture)
        modelled_us = round(self.modelled_us(work)) if work.program is None else 0
        bundle.add_range("range", work.stage, work.part.layouts, work.program, modelled_us)
        return bundle.write(path)

    def _arranged(self, objective: str, measured: MeasuredCosts) -> Arrangement:
        wishes = Wishes(objective=objective)
        return arrange(self.quantized, self.check, self.board, wishes, Silent(), measured)
