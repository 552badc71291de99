"""Why a pipeline cannot gain: the stage or the unit that limits it, in words.

A pipeline needs at least the time of its longest stage for each frame. Stages that share a unit,
such as the accelerator or a core, take turns on it, so it also needs at least the time of all of
them together. A serial run needs the sum of all stages.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from edgepipe.runtime.statistics import Statistics

LITTLE = 1.1
"""A pipeline that cannot be more than this many times as fast as a serial run says why."""
_MOST_NAMES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What several stages share: ``places`` of the stages named can work on it at a time."""

    name: str
    stages: tuple[str, ...]
    places: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The highest gain that the times allow, pipelined over serial frames per second, and why."""

    gain: float
    reason: str

    @property
    def is_little(self) -> bool:
        """Whether pipelining gains nothing worth having."""
        return self.gain < LITTLE

    def sentence(self, where: str) -> str:
        """Return why the gain is little, beginning with ``where``; "" if it is not little."""
        if not self.is_little:
            return ""
        return f"{where}: {self.reason}, so pipelining gains at most {self.gain:.2f}x"


def pipelining_limit(
    stage_ms: Mapping[str, float], units: Collection[Unit] = (), *, slots: int
) -> Limit:
    """Return what limits a pipeline whose stages take ``stage_ms`` (in ms, by name, in order).

    ``slots`` are the frames in flight. Hand-overs and memory that the stages share are not counted,
    so a run can gain less. Raises ``ValueError`` if no stage takes any time.
    """
    total_ms = sum(stage_ms.values())
    if not total_ms > 0:
        raise ValueError("expected stages that take time")
    if len(stage_ms) == 1:
        return Limit(gain=1.0, reason="the bundle has one stage, and nothing to run beside it")
    if slots == 1:
        return Limit(gain=1.0, reason="with one slot, only one stage has a frame at a time")
    longest = max(stage_ms, key=lambda name: stage_ms[name])
    limit_ms = stage_ms[longest]
    number = list(stage_ms).index(longest) + 1
    who = f"stage {number} of {len(stage_ms)} ({longest}) takes"
    for unit in units:
        shared = [name for name in unit.stages if name in stage_ms]
        unit_ms = sum(stage_ms[name] for name in shared) / unit.places
        if len(shared) > unit.places and unit_ms > limit_ms:
            limit_ms = unit_ms
            who = f"{_names(shared)} share {unit.name} and together take"
            if unit.places > 1:
                who = f"{_names(shared)} share {unit.name} and together keep each busy for"
    return Limit(
        gain=total_ms / limit_ms,
        reason=f"{who} {100 * limit_ms / total_ms:.0f} % of a frame's time",
    )


def measured_limit(
    stage_ms: Mapping[str, float],
    pipelined: Statistics,
    vta_stages: Collection[str],
    computing: Collection[str],
) -> Limit:
    """Return what limits a ``pipelined`` run; its stages alone take ``stage_ms`` (in ms, by name).

    The ``vta_stages`` share the accelerator. Stages share cores if the run pinned them to the same
    ones and they are ``computing`` there, and not only waiting, as a VTA stage does for the
    accelerator. Raises ``ValueError`` if no stage takes any time.
    """
    pinned: dict[tuple[int, ...], list[str]] = {}
    for stage in pipelined.stages:
        if stage.cores and stage.name in computing:
            pinned.setdefault(stage.cores, []).append(stage.name)
    units = [
        Unit(name=_cores(cores), stages=tuple(names), places=len(cores))
        for cores, names in pinned.items()
    ]
    return pipelining_limit(stage_ms, [accelerator(vta_stages), *units], slots=pipelined.slots)


def accelerator(vta_stages: Collection[str]) -> Unit:
    """Return the accelerator as the unit that all VTA stages share."""
    return Unit(name="the accelerator", stages=tuple(vta_stages))


def _cores(cores: tuple[int, ...]) -> str:
    if len(cores) == 1:
        return f"core {cores[0]}"
    return f"cores {', '.join(map(str, cores[:-1]))} and {cores[-1]}"


def _names(names: list[str]) -> str:
    if len(names) > _MOST_NAMES:
        return f"{len(names)} stages"
    return f"{', '.join(names[:-1])} and {names[-1]}"
