"""What another cut would give: every operator as the end of the part that runs on ARM first.

Operators are placed and grouped by the code that a build uses. Their times are those of the record,
each operator alone, because nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgepipe.boards import Board
from edgepipe.bundle.manifest import Manifest, tensor_bytes
from edgepipe.bundle.network import NetworkRecord, OperatorRecord
from edgepipe.bundle_report.model import Cut, WhatIf
from edgepipe.errors import LayerError
from edgepipe.partition.borders import border_bytes
from edgepipe.partition.cores import divide
from edgepipe.partition.crew_rate import StageTime, crews, frame_interval_ms
from edgepipe.partition.operator import Operator
from edgepipe.partition.placement import PlacedOperator, Segment, place, segment
from edgepipe.partition.rules.book import RuleBook
from edgepipe.partition.rules.facts import OperatorFacts

# A cut with more stages than this is not worth its time, nor the time to simulate it.
_MOST_STAGES = 64
_FIRST = 24  # frames until a pipeline has settled, fewer than for a choice: hundreds are tried
_MEASURED = 24


def what_if(manifest: Manifest, record: NetworkRecord) -> WhatIf:
    """Return the estimate of every other cut, and of the bundle as it is."""
    trial = _Trial(manifest, record)
    cuts: dict[tuple[tuple[str, ...], ...], Cut] = {}
    for operator in record.operators:
        if operator.dtype == "tuple":
            continue
        parts = trial.cut_after(operator.name)
        if any(part.device == "vta" for part in parts) and len(parts) <= _MOST_STAGES:
            # Cuts that differ only in what is ready anyway give the same stages.
            key = tuple(tuple(p.operator.name for p in part.operators) for part in parts)
            if key not in cuts:
                cuts[key] = trial.estimate(operator.name, parts)
    return WhatIf(built=trial.estimate("", trial.as_built()), cuts=tuple(cuts.values()))


class _Trial:
    """Places the operators of a record again."""

    def __init__(self, manifest: Manifest, record: NetworkRecord) -> None:
        self._manifest, self._board = manifest, record.board
        self._records: Mapping[str, OperatorRecord] = {o.name: o for o in record.operators}
        kinds = {placement.operator: placement.kind for placement in manifest.placement}
        self._operators = tuple(
            Operator(
                name=each.name,
                kind=kinds[each.name],
                layer=None,
                inputs=each.inputs,
                output=each.name,
                bindings=(),
            )
            for each in record.operators
        )
        self._book = RuleBook(OperatorFacts(self._operators, accelerator=record.board.accelerator))
        # What the VTA reads or writes is int8 and in its layout.
        self._tensor_bytes = {
            each.name: tensor_bytes(each.shape, each.dtype, "vta", record.board.accelerator)
            for each in record.operators
            if each.dtype == "int8" and len(each.shape) == 4
        }

    def as_built(self) -> tuple[Segment, ...]:
        """Return the stages of the bundle."""
        known = {operator.name: operator for operator in self._operators}
        return tuple(
            Segment(
                device=stage.kind,
                operators=tuple(
                    PlacedOperator(operator=known[p.operator], device=p.device, reason=p.reason)
                    for p in self._manifest.placement
                    if p.stage == stage.name
                ),
            )
            for stage in self._manifest.stages
        )

    def cut_after(self, name: str) -> tuple[Segment, ...]:
        """Return the stages of a build with this cut; depthwise convolutions go where they are
        faster, as in a build."""
        depthwise = {
            record.name: "depthwise" for record in self._records.values() if record.depthwise
        }
        tries = [self._segments(name, {})]
        if any(
            p.device == "vta" and p.operator.name in depthwise
            for part in tries[0]
            for p in part.operators
        ):
            tries.append(self._segments(name, depthwise))
        return min(tries, key=self._load_ms)

    def _segments(self, name: str, on_arm: Mapping[str, str]) -> tuple[Segment, ...]:
        placed = place(self._operators, self._check, border=name, on_arm=on_arm, book=self._book)
        return segment(placed, (name,))

    def _check(self, operator: Operator) -> None:
        refusal = self._records[operator.name].refusal
        if refusal:
            raise LayerError(refusal)

    def _stages_ms(self, parts: Sequence[Segment]) -> list[float]:
        """Return the times of stages on one core or the accelerator, in ms."""
        found = []
        for part, borders in zip(parts, border_bytes(parts, self._tensor_bytes), strict=True):
            records = [self._records[placed.operator.name] for placed in part.operators]
            found.append(
                self._board.vta_stage_ms(sum(record.vta_cycles for record in records), borders)
                if part.device == "vta"
                else sum(record.arm_ms for record in records)
            )
        return found

    def _load_ms(self, parts: Sequence[Segment]) -> float:
        """Return the work of the busier device in ms, as ``partition.depthwise`` compares it."""
        arm, vta = self._loads(parts, self._stages_ms(parts))
        return max(vta, arm / self._board.arm_cores)

    def _loads(self, parts: Sequence[Segment], stages_ms: Sequence[float]) -> tuple[float, float]:
        hop_ms = self._board.arm_timing.handover_us / 1e3
        arm, vta = (
            sum(
                ms + hop_ms
                for part, ms in zip(parts, stages_ms, strict=True)
                if part.device == device
            )
            for device in ("arm", "vta")
        )
        return arm, vta

    def estimate(self, name: str, parts: Sequence[Segment]) -> Cut:
        """Return the estimate of a pipeline of these stages."""
        board = self._board
        hop_ms = board.arm_timing.handover_us / 1e3
        alone_ms = self._stages_ms(parts)
        times = _stage_times(parts, alone_ms, board)
        who = crews(
            [str(number) for number in range(len(parts))],
            [part.device for part in parts],
            board.arm_cores,
        )
        made_by = {p.operator.output: n for n, part in enumerate(parts) for p in part.operators}
        stages = [
            StageTime(
                crew=crew,
                ms=ms,
                reads=tuple(
                    {
                        made_by[name]
                        for placed in part.operators
                        for name in placed.operator.inputs
                        if made_by.get(name, number) != number
                    }
                ),
            )
            for number, (part, ms, crew) in enumerate(zip(parts, times, who.of_stages, strict=True))
        ]
        arm, vta = self._loads(parts, alone_ms)
        slots = board.slots(len(parts))
        return Cut(
            operator=name,
            stages=len(parts),
            interval_ms=frame_interval_ms(
                stages, who.threads, slots, hop_ms, first=_FIRST + slots, measured=_MEASURED
            ),
            serial_ms=sum(times) + len(parts) * hop_ms,
            arm_ms=arm,
            vta_ms=vta,
        )


def _stage_times(parts: Sequence[Segment], alone_ms: Sequence[float], board: Board) -> list[float]:
    """Return the stages' times in ms with the threads that a build gives them."""
    arm = [ms for part, ms in zip(parts, alone_ms, strict=True) if part.device == "arm"]
    threads = iter(divide(arm, board.threads.arm.cores, board.threads.arm.light_percent))
    return [
        ms / next(threads).threads if part.device == "arm" else ms
        for part, ms in zip(parts, alone_ms, strict=True)
    ]
