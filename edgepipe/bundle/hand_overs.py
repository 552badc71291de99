"""Tensors that one stage hands to others, in memory that both share.

Each stage writes into the buffer that the next one reads, in the layout that an accelerator on
either side needs. So a hand-over copies nothing. Where a kernel at its ARM end cannot use the
layout, the compiler places a copy in the stage's plan (``copies.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from edgepipe.bundle.manifest import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEnds:
    """A stage with the tensors that it reads and writes."""

    name: str
    device: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """A tensor between stages, or between a stage and the caller.

    ``writer`` is the stage that writes it, empty for the caller; ``readers`` are those that read
    it, none for a result that only the caller reads. ``layout`` is the one in memory, which all of
    them use, and ``bytes`` its size. ``crosses`` says whether a CPU and an accelerator take part,
    so that caches may have to be maintained.
    """

    tensor: str
    writer: str
    readers: tuple[str, ...]
    layout: str
    bytes: int
    crosses: bool


def hand_overs(stages: Iterable[StageEnds], tensors: Mapping[str, Tensor]) -> tuple[HandOver, ...]:
    """Return the hand-overs of a bundle with these ``stages``, in the order of ``tensors``."""
    stages = tuple(stages)
    found = []
    for name, tensor in tensors.items():
        writers = [stage for stage in stages if name in stage.writes]
        readers = [stage for stage in stages if name in stage.reads]
        devices = {stage.device for stage in (*writers, *readers)}
        found.append(
            HandOver(
                tensor=name,
                writer=writers[0].name if writers else "",
                readers=tuple(stage.name for stage in readers),
                layout=tensor.layout,
                bytes=tensor.bytes,
                crosses=len(devices) > 1,
            )
        )
    return tuple(found)
