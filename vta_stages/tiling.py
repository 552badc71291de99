"""How a kernel is cut into tiles that fit the buffers: every sensible cut is costed, the best taken.

The output is cut into pixels (``rows`` x ``cols``) and channel blocks (``co``); the reduction of a
tile into chunks of ``ci`` input blocks. The buffers are cut into equal slots, so that a chunk can be
loaded while the one before it is worked on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from vta_stages.accelerator import Accelerator
from vta_stages.errors import LayerError
from vta_stages.kernel import Accumulate, AxisMap, Kernel, Reset, Source
from vta_stages.patch import Tile
from vta_stages.timing import CostModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """A cut of a kernel. Counts are blocks (``co``, ``ci``) and pixels (``rows``, ``cols``).

    ``channels_outer`` makes channel chunks the outer loop (weights stay), else pixels (inputs stay).
    Slots are in elements of their buffer. ``vectors_resident`` keeps the constants of all channels
    in the accumulator.
    """

    rows: int
    cols: int
    co: int
    ci: int
    channels_outer: bool
    inp_slot: int
    inp_slots: int
    wgt_slot: int
    wgt_slots: int
    acc_slots: int
    vectors_resident: bool
    cycles: float = 0.0


@dataclass(frozen=True, slots=True)
class AccLayout:
    """Where things lie in the accumulator: constants, spare entries, TEMP, the slots of tiles."""

    spare: int
    temp: int
    main: tuple[int, ...]
    end: int

    @staticmethod
    def of(accelerator: Accelerator, kernel: Kernel, tiling: Tiling) -> AccLayout:
        """Lay out the accumulator of a tiling."""
        blocks = kernel.co_blocks if tiling.vectors_resident else tiling.co
        spare = len(kernel.vectors) * blocks
        temp = spare + accelerator.acc_hazard_steps
        entries = tiling.rows * tiling.cols * tiling.co
        first = temp + (entries if kernel.uses_temp else 0)
        main = tuple(first + slot * entries for slot in range(tiling.acc_slots))
        return AccLayout(spare, temp, main, first + tiling.acc_slots * entries)


def acc_capacity(accelerator: Accelerator, kernel: Kernel) -> int:
    """Return the usable accumulator entries; an ALU operand is an index as wide as an inp index."""
    if kernel.uses_temp:
        return min(accelerator.acc_depth, accelerator.inp_depth)
    return accelerator.acc_depth


def loop_split(products: int, co: int, ci: int) -> tuple[int, int]:
    """Return how many output and input blocks the uops cover; the loops do the rest.

    A loop iteration restarts the pipeline, so uop sequences should be long, but they must fit the
    uop buffer several times over.
    """
    co_unrolled = _largest_divisor(co, TARGET_UOPS // max(products, 1))
    ci_unrolled = 1
    if products * co_unrolled < TARGET_UOPS // 8:
        ci_unrolled = _largest_divisor(ci, TARGET_UOPS // max(products * co_unrolled, 1))
    return co_unrolled, ci_unrolled


TARGET_UOPS = 1024


def _largest_divisor(value: int, limit: int) -> int:
    return next(d for d in range(min(value, max(limit, 1)), 0, -1) if value % d == 0)


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


def choose_tiling(accelerator: Accelerator, kernel: Kernel, cost: CostModel) -> Tiling:
    """Return the cheapest tiling. Raises LayerError, with the numbers, when none fits."""
    best: Tiling | None = None
    for tiling in _Search(accelerator, kernel, cost).candidates():
        if best is None or tiling.cycles < best.cycles:
            best = tiling
    if best is None:
        raise LayerError(
            f"{kernel.name}: {_least_need(accelerator, kernel)} on {accelerator.configuration}",
            hint=f"place it on arm with --place {kernel.name}=arm",
        )
    return best


def _least_need(accelerator: Accelerator, kernel: Kernel) -> str:
    """Say what one output pixel of one channel block needs, and what there is."""
    search = _Search(accelerator, kernel, CostModel())
    patches = [search.patch(index, 1, 1)[0] for index in range(len(kernel.sources))]
    tiles = [source.tile_count for source in kernel.sources]
    return (
        f"one output pixel needs {max(patches)} of {accelerator.inp_depth} input elements and "
        f"{max(tiles)} of {accelerator.wgt_depth} weight tiles"
    )


def _cuts(extent: int) -> list[int]:
    """Return the sizes that cut ``extent`` into 1, 2, 3, ... nearly equal pieces."""
    return sorted({-(-extent // pieces) for pieces in range(1, extent + 1)}, reverse=True)


class _Search:
    """Enumerates the tilings of one kernel and costs them in closed form."""

    def __init__(self, accelerator: Accelerator, kernel: Kernel, cost: CostModel) -> None:
        self.accelerator, self.kernel, self.cost = accelerator, kernel, cost
        self._spans: dict[tuple[int, int, int], tuple[int, int]] = {}
        self._products = [len(s.rows.out) * len(s.cols.out) for s in kernel.sources]
        runs = channel_runs(kernel)
        self._longest_run = max(end - first for first, end in runs)
        self._alu_passes = sum(
            0 if isinstance(s, Accumulate) else 1 if isinstance(s, Reset) else cost.alu_step_cycles
            for s in kernel.steps
        )
        # Vectors stay in the accumulator unless they would crowd out the tiles.
        resident = len(kernel.vectors) * kernel.co_blocks
        self._vectors_resident = resident <= accelerator.acc_depth // 8
        self._repeats = [
            sum(isinstance(s, Accumulate) and s.source == i for s in kernel.steps)
            for i in range(len(kernel.sources))
        ]

    def candidates(self) -> Iterator[Tiling]:
        height, width = self.kernel.output.height, self.kernel.output.width
        dense = [s.ci_count for s in self.kernel.sources if not s.diagonal and s.tensor]
        col_cuts = _cuts(width)
        for cols in col_cuts[:1] + col_cuts[1::2]:
            found = False
            for rows in _cuts(height):
                for co in _cuts(self._longest_run):
                    for ci in _cuts(max(dense, default=1)):
                        for tiling in self._fit(rows, cols, co, ci):
                            found = True
                            yield tiling
            # Narrower tiles only cost more once some tile of this width fits well.
            if found:
                return

    def patch(self, index: int, rows: int, cols: int) -> tuple[int, int]:
        """Return the most input pixels and rows that a tile of this size needs."""
        source = self.kernel.sources[index]
        if source.tensor is None:
            return 1, 1
        tall = self._span(2 * index, source.rows, self.kernel.output.height, rows)
        wide = self._span(2 * index + 1, source.cols, self.kernel.output.width, cols)
        return tall * wide, tall

    def _span(self, key: int, axis: AxisMap, extent: int, size: int) -> int:
        known = self._spans.get((key, extent, size))
        if known is None:
            low = np.full(extent, np.iinfo(np.int64).max)
            high = np.full(extent, -1)
            np.minimum.at(low, axis.out, axis.src)
            np.maximum.at(high, axis.out, axis.src)
            starts = np.arange(0, extent, size)
            spans = np.maximum.reduceat(high, starts) - np.minimum.reduceat(low, starts) + 1
            known = (int(max(spans.max(), 0)), 0)
            self._spans[(key, extent, size)] = known
        return known[0]

    def _chunks(self, source: Source, co: int, ci: int) -> tuple[int, int]:
        """Return the blocks per chunk and the chunks of one tile."""
        if source.tensor is None:
            return 1, 1
        if source.diagonal:
            return co, 1
        return min(ci, source.ci_count), -(-source.ci_count // ci)

    def _fit(self, rows: int, cols: int, co: int, ci: int) -> Iterator[Tiling]:
        accelerator, kernel = self.accelerator, self.kernel
        inp_slot = wgt_slot = 1
        inp_blocks = wgt_blocks = wgt_total = 0
        pieces = -(-kernel.output.height // rows) * -(-kernel.output.width // cols)
        channel_pieces = len(channel_chunks(kernel, co))
        for index, source in enumerate(kernel.sources):
            blocks, chunks = self._chunks(source, co, ci)
            inp_slot = max(inp_slot, self.patch(index, rows, cols)[0] * blocks)
            tiles = source.tile_count * (
                1 if source.shared else co if source.diagonal else co * blocks
            )
            wgt_slot = max(wgt_slot, tiles)
            inp_blocks += chunks
            wgt_blocks += chunks
            wgt_total += tiles * chunks * (1 if source.shared else channel_pieces)
        if inp_slot > accelerator.inp_depth or wgt_slot > accelerator.wgt_depth:
            return
        products = max((n / pieces for n in self._products), default=0.0)
        if products > accelerator.uop_depth // 2:
            return
        all_wgt_blocks = wgt_blocks * channel_pieces
        for channels_outer in (True, False) if channel_pieces > 1 and pieces > 1 else (True,):
            inp_slots = accelerator.inp_depth // inp_slot
            keep_inp = not channels_outer or pieces == 1
            keep_inp = keep_inp and (channel_pieces > 1) and inp_slots > inp_blocks
            inp_slots = min(inp_slots, 2 * inp_blocks if keep_inp else 2)
            wgt_slots = accelerator.wgt_depth // wgt_slot
            if wgt_slots >= all_wgt_blocks:
                wgt_slots, keep_wgt = all_wgt_blocks, True
            else:
                keep_wgt = channels_outer and pieces > 1 and wgt_slots > wgt_blocks
                wgt_slots = min(wgt_slots, 2 * wgt_blocks if keep_wgt else 2)
            for acc_slots in (2, 1):
                tiling = Tiling(
                    rows=rows, cols=cols, co=co, ci=ci, channels_outer=channels_outer,
                    inp_slot=inp_slot, inp_slots=max(inp_slots, 1),
                    wgt_slot=wgt_slot, wgt_slots=max(wgt_slots, 1),
                    acc_slots=acc_slots, vectors_resident=self._vectors_resident,
                )  # fmt: skip
                capacity = acc_capacity(accelerator, kernel)
                if AccLayout.of(accelerator, kernel, tiling).end > capacity:
                    continue
                yield self._costed(tiling, pieces, channel_pieces, keep_inp, keep_wgt)

    def _costed(
        self, tiling: Tiling, pieces: int, channel_pieces: int, keep_inp: bool, keep_wgt: bool
    ) -> Tiling:
        """Return the tiling with its cycles: the slowest module, plus what cannot overlap."""
        cost, kernel, accelerator = self.cost, self.kernel, self.accelerator
        compute = load = 0.0
        uops = 0.0
        chunk_count = 0
        full_rows = tiling.cols >= kernel.output.width
        whole = full_rows and tiling.rows >= kernel.output.height
        for index, source in enumerate(kernel.sources):
            blocks, chunks = self._chunks(source, tiling.co, tiling.ci)
            products = self._products[index] / pieces
            pairs = kernel.co_blocks * source.ci_count
            compute += self._products[index] * pairs
            per_tap = products / self._repeats[index] if self._repeats[index] > 1 else products
            co_u, ci_u = loop_split(int(per_tap) + 1, tiling.co, 1 if source.diagonal else blocks)
            runs = pieces * channel_pieces * chunks * self._repeats[index]
            loops = tiling.co / co_u * (1 if source.diagonal else blocks / ci_u)
            compute += runs * (cost.instruction_cycles + cost.loop_cycles * loops)
            uops += products * co_u * ci_u
            chunk_count += chunks
            if source.tensor is None:
                continue
            pixels, height = self.patch(index, tiling.rows, tiling.cols)
            times = pieces * (source.diagonal or keep_inp or channel_pieces)
            channels = kernel.co_blocks if source.diagonal else source.ci_count
            rows = 1 / channels if whole else 1 if full_rows else height
            load += (
                times
                * channels
                * (pixels * accelerator.inp_bytes / cost.bus_bytes + rows * cost.dma_row_cycles)
            )
            tiles = source.tile_count * (1 if source.shared else pairs)
            load += (1 if keep_wgt else pieces) * (
                tiles * accelerator.wgt_bytes / cost.bus_bytes
                + chunks * channel_pieces * cost.dma_row_cycles
            )
        entries = kernel.output.height * kernel.output.width * kernel.co_blocks
        compute += entries * self._alu_passes
        passes = len(kernel.steps) * pieces * channel_pieces
        compute += passes * (cost.instruction_cycles + cost.loop_cycles * tiling.co)
        combinations = 2 if chunk_count == 1 else 4
        if uops * combinations > accelerator.uop_depth * 0.9 and pieces * channel_pieces > 1:
            streamed = pieces * channel_pieces * (uops * chunk_count)
            compute += streamed * accelerator.uop_bytes / cost.bus_bytes
        else:
            compute += uops * combinations * accelerator.uop_bytes / cost.bus_bytes
        store_rows = 1 / tiling.co if whole else 1 if full_rows else tiling.rows
        store = entries * accelerator.out_bytes / cost.bus_bytes
        store += pieces * kernel.co_blocks * store_rows * cost.dma_row_cycles
        work = pieces * channel_pieces * max(chunk_count, 1)
        first = load / work + store / (pieces * channel_pieces)
        if tiling.acc_slots == 1:
            compute, store = compute + store, 0.0
        if tiling.inp_slots == 1 or (tiling.wgt_slots == 1 and not keep_wgt):
            compute, load = compute + load, 0.0
        return dataclasses.replace(tiling, cycles=max(compute, load, store) + first)



