"""Divide a board's cores among its ARM stages to shorten the longest stage.

A stage with several cores has a thread on each, and its kernels share their loops among them. With
more stages than cores all stages share all cores, with one thread each. A board may let stages that
take next to no time, such as the decoding of a few numbers, run beside others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCores:
    """Where a stage's threads run: one thread on any of ``cores``, or one on each of them.

    A stage that ``is_light`` has one on any of them, beside those of other stages.
    """

    cores: tuple[int, ...] = ()
    threads: int = 1
    is_light: bool = False


def divide(
    stages_ms: Sequence[float], cores: Sequence[int], light_percent: int = 0
) -> tuple[StageCores, ...]:
    """Divide ``cores`` among stages that take ``stages_ms`` on one core.

    Each stage gets one core. Each further core goes to the stage that currently takes longest. A
    stage of at most ``light_percent`` of what the longest then takes gets none, if that makes the
    longest shorter.
    """
    if len(stages_ms) > len(cores):
        return (StageCores(cores=tuple(cores)),) * len(stages_ms)
    counts = _counts(stages_ms, len(cores), light_percent)
    for _ in range(len(cores) - sum(counts) if stages_ms else 0):
        stage = max(range(len(counts)), key=lambda n: stages_ms[n] / max(counts[n], 1))
        counts[stage] += 1
    left = iter(cores)
    return tuple(
        StageCores(cores=tuple(itertools.islice(left, count)), threads=count)
        if count
        else StageCores(cores=tuple(cores), is_light=True)
        for count in counts
    )


def _counts(stages_ms: Sequence[float], cores: int, light_percent: int) -> list[int]:
    """Return how many cores each stage needs if the longest takes as little time as possible."""
    if not light_percent or not any(stages_ms):
        return [1] * len(stages_ms)
    limits = {ms / count for ms in stages_ms for count in range(1, cores + 1) if ms}
    limits |= {100 * ms / light_percent for ms in stages_ms if ms}
    for limit in sorted(limits):
        needed = [
            0 if 100 * ms <= light_percent * limit else math.ceil(ms / limit - 1e-9)
            for ms in stages_ms
        ]
        if sum(needed) <= cores:
            return needed
    return [1] * len(stages_ms)


def longest_ms(
    stages_ms: Sequence[float], given: Sequence[StageCores], light_percent: int = 0
) -> float:
    """Return what the longest stage takes with the cores that :func:`divide` gives it, 0 of none.

    A light stage counts as one that it may be light beside.
    """
    return max(
        (
            100 * ms / light_percent if on.is_light else ms / on.threads
            for ms, on in zip(stages_ms, given, strict=True)
        ),
        default=0.0,
    )
