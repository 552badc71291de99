"""Compare two bundles or runs: figures, and operators that run elsewhere or take longer."""

from __future__ import annotations

from dataclasses import dataclass

from edgepipe.bundle_report.model import Measurement, Operator, Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of two reports, ``this`` and the ``other``."""

    name: str
    unit: str
    this: float
    other: float

    @property
    def change(self) -> float | None:
        """How much larger this is than the other, as a share; None if the other is 0."""
        return self.this / self.other - 1 if self.other else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorChange:
    """An operator in two reports; a device is "" and a time None where it does not exist."""

    name: str
    kind: str
    this_device: str
    other_device: str
    this_ms: float | None
    other_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """This bundle against another one; ``operators`` are those of either, in order.

    ``other`` also names the other's run, if there is one.
    """

    other: str
    other_board: str
    figures: tuple[Figure, ...]
    operators: tuple[OperatorChange, ...]

    @property
    def moved(self) -> tuple[OperatorChange, ...]:
        """The operators that are in both, on different devices."""
        return tuple(
            each
            for each in self.operators
            if each.this_device and each.other_device and each.this_device != each.other_device
        )


def compare(this: Report, other: Report) -> Comparison:
    """Return the comparison of two reports; operators with the same name are the same.

    If both have measurements, their figures are compared, and the mean times (ms) of stages with
    the same name.
    """
    known = {operator.name: operator for operator in other.operators}
    pairs: list[tuple[Operator | None, Operator | None]] = [
        (operator, known.pop(operator.name, None)) for operator in this.operators
    ]
    pairs += [(None, operator) for operator in known.values()]
    run = other.measurement
    return Comparison(
        other=f"{other.name}, {run.source}" if run else other.name,
        other_board=other.board,
        figures=tuple(
            Figure(name=name, unit=unit, this=one, other=two)
            for (name, unit, one), (_, _, two) in zip(_figures(this), _figures(other), strict=True)
        )
        + _measured(this.measurement, other.measurement),
        operators=tuple(_change(one, two) for one, two in pairs),
    )


def _figures(report: Report) -> list[tuple[str, str, float]]:
    prediction, memory = report.prediction, report.memory
    on_vta = sum(operator.device == "vta" for operator in report.operators)
    return [
        ("frames per second", "1/s", prediction.frames_per_second),
        ("time between frames", "ms", prediction.interval_ms),
        ("a frame alone", "ms", prediction.serial_ms),
        ("work on the VTA", "ms", prediction.vta_ms),
        ("work on ARM, on one core", "ms", prediction.arm_ms),
        ("stages", "", len(report.stages)),
        ("operators", "", len(report.operators)),
        ("operators on the VTA", "", on_vta),
        ("contiguous memory", "MiB", memory.used_bytes / (1 << 20)),
        ("slots", "", memory.slots),
    ]


def _measured(this: Measurement | None, other: Measurement | None) -> tuple[Figure, ...]:
    if this is None or other is None:
        return ()
    known = {stage.name: stage.mean_ms for stage in other.stages}
    rows: list[tuple[str, str, float | None, float | None]] = [
        ("frames per second", "1/s", this.frames_per_second, other.frames_per_second),
        ("latency, median", "ms", this.latency_median_ms, other.latency_median_ms),
        ("latency, p99", "ms", this.latency_p99_ms, other.latency_p99_ms),
        *(
            (f"stage {stage.name}, mean", "ms", stage.mean_ms, known[stage.name])
            for stage in this.stages
            if stage.name in known
        ),
        ("frames dropped", "", this.dropped, other.dropped),
        ("frames failed", "", this.failed, other.failed),
    ]
    return tuple(
        Figure(name=f"measured: {name}", unit=unit, this=one, other=two)
        for name, unit, one, two in rows
        if one is not None and two is not None  # a trace does not tell what was dropped
    )


def _change(this: Operator | None, other: Operator | None) -> OperatorChange:
    known = this or other
    assert known is not None
    return OperatorChange(
        name=known.name,
        kind=known.kind,
        this_device=this.device if this else "",
        other_device=other.device if other else "",
        this_ms=this.ms if this else None,
        other_ms=other.ms if other else None,
    )
