"""The memory that the cores and the accelerator share, which a board's ``arm_timing`` states.

Times of stages are those of a stage alone. In a pipeline the stages use the memory at the same
time. By this model, what a stage does not get of the memory is what the threads of others move
meanwhile, on average:

    a stage is not faster than its bytes at     bandwidth - bytes of the others / interval
    frames are not closer together than         bytes of all stages / bandwidth

The others are the stages of other crews. Those of the same crew count as far as its other threads
run them: not at all if it has one thread, as the accelerator's crew has.

How much longer a single access takes while others wait for the same memory is not modelled, so this
is the least that sharing costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Protocol

import numpy as np

from edgepipe.partition.crew_rate import Crews


class Traffic(Protocol):
    """An operator or its record: its name, which is that of its result, and what it reads."""

    @property
    def name(self) -> str:
        """The name of the operator and of its result."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that it reads."""

    @property
    def constant_bytes(self) -> int:
        """The bytes of its constants."""


def shared_interval_ms(
    interval_ms: Callable[[Sequence[float]], float],
    stages_ms: Sequence[float],
    stages_bytes: Sequence[int],
    who: Crews,
    bytes_per_s: int,
) -> float:
    """Return the time between frames in ms of stages that share a memory of ``bytes_per_s``.

    ``interval_ms`` gives it for stages that take so long, ``stages_ms`` are the times of stages
    alone, ``stages_bytes`` what each reads and writes for a frame, and ``who`` runs them. With 0
    bytes a second, nothing is known about the memory and nothing is added.
    """
    alone_ms = interval_ms(stages_ms)
    if not bytes_per_s:
        return alone_ms
    together_ms = max(alone_ms, 1e3 * sum(stages_bytes) / bytes_per_s)
    longer_ms = stretched_ms(stages_ms, stages_bytes, who, bytes_per_s, together_ms)
    if longer_ms == tuple(stages_ms):
        return together_ms
    return max(together_ms, interval_ms(longer_ms))


def stretched_ms(
    stages_ms: Sequence[float],
    stages_bytes: Sequence[int],
    who: Crews,
    bytes_per_s: int,
    interval_ms: float,
) -> tuple[float, ...]:
    """Return the times of stages in ms while the others run, with frames ``interval_ms`` apart.

    ``interval_ms`` must be at least what all bytes take together.
    """
    per_ms, total = bytes_per_s / 1e3, sum(stages_bytes)
    of_crew = dict.fromkeys(who.threads, 0)
    for crew, size in zip(who.of_stages, stages_bytes, strict=True):
        of_crew[crew] += size

    def beside(crew: str, size: int) -> float:
        """Return the bytes of others that move while a stage of ``crew`` moves its own."""
        return total - of_crew[crew] + (of_crew[crew] - size) * (1 - 1 / who.threads[crew])

    return tuple(
        max(ms, size / (per_ms - beside(crew, size) / interval_ms)) if size else ms
        for ms, size, crew in zip(stages_ms, stages_bytes, who.of_stages, strict=True)
    )


def operators_bytes(operators: Iterable[Traffic], sizes: Mapping[str, int]) -> int:
    """Return what operators read and write on ARM for a frame, as if caches kept nothing.

    ``sizes`` has the bytes of their tensors by name.
    """
    return sum(
        operator.constant_bytes
        + sizes.get(operator.name, 0)
        + sum(sizes.get(name, 0) for name in operator.inputs)
        for operator in operators
    )


def tensor_bytes(shape: Sequence[int], dtype: str) -> int:
    """Return the bytes of a tensor in C order, 0 for what is none of static shape."""
    return 0 if dtype in ("tuple", "dynamic") else prod(shape) * np.dtype(dtype).itemsize
