"""The search for the cheapest tiling: every cut that fits, costed in closed form.

The cost adds up what each module does and takes the slowest, so that it agrees with what
:mod:`vta_stages.timing.timing_model` finds when it plays the finished program through.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from vta_stages.accelerator import Accelerator
from vta_stages.lowering.kernel import (
    Accumulate,
    AddBias,
    AxisMap,
    FoldWindows,
    Kernel,
    Reset,
    Source,
)
from vta_stages.tiling.loop_split import loop_split
from vta_stages.tiling.patch import is_faster_whole
from vta_stages.tiling.tiling import (
    AccLayout,
    BiasSlots,
    Tiling,
    acc_capacity,
    channel_chunks,
    channel_runs,
    inp_capacity,
    wgt_capacity,
)
from vta_stages.timing.cost_model import CostModel

FOLD_INSTRUCTIONS = 11
"""Instructions of a tile of folded windows: a clear, two copies, the folds, their loops."""

SAMPLED_WORKS = 48
"""How much of a kernel is played through to count its uop loads."""


def cheapest_tiling(accelerator: Accelerator, kernel: Kernel, cost: CostModel) -> Tiling | None:
    """Return the cheapest tiling; None when none fits. Values of weights make no difference."""
    search = _Search(accelerator, kernel, cost)
    search.run()
    return search.best


def least_need(accelerator: Accelerator, kernel: Kernel) -> str:
    """Say which buffer cannot hold what one output pixel of one channel block needs."""
    search = _Search(accelerator, kernel, CostModel())
    needs = [
        (
            "input elements",
            max(search.patch(index, 1, 1).pixels for index in range(len(kernel.sources))),
            inp_capacity(accelerator),
        ),
        (
            "weight blocks",
            max(source.weight_blocks for source in kernel.sources),
            wgt_capacity(accelerator, kernel, 1, channels_outer=True),
        ),
        (
            "uops",
            max(source.rows.most_products * source.cols.most_products for source in kernel.sources),
            accelerator.uop_depth // 2,
        ),
    ]
    text = [f"{need} {what}, of {depth} that fit" for what, need, depth in needs if need > depth]
    return "one output pixel needs " + " and ".join(text)


def _cuts(extent: int) -> list[int]:
    """Return the sizes that cut ``extent`` into 1, 2, 3, ... nearly equal pieces."""
    return sorted({-(-extent // pieces) for pieces in range(1, extent + 1)}, reverse=True)


def _common_step(axis: AxisMap) -> int:
    """Return the distance of the coordinates that an axis needs, 1 if it varies."""
    gaps = np.unique(np.diff(np.unique(axis.src)))
    return int(gaps[0]) if len(gaps) == 1 else 1


class _PatchSize(NamedTuple):
    """The input pixels of a tile, per block; ``whole_rows`` follow each other in DRAM."""

    pixels: int
    rows: int
    whole_rows: bool


@dataclass(frozen=True, slots=True)
class _Works:
    """The loops of a kernel: pixel tiles, channel chunks, and the chunks of a tile's reduction.

    ``chunks`` are (source, uops of a sequence), one per chunk; each is worked on once for every
    part of its source.
    """

    pieces: int
    col_pieces: int
    channel_pieces: int
    chunks: tuple[tuple[int, int], ...]
    parts: tuple[int, ...]
    folded: tuple[int, ...]
    bias_slots: int

    def rim(self, pixels: int) -> int:
        """Return which rims of the picture a pixel tile has; folds differ there."""
        row, col = divmod(pixels, self.col_pieces)
        last_row, last_col = self.pieces // self.col_pieces - 1, self.col_pieces - 1
        ends = (row == 0, row == last_row, col == 0, col == last_col)
        return sum(end << bit for bit, end in enumerate(ends))

    @property
    def count(self) -> int:
        return self.pieces * self.channel_pieces * max(len(self.chunks), 1)

    def uop_loads(self, tiling: Tiling, depth: int) -> tuple[float, float]:
        """Return how often uops are loaded into a buffer of that depth, and how many.

        Uops hold absolute indices, so each combination of slots needs a sequence of its own. The
        first tiles are played through; the rest go on like the later half of those.
        """
        order: deque[tuple[tuple[int, ...], int]] = deque()
        resident: set[tuple[int, ...]] = set()
        used = 0
        tiles = self.pieces * self.channel_pieces
        sample = min(tiles, max(SAMPLED_WORKS // max(len(self.chunks), 1), 4))
        pixels_of_tile = tiling.rows * tiling.cols
        loads, late = np.zeros(2), np.zeros(2)
        for tile in range(sample):
            channels, pixels = divmod(tile, self.pieces)
            if not tiling.channels_outer:
                pixels, channels = divmod(tile, self.channel_pieces)
            acc = tile % tiling.acc_slots
            needed: list[tuple[tuple[int, ...], int]] = [((acc,), 2 * min(pixels_of_tile, 512))]
            # The biases of a chunk have a place of their own, or alternate between two slots.
            chunk = channels % 2 if tiling.channels_outer else channels
            if self.bias_slots == 1:
                chunk = channels
            needed.append(((acc, -1, chunk), pixels_of_tile if self.bias_slots else 0))
            # Parts but the first go to TEMP, which all accumulator slots share.
            for number, (source, uops) in enumerate(self.chunks):
                outer = pixels if tiling.keep_inp else tile
                inp = (outer * len(self.chunks) + number) % tiling.inp_slots
                outer = channels if tiling.keep_wgt else tile
                wgt = (outer * len(self.chunks) + number) % tiling.wgt_slots
                rim = self.rim(pixels) if source in self.folded else 0
                needed += [
                    ((0 if part else acc, inp, wgt, source, part, rim), uops)
                    for part in range(self.parts[source])
                ]
            for key, uops in needed:
                if key in resident:
                    continue
                order.append((key, uops))
                resident.add(key)
                used += uops
                while used > depth:
                    oldest, freed = order.popleft()
                    resident.discard(oldest)
                    used -= freed
                loads += (1, uops)
                late += np.array((1, uops)) * (tile >= sample // 2)
        total = loads + late * ((tiles - sample) / max(sample - sample // 2, 1))
        return float(total[0]), float(total[1])


class _Search:
    """Enumerates the tilings of one kernel and costs them in closed form."""

    def __init__(self, accelerator: Accelerator, kernel: Kernel, cost: CostModel) -> None:
        self.accelerator, self.kernel, self.cost = accelerator, kernel, cost
        self.best: Tiling | None = None
        self._spans: dict[tuple[int, int, int], tuple[int, int]] = {}
        self._products = [len(s.rows.out) * len(s.cols.out) for s in kernel.sources]
        runs = channel_runs(kernel)
        self._longest_run = max(end - first for first, end in runs)
        self._pass_cycles = sum(
            cost.gemm_step_cycles if isinstance(s, Reset | AddBias) else cost.alu_step_cycles
            for s in kernel.steps
            if not isinstance(s, Accumulate | FoldWindows)
        )
        self._steps = [_common_step(source.rows) for source in kernel.sources]
        # Vectors stay in the accumulator unless they would crowd out the tiles.
        resident = len(kernel.vectors) * kernel.co_blocks
        self._vectors_fit = resident <= accelerator.acc_depth // 8
        biases = len(kernel.biases) * kernel.co_blocks * accelerator.wgt_bytes
        vectors = len(kernel.vectors) * kernel.co_blocks * accelerator.acc_bytes
        # Transfers before the first product: the input vector of biases, their weights, vectors.
        self._setup = sum(
            cost.instruction_cycles + cost.dma_row_cycles + count_bytes / cost.bytes_per_cycle
            for count_bytes in (accelerator.inp_bytes, biases, vectors)
            if count_bytes
        )
        self._folded = [step.source for step in kernel.steps if isinstance(step, FoldWindows)]
        for index in self._folded:
            # Every pixel is copied once, whatever the number of windows that it is in.
            source = kernel.sources[index]
            self._products[index] = len(np.unique(source.rows.src)) * len(
                np.unique(source.cols.src)
            )
        self._repeats = [
            max(sum(isinstance(s, Accumulate) and s.source == i for s in kernel.steps), 1)
            for i in range(len(kernel.sources))
        ]
        self._rereads = max(self._repeats, default=1) > 1

    def run(self) -> None:
        """Try all cuts; :attr:`best` is the cheapest tiling that fits."""
        height, width = self.kernel.output.height, self.kernel.output.width
        dense = [s.ci_count for s in self.kernel.sources if not s.diagonal]
        col_cuts = _cuts(width)
        for cols in col_cuts[:1] + col_cuts[1::2]:
            for rows, co, ci in product(
                _cuts(height), _cuts(self._longest_run), _cuts(max(dense, default=1))
            ):
                self._try(rows, cols, co, ci)
            # Narrower tiles only cost more once some tile of this width fits, but for folded
            # windows, of which a flat tile copies the rims over and over.
            if self.best is not None and not self._folded:
                return

    def patch(self, index: int, rows: int, cols: int) -> _PatchSize:
        """Return the most input that a tile of this size needs."""
        source = self.kernel.sources[index]
        tall = self._span(2 * index, source.rows, self.kernel.output.height, rows)
        wide = self._span(2 * index + 1, source.cols, self.kernel.output.width, cols)
        rows = -(-tall // self._steps[index])
        # As patch_of decides for every tile.
        width = source.tensor.width
        if cols >= self.kernel.output.width and is_faster_whole(width, tall, rows, wide):
            return _PatchSize(tall * width, tall, True)
        return _PatchSize(rows * wide, rows, False)

    def _load_rows(self, index: int, rows: int, cols: int, blocks: int) -> tuple[int, int]:
        """Return the rows and the instructions of a transfer of that many blocks of a patch."""
        tensor = self.kernel.sources[index].tensor
        patch = self.patch(index, rows, cols)
        if patch.pixels == tensor.height * tensor.width:
            return 1, 1
        return (blocks, 1) if patch.whole_rows else (blocks * patch.rows, blocks)

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
        if source.diagonal:
            return co, 1
        return min(ci, source.ci_count), -(-source.ci_count // ci)

    def _try(self, rows: int, cols: int, co: int, ci: int) -> None:
        accelerator, kernel = self.accelerator, self.kernel
        inp_slot = wgt_slot = 1
        inp_blocks = wgt_blocks = 0
        pieces = -(-kernel.output.height // rows) * -(-kernel.output.width // cols)
        channel_pieces = len(channel_chunks(kernel, co))
        for index, source in enumerate(kernel.sources):
            blocks, chunks = self._chunks(source, co, ci)
            inp_slot = max(inp_slot, self.patch(index, rows, cols).pixels * blocks)
            tiles = source.weight_blocks * (
                1 if source.shared else co if source.diagonal else co * blocks
            )
            wgt_slot = max(wgt_slot, tiles)
            inp_blocks += chunks
            wgt_blocks += chunks
        temp_entries = rows * cols * co if kernel.uses_temp else 0
        for index in self._folded:
            temp_entries = max(temp_entries, self.patch(index, rows, cols).pixels * co)
        inp_depth = inp_capacity(accelerator) // inp_slot
        if not inp_depth:
            return
        for products, repeats in zip(self._products, self._repeats, strict=True):
            if products / pieces / max(repeats, 1) > accelerator.uop_depth // 2:
                return
        sequences = []
        for index, source in enumerate(kernel.sources):
            blocks, chunks = self._chunks(source, co, ci)
            uops = self._products[index] / pieces / self._repeats[index]
            if index in self._folded:
                uops = self.patch(index, rows, cols).pixels + self._folds(index, rows, cols)
            co_u, ci_u = loop_split(int(uops), co, 1 if source.diagonal else blocks)
            sequences += [(index, int(uops) * co_u * ci_u)] * chunks
        works = _Works(
            pieces,
            -(-kernel.output.width // cols),
            channel_pieces,
            tuple(sequences),
            tuple(self._repeats),
            tuple(self._folded),
            BiasSlots.of(kernel, co, channels_outer=True).count if len(kernel.biases) else 0,
        )
        all_wgt = max(wgt_blocks * channel_pieces, 1)
        for channels_outer in (True, False) if channel_pieces > 1 and pieces > 1 else (True,):
            capacity = wgt_capacity(accelerator, kernel, co, channels_outer=channels_outer)
            wgt_depth = capacity // wgt_slot
            if not wgt_depth:
                continue
            inp_options = [(min(inp_depth, 2), False)]
            if inp_depth >= 3 and inp_blocks > 2:
                inp_options.append((min(inp_depth, 4), False))
            if (
                channel_pieces > 1
                and inp_depth > inp_blocks
                and not (channels_outer and pieces > 1)
            ):
                inp_options.append((min(inp_depth, 2 * inp_blocks), True))
            if self._rereads and inp_depth >= inp_blocks > 2:
                # Blocks that stay until the last part has used them.
                inp_options.append((min(inp_depth, 2 * inp_blocks), False))
            wgt_options = [(min(wgt_depth, 2, all_wgt), all_wgt == 1)]
            if wgt_depth >= 4 < all_wgt:
                wgt_options.append((4, False))
            if self._rereads and wgt_depth >= wgt_blocks > 2:
                wgt_options.append((min(wgt_depth, 2 * wgt_blocks), False))
            if wgt_depth >= all_wgt > 1:
                wgt_options.append((all_wgt, True))
            elif channels_outer and pieces > 1 and wgt_depth > wgt_blocks:
                wgt_options.append((min(wgt_depth, 2 * wgt_blocks), True))
            for (inp_slots, keep_inp), (wgt_slots, keep_wgt), acc_slots in product(
                inp_options, wgt_options, (2, 1)
            ):
                tiling = Tiling(
                    rows=rows, cols=cols, co=co, ci=ci, channels_outer=channels_outer,
                    inp_slot=inp_slot, inp_slots=inp_slots, keep_inp=keep_inp,
                    wgt_slot=wgt_slot, wgt_slots=wgt_slots, keep_wgt=keep_wgt,
                    acc_slots=acc_slots, vectors_resident=self._vectors_fit and not channels_outer,
                    temp_entries=temp_entries,
                )  # fmt: skip
                capacity = acc_capacity(accelerator, kernel)
                if AccLayout.of(accelerator, kernel, tiling).end <= capacity:
                    self._consider(tiling, works)

    def _folds(self, index: int, rows: int, cols: int) -> int:
        """Return the vector operations that fold the windows of a tile's block."""
        source = self.kernel.sources[index]
        height = self.patch(index, rows, cols).rows
        aside = (source.cols.taps - 1) * cols * max(height - rows, 0)
        return aside + rows * cols * (source.cols.taps + source.rows.taps - 2)

    def _fold_cycles(self, index: int, tiling: Tiling) -> float:
        """Return the cycles of clearing TEMP and of folding the windows of a tile's block."""
        pixels = self.patch(index, tiling.rows, tiling.cols).pixels
        folds = self._folds(index, tiling.rows, tiling.cols)
        cleared = max(pixels - tiling.rows * tiling.cols, 0)
        return cleared * self.cost.gemm_step_cycles + folds * self.cost.alu_step_cycles

    def _consider(self, tiling: Tiling, works: _Works) -> None:
        """Cost a tiling: the slowest module, plus what cannot overlap."""
        cost, kernel, accelerator = self.cost, self.kernel, self.accelerator
        tiles = works.pieces * works.channel_pieces
        products = vectors = load = 0.0
        for index in range(len(kernel.sources)):
            products += self._product_cycles(index, tiling, works)
            load += self._load_cycles(index, tiling, works)
        for index in self._folded:
            vectors += kernel.co_blocks * works.pieces * self._fold_cycles(index, tiling)
            vectors += tiles * FOLD_INSTRUCTIONS * cost.instruction_cycles
        entries = kernel.output.height * kernel.output.width * kernel.co_blocks
        vectors += entries * self._pass_cycles
        vectors += len(kernel.steps) * tiles * (cost.instruction_cycles + cost.loop_cycles)
        full_rows = tiling.cols >= kernel.output.width
        whole = full_rows and tiling.rows >= kernel.output.height
        store_rows = 1 / tiling.co if whole else 1 if full_rows else tiling.rows
        store = entries * accelerator.out_bytes / cost.bytes_per_cycle
        store += works.pieces * kernel.co_blocks * store_rows * cost.dma_row_cycles
        first = self._setup + load / works.count + store / tiles
        compute = products + vectors
        # While the vector unit works on a tile, only as many chunks as there are slots can be
        # loaded for the next; where loading is what takes long, the rest of it comes on top.
        chunks = max(len(works.chunks), 1)
        wgt_slots = chunks if tiling.keep_wgt else tiling.wgt_slots
        ahead = min(min(tiling.inp_slots, wgt_slots) / chunks, 1.0)
        late = max(vectors - ahead * load, 0.0)
        if tiling.inp_slots == 1 or wgt_slots == 1 < chunks:
            late = compute
        if tiling.acc_slots == 1:
            compute, store = compute + store, 0.0
        # What the uops cost takes longest to find out; most tilings have lost by now.
        least = max(compute, load + late, store) + first
        if self.best is not None and least >= self.best.cycles:
            return
        loads, uops = works.uop_loads(tiling, accelerator.uop_depth * 7 // 8)
        uop_cycles = loads * (cost.dma_row_cycles + cost.instruction_cycles)
        uop_cycles += uops * accelerator.uop_bytes / cost.bytes_per_cycle
        # A load of uops finds the port taken now and then, and waits for half a burst.
        busy = min(load / max(compute + uop_cycles, 1.0), 1.0)
        uop_cycles += loads * busy * cost.port_cycles(cost.burst_bytes) / 2
        cycles = max(compute + uop_cycles, load + late, store) + first
        if self.best is None or cycles < self.best.cycles:
            self.best = dataclasses.replace(tiling, cycles=cycles)

    def _product_cycles(self, index: int, tiling: Tiling, works: _Works) -> float:
        """Return what the products of a source take, but for their uops."""
        source, repeats = self.kernel.sources[index], self._repeats[index]
        blocks, chunks = self._chunks(source, tiling.co, tiling.ci)
        blocks = 1 if source.diagonal else blocks
        sequence = int(self._products[index] / works.pieces / repeats) + 1
        co_u, ci_u = loop_split(sequence, tiling.co, blocks)
        loops = tiling.co / co_u * blocks / ci_u
        runs = works.pieces * works.channel_pieces * chunks * repeats
        steps = self._products[index] * self.kernel.co_blocks * source.ci_count
        return steps + runs * (self.cost.instruction_cycles + self.cost.loop_cycles * loops)

    def _load_cycles(self, index: int, tiling: Tiling, works: _Works) -> float:
        """Return what loading the inputs and the weights of a source takes."""
        cost, kernel, accelerator = self.cost, self.kernel, self.accelerator
        source, again = kernel.sources[index], self._repeats[index]
        blocks, chunks = self._chunks(source, tiling.co, tiling.ci)
        pixels = self.patch(index, tiling.rows, tiling.cols).pixels
        rows, instructions = self._load_rows(index, tiling.rows, tiling.cols, blocks)
        # Chunks that do not stay on chip are loaded again for every part.
        times = works.pieces * chunks * (again if chunks > tiling.inp_slots else 1)
        if source.diagonal or not tiling.keep_inp:
            times *= works.channel_pieces
        inputs = pixels * (kernel.co_blocks / works.channel_pieces if source.diagonal else blocks)
        if not source.diagonal:
            inputs = pixels * source.ci_count / chunks
        cycles = times * (
            inputs * accelerator.inp_bytes / cost.bytes_per_cycle
            + rows * cost.dma_row_cycles
            + instructions * cost.instruction_cycles
        )
        times = 1 if tiling.keep_wgt else works.pieces * (again if chunks > tiling.wgt_slots else 1)
        pairs = 1 if source.shared else kernel.co_blocks * source.ci_count
        return cycles + times * (
            source.weight_blocks * pairs * accelerator.wgt_bytes / cost.bytes_per_cycle
            + chunks * works.channel_pieces * (cost.dma_row_cycles + cost.instruction_cycles)
        )
