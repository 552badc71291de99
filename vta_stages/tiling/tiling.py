"""How a kernel is cut into tiles that fit the buffers: the cheapest of all cuts.

The output is cut into pixels (``rows`` x ``cols``) and channel blocks (``co``), the reduction of a
tile into chunks of ``ci`` input blocks. The buffers are cut into equal slots, so that a chunk can
be loaded while the one before it is worked on.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from vta_stages.accelerator import Accelerator
from vta_stages.lowering.kernel import (
    Kernel,
)
from vta_stages.tiling.patch import Tile

SPARE_BASE = 0
"""Where the accumulator has ``acc_hazard_steps`` entries that nothing reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """A cut of a kernel. Counts are blocks (``co``, ``ci``) and pixels (``rows``, ``cols``).

    ``channels_outer`` makes channel chunks the outer loop (weights stay, and constants are those of
    a chunk), else pixels (inputs stay, and so do the constants of all channels). Slots are in
    elements of their buffer and ``temp_entries`` in those of the accumulator; ``keep_inp`` and
    ``keep_wgt`` tell that blocks stay for as long as the outer loop needs them.
    ``vectors_resident`` keeps the vectors of all channels in the accumulator.
    """

    rows: int
    cols: int
    co: int
    ci: int
    channels_outer: bool
    inp_slot: int
    inp_slots: int
    keep_inp: bool
    wgt_slot: int
    wgt_slots: int
    keep_wgt: bool
    acc_slots: int
    vectors_resident: bool
    temp_entries: int
    cycles: float = 0.0


@dataclass(frozen=True, slots=True)
class AccLayout:
    """Where things lie in the accumulator: spare entries, vectors, TEMP, the slots of tiles."""

    vectors: int
    temp: int
    main: tuple[int, ...]
    entries: int
    end: int

    @staticmethod
    def of(accelerator: Accelerator, kernel: Kernel, tiling: Tiling) -> AccLayout:
        """Lay out the accumulator of a tiling."""
        blocks = kernel.co_blocks if tiling.vectors_resident else tiling.co
        vectors = SPARE_BASE + accelerator.acc_hazard_steps
        temp = vectors + len(kernel.vectors) * blocks
        entries = tiling.rows * tiling.cols * tiling.co
        first = temp + tiling.temp_entries
        main = tuple(first + slot * entries for slot in range(tiling.acc_slots))
        return AccLayout(vectors, temp, main, entries, first + tiling.acc_slots * entries)


def constant_input(accelerator: Accelerator) -> int:
    """Return the input element that tiles of constants are multiplied with, the last one."""
    return accelerator.inp_depth - 1


def inp_capacity(accelerator: Accelerator) -> int:
    """Return the input elements that slots can have."""
    return constant_input(accelerator)


@dataclass(frozen=True, slots=True)
class ConstantSlots:
    """Slots for the tiles of constants at the end of the weight buffer; a slot holds ``blocks``."""

    count: int
    blocks: int

    @staticmethod
    def of(kernel: Kernel, co: int, *, channels_outer: bool) -> ConstantSlots:
        """Keep all of them where every tile is of other channels, else two chunks in turn."""
        if channels_outer and 2 * co < kernel.co_blocks:
            return ConstantSlots(2, co)
        return ConstantSlots(1, kernel.co_blocks)


def wgt_capacity(accelerator: Accelerator, kernel: Kernel, co: int, *, channels_outer: bool) -> int:
    """Return the weight tiles that slots can have."""
    slots = ConstantSlots.of(kernel, co, channels_outer=channels_outer)
    return accelerator.wgt_depth - len(kernel.constants) * slots.count * slots.blocks


def acc_capacity(accelerator: Accelerator, kernel: Kernel) -> int:
    """Return the usable accumulator entries; an ALU operand is an index as wide as an inp index."""
    if kernel.uses_temp:
        return min(accelerator.acc_depth, accelerator.inp_depth)
    return accelerator.acc_depth


def tiles_of(kernel: Kernel, tiling: Tiling) -> list[Tile]:
    """Return the pixel tiles in row-major order; the last row and column may be smaller."""
    height, width = kernel.output.height, kernel.output.width
    return [
        Tile((y, min(y + tiling.rows, height)), (x, min(x + tiling.cols, width)))
        for y in range(0, height, tiling.rows)
        for x in range(0, width, tiling.cols)
    ]


def channel_chunks(kernel: Kernel, co: int) -> list[tuple[int, int]]:
    """Return (first block, count) chunks whose blocks read the same input blocks."""
    chunks = []
    for first, end in channel_runs(kernel):
        chunks += [(at, min(co, end - at)) for at in range(first, end, co)]
    return chunks


def channel_runs(kernel: Kernel) -> list[tuple[int, int]]:
    """Return [first, end) runs of output blocks that read the same input blocks in every source."""
    starts = np.zeros(kernel.co_blocks, bool)
    starts[0] = True
    for source in kernel.sources:
        if not source.diagonal:
            starts[1:] |= np.diff(source.ci_first) != 0
    edges = [*np.flatnonzero(starts).tolist(), kernel.co_blocks]
    return list(pairwise(edges))
