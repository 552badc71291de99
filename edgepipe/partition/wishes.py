"""What a user can ask of the stages of a network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from edgepipe.partition.choices import BY_RULE
from edgepipe.partition.foreign import target
from edgepipe.partition.search.split import Goal


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What a user can ask for: cuts, devices of operators, ``depthwise``, one of
    ``partition.choices.DEPTHWISE``, and what a search makes of the rest.

    ``objective`` is one of ``partition.choices.OBJECTIVES``, ``BY_RULE``, or empty for a search in
    place of the rule (``partition.search.automatic``).
    ``max_latency_ms`` is the most time from a frame's start to its results, ``stages`` the most
    stages, and ``slots`` the number of frames in flight; None is no limit. ``generators`` are code
    generators that operators of ``placement`` are requested from, by operator.
    """

    cuts: tuple[str, ...] = ()
    placement: Mapping[str, str] = field(default_factory=dict)
    depthwise: str = "auto"
    generators: Mapping[str, str] = field(default_factory=dict)
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
        """Return the wishes with ``targets`` by operator, each a device or ``device/generator``.

        Wishes that were there before take precedence.
        """
        split = {name: target(text) for name, text in targets.items()}
        ours = self.placement
        return replace(
            self,
            placement={name: device for name, (device, _) in split.items()} | dict(ours),
            generators={
                name: made for name, (_, made) in split.items() if made and name not in ours
            }
            | dict(self.generators),
        )
