"""What a user can ask of the stages of a network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from edgepipe.errors import PartitionError
from edgepipe.partition.choices import BY_RULE
from edgepipe.partition.search.split import Goal
from edgepipe.partition.target import EXPECTED, target


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What a user can ask for: cuts, devices of operators, ``depthwise``, one of
    ``partition.choices.DEPTHWISE``, and what a search makes of the rest.

    ``objective`` is one of ``partition.choices.OBJECTIVES``, ``BY_RULE``, or empty for a search in
    place of the rule (``partition.search.automatic``).
    ``max_latency_ms`` is the most time from a frame's start to its results, ``stages`` the most
    stages, and ``slots`` the number of frames in flight; None is no limit. ``generators`` are code
    generators that operators of ``placement`` are requested from, by operator, and ``units`` are
    the cores or accelerators that are wanted for the stages of operators. ``shares`` are the output
    channels on ARM of operators that both devices share, which have no device of their own, and
    ``reasons`` say why operators of ``placement`` are there, if nobody asked for them by name.
    """

    cuts: tuple[str, ...] = ()
    placement: Mapping[str, str] = field(default_factory=dict)
    depthwise: str = "auto"
    generators: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    shares: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    objective: str = ""
    max_latency_ms: float | None = None
    stages: int | None = None
    slots: int | None = None

    @property
    def goal(self) -> Goal | None:
        """What to search for; None if nothing that needs a search was asked for."""
        objective = "" if self.objective == BY_RULE else self.objective
        if not objective and self.max_latency_ms is None and self.stages is None:
            return None
        return Goal(
            objective=objective or "throughput",
            latency_ms=self.max_latency_ms,
            stages=self.stages,
            slots=self.slots,
        )

    def placed(self, targets: Mapping[str, str]) -> Wishes:
        """Return the wishes with ``targets`` by operator, texts as in ``partition.target``.

        Wishes that were there before take precedence. Raises ``PartitionError`` for other texts.
        """
        given = {*self.placement, *self.shares}
        new = {name: text for name, text in targets.items() if name not in given}
        wanted = {}
        for name, text in new.items():
            try:
                wanted[name] = target(text)
            except ValueError as cause:
                raise PartitionError(f"{name}: {cause}", hint=f"give {EXPECTED}") from cause
        return replace(
            self,
            placement={name: each.device for name, each in wanted.items() if each.device}
            | dict(self.placement),
            generators={name: each.generator for name, each in wanted.items() if each.generator}
            | dict(self.generators),
            units={name: each.unit for name, each in wanted.items() if each.unit}
            | dict(self.units),
            shares={name: each.arm_channels for name, each in wanted.items() if each.arm_channels}
            | dict(self.shares),
        )
