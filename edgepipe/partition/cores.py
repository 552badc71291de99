"""Divide a board's cores among its ARM stages to shorten the longest stage.

A stage with several cores has a thread on each, and its kernels share their loops among them. With
more stages than cores all stages share all cores, with one thread each.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCores:
    """Where a stage's threads run: one thread on any of ``cores``, or one on each of them."""

    cores: tuple[int, ...] = ()
    threads: int = 1


def divide(stages_ms: Sequence[float], cores: Sequence[int]) -> tuple[StageCores, ...]:
    """Divide ``cores`` among stages that take ``stages_ms`` on one core.

    Each stage gets one core. Each further core goes to the stage that currently takes longest.
    """
    if len(stages_ms) > len(cores):
        return (StageCores(cores=tuple(cores)),) * len(stages_ms)
    counts = [1] * len(stages_ms)
    for _ in range(len(cores) - len(stages_ms) if stages_ms else 0):
        longest = max(range(len(counts)), key=lambda stage: stages_ms[stage] / counts[stage])
        counts[longest] += 1
    left = iter(cores)
    return tuple(
        StageCores(cores=tuple(itertools.islice(left, count)), threads=count) for count in counts
    )
