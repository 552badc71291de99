"""How a kernel is divided into tiles that fit the buffers.

The output is divided into tiles of ``rows`` x ``cols`` pixels and ``co`` channel blocks, and the
reduction of a tile into chunks of ``ci`` input blocks. The buffers are divided into equal slots, so
that a chunk can be loaded while the chunk before it is processed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from vta_stages.accelerator import Accelerator
from vta_stages.lowering.kernel import (
    Kernel,
)
from vta_stages.tiling.patch import OutputArea

SPARE_BASE = 0
"""The first of ``acc_hazard_steps`` accumulator entries that nothing reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """One way to divide a kernel. ``co`` and ``ci`` count blocks, ``rows`` and ``cols`` pixels.

    With ``channels_outer``, the outer loop runs over chunks of channels: weights stay on chip, and
    biases are those of one chunk. Otherwise it runs over areas: inputs stay on chip, and so do the
    biases of all channels. ``inp_slot`` and ``wgt_slot`` are elements of their buffers,
    ``temp_entries`` entries of the accumulator. ``keep_inp`` and ``keep_wgt`` say that blocks stay
    on chip as long as the outer loop needs them, and ``vectors_resident`` that the vectors of all
    channels stay in the accumulator. ``cycles`` is what the search expects the kernel to take.
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
    """The first entries of what the accumulator holds: vectors, TEMP, and the slots of tiles.

    Each slot in ``main`` has ``entries`` entries. ``end`` is the first unused entry.
    """

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


def bias_input_element(accelerator: Accelerator) -> int:
    """Return the input element of the input vector of biases, the last one."""
    return accelerator.inp_depth - 1


def inp_capacity(accelerator: Accelerator) -> int:
    """Return how many input elements are left for slots."""
    return bias_input_element(accelerator)


@dataclass(frozen=True, slots=True)
class BiasSlots:
    """Slots at the end of the weight buffer, each for the biases of ``blocks`` channel blocks."""

    count: int
    blocks: int

    @staticmethod
    def of(kernel: Kernel, co: int, *, channels_outer: bool) -> BiasSlots:
        """Hold all biases if areas are the outer loop, otherwise those of two chunks in turn."""
        if channels_outer and 2 * co < kernel.co_blocks:
            return BiasSlots(2, co)
        return BiasSlots(1, kernel.co_blocks)


def wgt_capacity(accelerator: Accelerator, kernel: Kernel, co: int, *, channels_outer: bool) -> int:
    """Return how many weight blocks are left for slots."""
    slots = BiasSlots.of(kernel, co, channels_outer=channels_outer)
    return accelerator.wgt_depth - len(kernel.biases) * slots.count * slots.blocks


def acc_capacity(accelerator: Accelerator, kernel: Kernel) -> int:
    """Return how many accumulator entries a kernel can use.

    The source index of an ALU step is only as wide as an index of the input buffer.
    """
    if kernel.uses_temp or kernel.uses_channels or accelerator.implementation == "chisel":
        return min(accelerator.acc_depth, alu_sources(accelerator))
    return accelerator.acc_depth


def alu_sources(accelerator: Accelerator) -> int:
    """Return how many accumulator entries the source index of an ALU step can name."""
    return accelerator.inp_depth // accelerator.parts


def output_areas(kernel: Kernel, tiling: Tiling) -> list[OutputArea]:
    """Return the areas of all tiles in row-major order; the last row and column may be smaller."""
    height, width = kernel.output.height, kernel.output.width
    return [
        OutputArea((y, min(y + tiling.rows, height)), (x, min(x + tiling.cols, width)))
        for y in range(0, height, tiling.rows)
        for x in range(0, width, tiling.cols)
    ]


def channel_chunks(kernel: Kernel, co: int) -> list[tuple[int, int]]:
    """Return the (first block, count) of chunks whose blocks read the same input blocks."""
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
