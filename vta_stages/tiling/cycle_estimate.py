"""The cycles of a tiling in closed form.

The estimate adds up the work of each module and takes the slowest, so that it agrees with what
:mod:`vta_stages.timing.timing_model` finds when it simulates the finished program.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from vta_stages.accelerator import Accelerator
from vta_stages.lowering.kernel import (
    Accumulate,
    Accumulator,
    AddBias,
    FoldWindows,
    Immediate,
    Reset,
)
from vta_stages.tiling.kernel_shape import KernelShape, TileSize
from vta_stages.tiling.loop_nest import LoopNest
from vta_stages.tiling.loop_split import loop_split
from vta_stages.tiling.tiling import Tiling
from vta_stages.timing.cost_model import CostModel

RING_TILES = 6
"""How many tiles are followed to find what slots of weights cost; the later half counts."""

FOLD_INSTRUCTIONS = 11
"""Instructions of a tile of folded windows: a clear, two copies, the folds, and their loops."""


class ModuleCycles(NamedTuple):
    """Cycles of each module for a whole kernel, without the loads of uops.

    ``late`` are loads that cannot overlap with vector operations, and ``first`` is the work before
    the first product and after the last.
    """

    compute: float
    load: float
    late: float
    store: float
    first: float

    def total(self, uop_cycles: float = 0.0) -> float:
        """Return the cycles of the kernel: the slowest module, plus what cannot overlap."""
        return max(self.compute + uop_cycles, self.load + self.late, self.store) + self.first


class CycleEstimate:
    """Estimates the tilings of one kernel. All results are cycles of the accelerator's clock."""

    def __init__(self, accelerator: Accelerator, shape: KernelShape, cost: CostModel) -> None:
        cost = _of_all_parts(cost, accelerator.parts)
        self._accelerator, self._shape, self._cost = accelerator, shape, cost
        self._kernel = kernel = shape.kernel
        self._pass_cycles = sum(
            cost.gemm_step_cycles
            if isinstance(s, Reset | AddBias)
            else cost.alu_step_cycles
            if isinstance(s, Immediate)
            else cost.vector_step_cycles
            for s in kernel.steps
            if not isinstance(s, Accumulate | FoldWindows) and s.target is not Accumulator.CHANNELS
        )
        biases = len(kernel.biases) * kernel.co_blocks * accelerator.wgt_bytes
        vectors = len(kernel.vectors) * kernel.co_blocks * accelerator.acc_bytes
        # Transfers before the first product: the input vector of biases, their weights, vectors,
        # and the table.
        self._setup = sum(
            cost.instruction_cycles + more + cost.dma_row_cycles + count_bytes / bytes_per_cycle
            for count_bytes, bytes_per_cycle, more in (
                (accelerator.inp_bytes, cost.bytes_per_cycle, cost.tensor_load_cycles),
                (biases, cost.weight_bytes_per_cycle, cost.tensor_load_cycles),
                (vectors, cost.bytes_per_cycle, 0),
                (len(kernel.table), cost.bytes_per_cycle, 0),
            )
            if count_bytes
        )

    def without_uops(self, tiling: Tiling, loops: LoopNest) -> ModuleCycles:
        """Return the cycles of each module, without the loads of uops."""
        size = TileSize(tiling.rows, tiling.cols, tiling.co, tiling.ci)
        products = load = 0.0
        for index in range(len(self._kernel.sources)):
            products += self._product_cycles(index, size, loops)
            load += self._load_cycles(index, size, tiling, loops)
        vectors = self._vector_cycles(size, loops)
        compute, store = products + vectors, self._store_cycles(size, loops)
        first = self._setup + load / loops.iterations + store / loops.tiles
        late = self._late_cycles(tiling, loops, compute, vectors, load)
        if tiling.acc_slots == 1:
            compute, store = compute + store, 0.0
        return ModuleCycles(compute, load, late, store, first)

    def uop_cycles(self, tiling: Tiling, loops: LoopNest, modules: ModuleCycles) -> float:
        """Return the cycles that compute spends on loading uops."""
        cost, accelerator = self._cost, self._accelerator
        loads, uops = loops.uop_loads(tiling, accelerator.uop_depth * 7 // 8)
        cycles = loads * (cost.dma_row_cycles + cost.instruction_cycles)
        cycles += uops * accelerator.uop_bytes / cost.bytes_per_cycle
        # A load of uops sometimes finds the port occupied and waits for half a burst.
        busy = min(modules.load / max(modules.compute + cycles, 1.0), 1.0)
        return cycles + loads * busy * cost.port_cycles(cost.burst_bytes) / 2

    def _vector_cycles(self, size: TileSize, loops: LoopNest) -> float:
        """Return the cycles of all steps except products."""
        cost, kernel = self._cost, self._kernel
        cycles = 0.0
        for index in self._shape.folded:
            cycles += kernel.co_blocks * loops.areas * self._fold_cycles(index, size)
            cycles += loops.tiles * FOLD_INSTRUCTIONS * cost.instruction_cycles
        cycles += self._entries * self._pass_cycles
        return cycles + len(kernel.steps) * loops.tiles * (
            cost.instruction_cycles + cost.loop_cycles
        )

    @property
    def _entries(self) -> int:
        """The accumulator entries of the whole output."""
        output = self._kernel.output
        return output.height * output.width * self._kernel.co_blocks

    def _fold_cycles(self, index: int, size: TileSize) -> float:
        """Return the cycles of clearing TEMP and folding windows, for one area in one block."""
        pixels = self._shape.patch(index, size.rows, size.cols).pixels
        folds = self._shape.folds(index, size.rows, size.cols)
        cleared = max(pixels - size.rows * size.cols, 0)
        return cleared * self._cost.gemm_step_cycles + folds * self._cost.vector_step_cycles

    def _store_cycles(self, size: TileSize, loops: LoopNest) -> float:
        """Return the cycles of the store module."""
        cost, output = self._cost, self._kernel.output
        full_rows = size.cols >= output.width
        whole = full_rows and size.rows >= output.height
        rows = 1 / size.co if whole else 1 if full_rows else size.rows
        count_bytes = self._entries * self._accelerator.out_bytes
        rows = loops.areas * self._kernel.co_blocks * rows
        latency = cost.store_row_latency(round(count_bytes / rows))
        return count_bytes / cost.bytes_per_cycle + rows * latency

    def _late_cycles(
        self, tiling: Tiling, loops: LoopNest, compute: float, vectors: float, load: float
    ) -> float:
        """Return by how much loads are delayed.

        While the vector unit processes a tile, only as many chunks as there are slots can be loaded
        for the next tile. If loading is the slowest, the rest of that time is added.
        """
        chunks = max(len(loops.chunks), 1)
        wgt_slots = chunks if tiling.keep_wgt else tiling.wgt_slots
        if tiling.inp_slots == 1 or wgt_slots == 1 < chunks:
            return compute
        ahead = min(min(tiling.inp_slots, wgt_slots) / chunks, 1.0)
        return max(vectors - ahead * load, 0.0)

    def with_waits(self, tiling: Tiling, loops: LoopNest, modules: ModuleCycles) -> ModuleCycles:
        """Return the cycles with the waits of compute for weights, which are loaded into slots in
        turn.

        A chunk can be loaded when the one that had its slot before has been processed. Chunks
        differ: that of a residual's weights is small, but takes a slot, too. Programs for published
        bitstreams stay those whose cycles are published.
        """
        if tiling.keep_wgt or not self._accelerator.is_own:
            return modules
        size = TileSize(tiling.rows, tiling.cols, tiling.co, tiling.ci)
        waiting = self._ring_cycles(size, tiling, loops)
        return modules._replace(compute=max(modules.compute, waiting))

    def _ring_cycles(self, size: TileSize, tiling: Tiling, loops: LoopNest) -> float:
        """Return the cycles of compute if it waits for nothing but slots of weights."""
        vectors = self._vector_cycles(size, loops)
        chunks: list[tuple[float, float]] = []
        for index, source in enumerate(self._kernel.sources):
            blocks, count = self._shape.input_chunks(source, size)
            repeats = self._shape.repeats[index]
            pairs = 1 if source.shared else size.co * (1 if source.diagonal else blocks)
            count_bytes = source.weight_blocks * pairs * self._accelerator.wgt_bytes
            load = count_bytes / self._cost.weight_bytes_per_cycle
            load += self._cost.instruction_cycles + self._cost.dma_row_cycles
            products = self._product_cycles(index, size, loops)
            chunks += [(load, products / (loops.tiles * count * repeats))] * (count * repeats)
        loaded = computed = middle = 0.0
        ends: list[float] = [0.0] * tiling.wgt_slots  # of the last chunks, in turn
        for tile in range(RING_TILES):
            for n, (load, products) in enumerate(chunks, tile * len(chunks)):
                loaded = max(loaded, ends[n % tiling.wgt_slots]) + load
                computed = max(computed, loaded) + products
                ends[n % tiling.wgt_slots] = computed
            computed += vectors / loops.tiles
            if 2 * (tile + 1) == RING_TILES:
                middle = computed
        return (computed - middle) * 2 / RING_TILES * loops.tiles

    def _product_cycles(self, index: int, size: TileSize, loops: LoopNest) -> float:
        """Return the cycles of a source's products, without the loads of their uops."""
        shape, cost = self._shape, self._cost
        source, repeats = self._kernel.sources[index], shape.repeats[index]
        blocks, chunks = shape.input_chunks(source, size)
        blocks = 1 if source.diagonal else blocks
        sequence = int(shape.products[index] / loops.areas / repeats) + 1
        co_unrolled, ci_unrolled = loop_split(sequence, size.co, blocks)
        iterations = size.co / co_unrolled * blocks / ci_unrolled
        runs = loops.tiles * chunks * repeats
        pairs = self._kernel.co_blocks * source.ci_count * self._accelerator.parts
        steps = shape.products[index] * pairs
        return steps + runs * (cost.instruction_cycles + cost.loop_cycles * iterations)

    def _load_cycles(self, index: int, size: TileSize, tiling: Tiling, loops: LoopNest) -> float:
        """Return the cycles of loading a source's inputs and weights."""
        kernel, accelerator, shape, cost = self._kernel, self._accelerator, self._shape, self._cost
        source, again = kernel.sources[index], shape.repeats[index]
        blocks, chunks = shape.input_chunks(source, size)
        pixels = shape.patch(index, size.rows, size.cols).pixels
        rows, instructions = shape.load_rows(index, size.rows, size.cols, blocks)
        # Chunks that do not stay on chip are loaded again for every part.
        times = loops.areas * chunks * (again if chunks > tiling.inp_slots else 1)
        if source.diagonal or not tiling.keep_inp:
            times *= loops.channel_chunks
        inputs = pixels * source.ci_count / chunks
        if source.diagonal:
            inputs = pixels * (kernel.co_blocks / loops.channel_chunks)
        cycles = times * (
            inputs * accelerator.inp_bytes / cost.bytes_per_cycle
            + cost.load_latency(rows, instructions)
            + instructions * (cost.instruction_cycles + cost.tensor_load_cycles)
        )
        times = 1 if tiling.keep_wgt else loops.areas * (again if chunks > tiling.wgt_slots else 1)
        pairs = 1 if source.shared else kernel.co_blocks * source.ci_count
        return cycles + times * (
            source.weight_blocks * pairs * accelerator.wgt_bytes / cost.weight_bytes_per_cycle
            + chunks
            * loops.channel_chunks
            * (cost.dma_row_cycles + cost.instruction_cycles + cost.tensor_load_cycles)
        )


def _of_all_parts(cost: CostModel, parts: int) -> CostModel:
    """Return the costs with steps that compute all parts of an element."""
    return dataclasses.replace(
        cost,
        gemm_step_cycles=cost.gemm_step_cycles * parts,
        alu_step_cycles=cost.alu_step_cycles * parts,
        alu_vector_step_cycles=cost.alu_vector_step_cycles * parts,
    )
